"""Encoder-decoders as Hugging Face writes them, both ways.

A family gives the rows of its weights, as `names` of its `Family`, and `Keys`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from etc_jax.base import registry
from etc_jax.conversion.config_rules import check_sizes, layers_in
from etc_jax.conversion.engine import (
    TRANSPOSE,
    Report,
    Row,
    compose,
    export_params,
    import_params,
    split_first,
    split_last,
)
from etc_jax.conversion.exchange import Exchange
from etc_jax.conversion.formats.native import family_of
from etc_jax.conversion.renaming import LayerRuns, Renamed, tied
from etc_jax.models.encoder_decoder.body import EncoderDecoder
from etc_jax.models.encoder_decoder.config import EncoderDecoderConfig
from etc_jax.models.encoder_decoder.hf_config import (
    Keys,
    config_from_hf,
    config_to_hf,
    keys_of,
)

LOGITS_BIAS = "final_logits_bias"
LOGITS = "lm_head.weight"
TABLE = "shared.weight"
# Names of one array, the token table.
TIED = (TABLE, "encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
# Old T5s have one in their cross-attention, which nothing reads.
_UNREAD = r"decoder\.block\.0\.layer\.1\..*\.relative_attention_bias\.weight"


def projections(side: Any) -> tuple[Any, Any, Any]:
    """(of queries, keys and values; of their biases; of the output)."""
    split = split_last(side.num_heads)
    out = compose(TRANSPOSE, split_first(side.num_heads))
    return compose(TRANSPOSE, split), split, out


def layer_path(side: str, i: int = 0, stack: str = "stack") -> str:
    """Of layer `i` of a run, in the tree of parameters."""
    return f"{side}/{stack}/layers/period/layer_{i}/"


def runs_of(config: EncoderDecoderConfig) -> LayerRuns:
    """By which rows name the layers of the encoder."""
    side = config.encoder_side
    top = side.num_layers - side.top_layers if side.top_layers else None
    return LayerRuns("encoder.layers", len(config.patterns), top)


def names(config: EncoderDecoderConfig) -> tuple[Row, ...]:
    """Rows for all weights by the names of `_common`."""
    return registry.lookup("weight_names", family_of(config))(config)


def _common(source: Mapping[str, np.ndarray], config) -> Renamed:
    """Weights without the prefix, which those of a body alone do not have."""
    prefix, runs = keys_of(config).body, runs_of(config)
    of_body = not any(name.startswith(prefix) for name in source)

    def back(name: str) -> str:
        alone = of_body or name in (LOGITS, LOGITS_BIAS)
        return runs.join(name) if alone else f"{prefix}{runs.join(name)}"

    weights = Renamed(source, lambda x: runs.split(x.removeprefix(prefix)), back)
    return untied(weights, config)


def untied(weights: Renamed, config: EncoderDecoderConfig) -> Renamed:
    """The weights with one name for the token table.

    Raises:
      ValueError: if it is there twice, and not equal.
    """
    names = (*TIED, LOGITS) if config.tied_logits else TIED
    return tied(weights, names)


def shapes(config: EncoderDecoderConfig) -> Any:
    """Of the parameters of `EncoderDecoder`, as `jax.eval_shape` gives them."""
    model, tokens = EncoderDecoder(config), jnp.zeros((1, 1), jnp.int32)
    init = model.init
    return jax.eval_shape(lambda: init(jax.random.key(0), tokens, tokens))["params"]


def import_hf(
    source: Mapping[str, np.ndarray], config: EncoderDecoderConfig, abstract: Any
) -> tuple[dict[str, Any], Report]:
    """Weights of a checkpoint -> parameters of `EncoderDecoder`.

    Args:
      source: name of transformers -> array of its shape there.
      config: of the checkpoint.
      abstract: of the parameters, see `engine.import_params`.

    Raises:
      ConversionError, ValueError: naming everything that does not fit.
    """
    return import_named(_common(source, config), config, abstract)


def import_named(
    weights: Renamed, config: EncoderDecoderConfig, abstract: Any
) -> tuple[dict[str, Any], Report]:
    """The same of weights by the names of `names`."""
    # Checkpoints of a body alone have no bias of logits, which is zeros then.
    allowed = ("logits_bias",) if LOGITS_BIAS not in weights else ()
    params, report = import_params(
        *(names(config), weights, abstract),
        allow_missing=allowed,
        allow_unused=(_UNREAD,),
    )
    for name in report.missing:
        params[name] = np.zeros(abstract[name].shape, abstract[name].dtype)
    return params, report


def _check_sizes(weights: Renamed, config: EncoderDecoderConfig) -> None:
    """Refuses weights of another size than the config says, which are only looked at.

    Raises:
      ValueError: naming the keys of config.json.
    """
    size, keys = weights.size, keys_of(config)
    originals = [runs_of(config).join(name) for name in weights]
    pairs = {
        "vocab_size": (config.vocab_size, size(TABLE, 0)),
        "d_model": (config.embed_dim, size(TABLE, 1)),
    }
    sides = {"encoder": config.encoder_side, "decoder": config.decoder_side}
    for key, (name, side) in zip(keys.counts, sides.items(), strict=True):
        pairs[key] = side.num_layers, layers_in(originals, f"{name}.{keys.layers}")
    if config.positions == "learnt":
        for name, side in sides.items():
            rows = size(f"{name}.embed_positions.weight", 0)
            rows = None if rows is None else rows - config.position_offset
            pairs[f"positions of the {name}"] = side.max_length, rows
    check_sizes(pairs)


def read_hf(
    values: Mapping[str, Any],
    source: Mapping[str, np.ndarray],
    config: EncoderDecoderConfig,
) -> tuple[dict[str, Any], Report]:
    """All that a checkpoint has, arrays of their shapes there; see `import_hf` and
    `exchange.Exchange`.
    """
    del values
    _check_sizes(_common(source, config), config)
    return import_hf(source, config, shapes(config))


def export_hf(
    params: Mapping[str, Any], config: EncoderDecoderConfig
) -> dict[str, Any]:
    """The inverse of `import_hf`."""
    prefix, exported = keys_of(config).body, export_named(params, config)
    return {
        name if name == LOGITS_BIAS else f"{prefix}{name}": array
        for name, array in exported.items()
    }


def export_named(
    params: Mapping[str, Any], config: EncoderDecoderConfig
) -> dict[str, Any]:
    """Weights by the names of transformers, without what stands before the body's."""
    join, exported = runs_of(config).join, export_params(names(config), params)
    return {join(name): array for name, array in exported.items()}


def values_to_hf(
    params: Mapping[str, Any], config: EncoderDecoderConfig
) -> dict[str, Any]:
    """The content of a `config.json`; see `exchange.Exchange`."""
    del params
    return config_to_hf(config)


def exchange_of(
    config_class: type[EncoderDecoderConfig], keys: Keys, **more: Any
) -> Exchange:
    """How the models of such configs are exchanged, by the keys of the family."""
    functions = config_from_hf, read_hf, export_hf, values_to_hf
    return Exchange(config_class, *functions, facts=keys, **more)
