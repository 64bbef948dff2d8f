"""What the tests of lifting share: models, checkpoints, runs."""

import functools

import jax
import numpy as np

from etc_jax.base.types import Rows
from etc_jax.models.encoder.config import EncoderConfig
from etc_jax.models.etc.body import NOTHING, EtcForPretraining
from etc_jax.models.etc.config import EtcConfig
from etc_jax.models.etc.lift import LiftOptions, lift, lifted_config
from etc_jax.structure import Structure

# Everything as the source has it.
SAME = LiftOptions(
    positions="copy", types="copy", activation="source", epsilon="source"
)


def config_for(source: EncoderConfig, **changes) -> EtcConfig:
    """An ETC of the source's sizes without labels, every pair within its radius."""
    sizes = {
        "vocab_size": source.vocab_size,
        "embed_dim": source.embed_dim,
        "num_layers": source.num_layers,
        "num_heads": source.num_heads,
        "mlp_dim": source.mlp_dim,
        "radius": source.max_length,
        "max_distance": 0,
        "num_labels": None,
        "hard_g2l": False,
        "attention": "dense",
    }
    return EtcConfig(**{**sizes, **changes})


@functools.cache
def fresh_params(config: EtcConfig):
    """Stands for the initialised parameters of the model with its heads.

    Without compiling an initialiser: biases are 0, scales 1, the rest random.
    """
    ids = np.zeros((1, 1), np.int32)
    one = Structure(ids + 1, ids + 1, np.zeros((1, 1, 1), np.int16))
    model = EtcForPretraining(config)
    abstract = jax.eval_shape(model.init, jax.random.key(0), ids, ids, one, ids)
    rng = np.random.default_rng(0)

    def begin(path, leaf):
        name = path[-1].key
        if name in ("bias", "mlm_bias", "scale"):
            return np.full(leaf.shape, float(name == "scale"), leaf.dtype)
        return np.asarray(rng.normal(size=leaf.shape), leaf.dtype)

    return jax.tree_util.tree_map_with_path(begin, abstract["params"])


def lifted(source, weights, options=SAME, **changes):
    """(config, parameters, report)."""
    config = lifted_config(source, config_for(source, **changes), options)
    params, report = lift(weights, source, fresh_params(config), config, options)
    return config, params, report


def run(config, params, tokens: Rows, mask: Rows, types: Rows = NOTHING) -> Rows:
    """The encoder's output; `mask` is 1 for real tokens."""
    n = tokens.long.shape[1]
    links = np.full((*tokens.long.shape, 1), -1, np.int16)
    structure = Structure(mask.long, mask.global_, links[:, :n])
    model = EtcForPretraining(config)

    def apply(params):
        return model.apply(
            {"params": params},
            *tokens,
            structure,
            method=lambda m, *given: m.encoder(*given, types=types),
        )

    with jax.default_matmul_precision("highest"):
        return jax.device_get(jax.jit(apply)(params))


def run_long(config, params, ids, mask, types=None) -> np.ndarray:
    """The output of long tokens where there are no global ones: `[b, n, e]`."""
    none = np.zeros((len(ids), 0), np.int32)
    return run(
        config, params, Rows(ids, none), Rows(mask, none), Rows(types, None)
    ).long


def mlm_logits(config, params, output) -> np.ndarray:
    """Logits at every place of `[b, n, e]`."""
    places = np.broadcast_to(np.arange(output.shape[1]), output.shape[:2])
    with jax.default_matmul_precision("highest"):
        return EtcForPretraining(config).apply(
            {"params": params}, output, places, method="mlm_logits"
        )
