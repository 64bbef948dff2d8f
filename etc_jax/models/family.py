"""What a family of models is: one record, registered under the family's name."""

from collections.abc import Callable, Mapping
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
    "sizes": "model_sizes",
    "weight_names": "weight_names",
    "exchange": "hugging_face",
    "extension": "extension",
}


class Family(NamedTuple):
    """The parts of a family; what it does not give is an error that says so.

    Attributes:
      config: frozen dataclass of sizes and choices, with `problems()`.
      sizes: configs of the sizes of its papers, by name.
      body: of encoders of one sequence, called as `models.encoder.body.Encoder`; what
        heads are put on, below "encoder" in the tree of parameters.
      masked_lm: see `objectives.masked_lm.MaskedModel`.
      causal_lm: see `objectives.causal_lm.CausalModel`.
      seq2seq: see `objectives.seq2seq.Seq2SeqModel`.
      decoder: see `generation.decoding.Decoder`.
      flops: see `useful_flops.Flops`.
      text_encoder: name of what makes vectors of texts by it, see
        `loading.text_encoder`: "sequence", "text_to_text" or "structured".
      weight_names: from a config to the rows (`conversion.engine`) of all weights, by
        the names of the project that they come from.
      exchange: see `conversion.exchange.Exchange`, under its `model_type`.
      extension: see `models.extension.Target`.
    """

    config: type
    sizes: Mapping[str, Any] | None = None
    body: type[nn.Module] | None = None
    masked_lm: type[nn.Module] | None = None
    causal_lm: type[nn.Module] | None = None
    seq2seq: type[nn.Module] | None = None
    decoder: Callable[[Any], Any] | None = None
    flops: Any = None
    text_encoder: str | None = None
    weight_names: Callable[[Any], tuple] | None = None
    exchange: Any = None
    extension: Any = None


def register(name: str, family: Family) -> Family:
    """Files all parts of a family under its name.

    Raises:
      ValueError: if a part of another family has the name.
    """
    registry.register("family", name)(family)
    for part, value in family._asdict().items():
        if part in KINDS and value is not None:
            of_other = part == "exchange" and value.model_type
            registry.register(KINDS[part], of_other or name)(value)
    return family


def find(name: str) -> Family:
    """That of a name.

    Raises:
      KeyError: if none is registered under it.
    """
    return registry.lookup("family", name)


def sizes() -> dict[str, Any]:
    """Configs of the sizes of papers, by `FAMILY_SIZE`."""
    return {
        f"{family}_{size}": config
        for family in registry.names("model_sizes")
        for size, config in registry.lookup("model_sizes", family).items()
    }


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
