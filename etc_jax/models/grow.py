"""Models with a larger vocabulary: rows for tokens that training will learn.

What has a number for each token - token tables, logits, their bias - is known by its
shape in a model of more tokens, whatever the family calls it. New numbers are drawn as
those of a new model are. Old tokens keep their ids and their rows, so that inputs of
them alone give what they gave; that is checked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from etc_jax.base import registry
from etc_jax.conversion.engine import flatten, unflatten
from etc_jax.conversion.formats.native import family_of
from etc_jax.models.extension import RowsFn, check_difference, largest_difference
from etc_jax.ops import sampling

# Kinds that families register their modules under -> sequences that a module reads.
_KINDS = {"masked_lm_model": 1, "seq2seq_model": 2}


class Grown(NamedTuple):
    """A model with more tokens.

    Attributes:
      params: nested dict of numpy arrays.
      config: of the model.
      difference: the largest one of the logits of short inputs, of source and result,
        as a share of the largest logit.
    """

    params: dict[str, Any]
    config: Any
    difference: float


def grow(
    params: Mapping[str, Any], config: Any, number: int, *, seed: int = 0
) -> Grown:
    """The model with more tokens after those that it has.

    Args:
      params: of the module of a family, or of one with other heads over its body.
      config: of that model.
      number: of new tokens.
      seed: of their rows.

    Raises:
      ValueError: if there is no module to compare with, or the result differs from the
        source on tokens of the source.
    """
    target = dataclasses.replace(config, vocab_size=config.vocab_size + number)
    source = {path: np.asarray(leaf) for path, leaf in flatten(params).items()}
    abstract = flatten(jax.eval_shape(new_params_fn(target)))
    shapes = {path: leaf.shape for path, leaf in abstract.items()}
    # A model with other heads lacks some of those of its module: any numbers do.
    whole = source | _drawn(config, shapes.keys() - source.keys(), seed)
    longer = [p for p in whole if shapes.get(p, whole[p].shape) != whole[p].shape]
    new = _drawn(target, longer, seed)
    grown = whole | {p: _joined(whole[p], new[p]) for p in longer}
    before, after = (
        _logits_fn(c, p, config.vocab_size)
        for c, p in ((config, whole), (target, grown))
    )
    # No longer than what either side of the model takes.
    window = getattr(config, "max_target_length", config.max_length) - 1
    difference = largest_difference(before, after, config, window)
    check_difference(difference, "the model and the one with more tokens")
    return Grown(unflatten({p: grown[p] for p in source}), target, difference)


def _joined(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """An array with what a longer one has beyond it on one axis."""
    [axis] = np.flatnonzero(np.subtract(new.shape, old.shape))
    [more] = np.split(new, [old.shape[axis]], axis)[1:]
    return np.concatenate([old, more.astype(old.dtype)], axis)


def _module(config: Any) -> tuple[Any, int]:
    """(module of a model's family, sequences that it reads).

    Raises:
      ValueError: if the family has none.
    """
    family = family_of(config)
    for kind, sequences in _KINDS.items():
        if family in registry.names(kind):
            float32 = dataclasses.replace(config, dtype="float32")
            return registry.lookup(kind, family)(float32), sequences
    raise ValueError(
        f"family {family} has no module for masked tokens, nor one that writes texts; "
        "its vocabulary cannot grow"
    )


def new_params_fn(config: Any, seed: int = 0) -> Callable[[], dict[str, Any]]:
    """A function of nothing that gives the parameters of a new model.

    Args:
      config: of the model.
      seed: of its parameters.

    Raises:
      ValueError: if its family has no module of its own.
    """
    module, sequences = _module(config)
    tokens = [jnp.zeros((1, 1), jnp.int32)] * sequences
    return lambda: module.init(sampling.key(seed), *tokens)["params"]


def _drawn(config: Any, paths: Collection[str], seed: int) -> dict[str, np.ndarray]:
    """Some parameters of a new model; the others are not computed."""
    init = new_params_fn(config, seed)

    @jax.jit
    def some():
        every = flatten(init())
        return {path: every[path] for path in paths}

    return {path: np.asarray(leaf) for path, leaf in some().items()}


def _logits_fn(config: Any, flat: Mapping[str, np.ndarray], rows: int) -> RowsFn:
    """Logits of the first tokens of the vocabulary, as shares of the largest one."""
    module, sequences = _module(config)
    params = unflatten(flat)

    def logits(tokens: jax.Array, mask: jax.Array) -> jax.Array:
        inputs = [tokens] * sequences + [mask] * sequences
        values = module.apply({"params": params}, *inputs)[..., :rows]
        return values / jnp.abs(values).max()

    return jax.jit(logits)
