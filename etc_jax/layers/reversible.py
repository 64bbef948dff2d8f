"""Stacks of two streams: reversible, or with all activations kept for comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
from flax import linen as nn

from etc_jax.ops import reversible

# Makes a module called as (x, shared, state), giving (y, state); see `reversible.Half`.
MakeHalf = Callable[[], nn.Module]


class LayerKind(NamedTuple):
    """One layer of a repeat.

    Attributes:
      name: of its parameters.
      halves: each by the name of its parameters, made with `parent=None`: what the
        module reads beside its arguments is not traced.
    """

    name: str
    halves: Mapping[str, MakeHalf]


class TwoStreamStack(nn.Module):
    """Repeats of some layers over two streams; see `ops.reversible`.

    Parameters lie under "layers", those of each half of a layer of a repeat under their
    names, stacked on a leading axis of repeats.

    Attributes:
      kinds: the layers of a repeat, of different names, with as many halves each.
      num_repeats: how many.
      reversible: whether the backward pass works inputs out from outputs; otherwise
        all activations are kept.
    """

    kinds: Sequence[LayerKind]
    num_repeats: int
    reversible: bool = True

    def __call__(self, x1: Any, x2: Any, shared: Any, rng: jax.Array):
        """(streams, what all halves get, key) -> the streams after the stack.

        Args:
          x1: first stream.
          x2: second stream, of the same shapes.
          shared: see `ops.reversible.layer`.
          rng: key that the halves' streams "dropout" and "lsh" come from.
        """
        stack = reversible.stack if self.reversible else reversible.plain_stack
        return stack(*self._parts(x1, shared, rng), shared, x1, x2)

    def with_hidden(self, x1: Any, x2: Any, shared: Any, rng: jax.Array):
        """(streams, second streams `[repeats, b, n, e]`, states of the halves).

        Second streams and states are after each layer; arguments as of `__call__`.
        """
        layers, params, rngs = self._parts(x1, shared, rng)
        return reversible.layers_apart(layers, params, rngs, shared, x1, x2)

    @nn.compact
    def _parts(self, x, shared, rng):
        """(halves, their params, their keys)."""
        halves = [[make() for make in kind.halves.values()] for kind in self.kinds]

        def init(init_rng):
            keys = _split(init_rng, self.kinds, self.num_repeats)

            def of(half, keys):
                # Keys [repeats] -> parameters [repeats, ...].
                return jax.vmap(lambda rng: _init(half, rng, x, shared))(keys)

            return {
                kind.name: dict(
                    zip(kind.halves, map(of, of_layer, keys[i]), strict=True)
                )
                for i, (kind, of_layer) in enumerate(
                    zip(self.kinds, halves, strict=True)
                )
            }

        # The whole tree is one parameter of this module: halves are pure functions of
        # theirs, which the backward pass calls again.
        params = self.param("layers", init)
        rngs = keys_of_halves(rng, self.kinds, self.num_repeats)
        return functions_of(self.kinds), params_of(params, self.kinds), rngs


def functions_of(kinds: Sequence[LayerKind]) -> list[tuple[reversible.Half, ...]]:
    """The halves of each layer of a repeat."""
    return [tuple(_as_function(m()) for m in kind.halves.values()) for kind in kinds]


def params_of(layers: Any, kinds: Sequence[LayerKind]) -> list[tuple[Any, ...]]:
    """The parameters of each half, of what lies under "layers"."""
    return [tuple(layers[kind.name][half] for half in kind.halves) for kind in kinds]


def keys_of_halves(
    rng: jax.Array, kinds: Sequence[LayerKind], num_repeats: int
) -> list[tuple[jax.Array, ...]]:
    """For each half of each layer of a repeat, keys `[num_repeats]`."""
    return [tuple(keys) for keys in _split(rng, kinds, num_repeats)]


def _split(rng: jax.Array, kinds: Sequence[LayerKind], num_repeats: int) -> jax.Array:
    return jax.random.split(rng, (len(kinds), len(kinds[0].halves), num_repeats))


def _streams(rng: jax.Array) -> dict[str, jax.Array]:
    dropout, lsh = jax.random.split(rng)
    # Both come from a key that is kept, so that a replayed half draws the same.
    return {"dropout": dropout, "lsh": lsh}


def _init(half: nn.Module, rng: jax.Array, x, shared) -> Any:
    rng, other = jax.random.split(rng)
    return half.init({"params": rng, **_streams(other)}, x, shared)["params"]


def _as_function(half: nn.Module) -> reversible.Half:
    def apply(params, x, rng, shared, state):
        # Steps of a cache draw nothing, and have no key.
        rngs = {} if rng is None else _streams(rng)
        return half.apply({"params": params}, x, shared, state, rngs=rngs)

    return apply
