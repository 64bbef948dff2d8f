"""What a family of models is: one record, registered under the family's name."""

from collections.abc import Callable
from typing import Any, NamedTuple

from flax import linen as nn

from etc_jax.base import registry

# Kinds of the registry that the parts of a family are looked up under.
KINDS = {
    "config": "model_config",
    "body": "encoder_body",
    "masked_lm": "masked_lm_model",
    "causal_lm": "causal_lm_model",
    "seq2seq": "seq2seq_model",
    "decoder": "decoder",
    "flops": "useful_flops",
    "text_encoder": "text_encoder",
    "exchange": "hugging_face",
}


class Family(NamedTuple):
    """The parts of a family; what it does not give is an error that says so.

    Attributes:
      config: frozen dataclass of sizes and choices, with `problems()`.
      body: of encoders of one sequence, called as `models.encoder.body.Encoder`; what
        heads are put on, below "encoder" in the tree of parameters.
      masked_lm: see `objectives.masked_lm.MaskedModel`.
      causal_lm: see `objectives.causal_lm.CausalModel`.
      seq2seq: see `objectives.seq2seq.Seq2SeqModel`.
      decoder: see `generation.decoding.Decoder`.
      flops: see `useful_flops.Flops`.
      text_encoder: see `loading.text_encoder.TextEncoder`.
      exchange: see `conversion.families.exchange.Exchange`, under the family's name.
    """

    config: type
    body: type[nn.Module] | None = None
    masked_lm: type[nn.Module] | None = None
    causal_lm: type[nn.Module] | None = None
    seq2seq: type[nn.Module] | None = None
    decoder: Callable[[Any], Any] | None = None
    flops: Any = None
    text_encoder: Callable[[Any], Any] | None = None
    exchange: Any = None


def register(name: str, family: Family) -> Family:
    """Files all parts of a family under its name.

    Raises:
      ValueError: if a part of another family has the name.
    """
    for part, value in family._asdict().items():
        if value is not None:
            registry.register(KINDS[part], name)(value)
    return family


def body_of(config: Any) -> type[nn.Module]:
    """The body of encoders with such a config, made as `body(config, deterministic)`.

    Raises:
      ValueError: if it is of no registered family.
      KeyError: if its family has no body that heads can be put on.
    """
    name = registry.name_of("model_config", type(config))
    return registry.lookup("encoder_body", name)
