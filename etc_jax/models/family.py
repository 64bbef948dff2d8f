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


def make_body(
    config: Any,
    deterministic: bool = True,
    *,
    with_pooler: bool = False,
    name: str | None = None,
) -> nn.Module:
    """The body of the family that a config is of.

    Args:
      config: of an encoder.
      deterministic: no dropout.
      with_pooler: it has a map of the first row, which is BERT's: bodies without one
        are not asked for it.
      name: of the module.

    Raises:
      ValueError: if the config is of no registered family.
      KeyError: if its family has no body that heads can be put on.
    """
    family = registry.name_of("model_config", type(config))
    body = registry.lookup("encoder_body", family)
    pooler = {"with_pooler": True} if with_pooler else {}
    return body(config, deterministic, **pooler, name=name)
