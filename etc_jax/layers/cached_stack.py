"""A stack of two streams token by token: caches of a prompt, and steps that read them.

    stack = CachedStack.of(stack, params["stack"])
    streams, layers = stack.fill(x, SequenceInputs(example_ids), rng)
    streams, layers = stack.step(x, SequenceInputs(None, newest=newest), layers)

Where layers have cross-attention, `memory` is what `stack.memory_rows` gives: keys and
values that are made once, whatever the number of steps and of beams.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from etc_jax.layers import reversible as layers_lib
from etc_jax.layers.cross_attention import memory_projections
from etc_jax.layers.reversible import LayerKind, TwoStreamStack
from etc_jax.layers.self_attention import Memory, SequenceInputs
from etc_jax.ops import reversible
from etc_jax.ops.attention.memory_rows import MemoryRows

Streams = tuple[jax.Array, jax.Array]


class CachedStack(NamedTuple):
    """Layers of a stack, with caches, and their parameters.

    Attributes:
      kinds: the layers of a repeat; the first half of each has a cache.
      num_repeats: how many.
      params: of the halves of each layer of a repeat, with a leading axis of repeats.
    """

    kinds: tuple[LayerKind, ...]
    num_repeats: int
    params: list[tuple[Any, ...]]

    @classmethod
    def of(cls, stack: TwoStreamStack, params: Any) -> CachedStack:
        """The layers of a stack.

        Args:
          stack: whose attention has a `cache_length`.
          params: of it.
        """
        of_halves = layers_lib.params_of(params["layers"], stack.kinds)
        return cls(tuple(stack.kinds), stack.num_repeats, of_halves)

    def memory_rows(self, memory: Memory) -> MemoryRows:
        """Keys and values of all layers, `[repeats, kinds, b, h, n, d]`."""
        cross = self.kinds[0].halves["cross"]().cross_attention("cross_attention")
        maps = memory_projections(cross)
        halves_index = [list(kind.halves).index("cross") for kind in self.kinds]
        params_of_cross = [
            of_halves[index]["cross_attention"]
            for of_halves, index in zip(self.params, halves_index, strict=True)
        ]
        # [repeats, ...] of each kind of layer -> [repeats, kinds, ...]
        stacked = jax.tree.map(lambda *x: jnp.stack(x, axis=1), *params_of_cross)

        def project(params):
            return maps.apply({"params": params}, memory.rows)

        # [b, n, e] -> [repeats, kinds, b, h, n, d], twice.
        key, value = jax.vmap(jax.vmap(project))(stacked)
        return MemoryRows(key, value, memory.example_ids)

    def fill(
        self,
        x: jax.Array,
        shared: SequenceInputs,
        rng: jax.Array,
        memory: MemoryRows | None = None,
    ) -> tuple[Streams, tuple[Any, ...]]:
        """Runs a prompt.

        Args:
          x: `[b, n, e]`, both streams before the first layer.
          shared: of the prompt.
          rng: see `TwoStreamStack`.
          memory: of `memory_rows`; None: there is no cross-attention.

        Returns:
          (the streams after the last layer, the state of each layer of a repeat, with a
          leading axis of repeats).
        """
        rngs = layers_lib.keys_of_halves(rng, self.kinds, self.num_repeats)
        run = self._repeat(memory)

        def body(streams, of_repeat):
            return run(of_repeat, shared, streams, None)

        return jax.lax.scan(body, (x, x), (self.params, rngs, _by_repeats(memory)))

    def step(
        self,
        x: jax.Array,
        shared: SequenceInputs,
        layers: tuple[Any, ...],
        memory: MemoryRows | None = None,
    ) -> tuple[Streams, tuple[Any, ...]]:
        """Runs one token more.

        Args:
          x: `[b, 1, e]`, both streams before the first layer.
          shared: with `newest`, whose layer is set here.
          layers: the states of all layers.
          memory: see `fill`.

        Returns:
          (the streams after the last layer, their new states).
        """
        # No keys: nothing is dropped, and rotations are in the cache.
        rngs = [(None,) * len(kind.halves) for kind in self.kinds]
        run = self._repeat(memory)

        def body(carry, inputs):
            streams, states = carry
            layer, params, rows = inputs
            now = shared._replace(newest=shared.newest._replace(layer=layer))
            return run((params, rngs, rows), now, streams, states), None

        repeats = jnp.arange(self.num_repeats, dtype=jnp.int32)
        inputs = (repeats, self.params, _by_repeats(memory))
        # Caches are carried, so that each layer writes its rows where they are.
        (streams, states), _ = jax.lax.scan(body, ((x, x), layers), inputs)
        return streams, states

    def _repeat(self, memory: MemoryRows | None):
        """A function of one repeat: (streams, states of its layers)."""
        halves = layers_lib.functions_of(self.kinds)

        def run(of_repeat, shared, streams, states):
            params, rngs, rows = of_repeat
            new_states = []
            for i, of_layer in enumerate(halves):
                if memory is not None:
                    # [kinds, b, h, n, d] -> [b, h, n, d], twice.
                    of_kind = memory._replace(key=rows[0][i], value=rows[1][i])
                    shared = shared._replace(memory=of_kind)
                before = None
                if states is not None:
                    # Only attention to the sequence itself has a state.
                    before = (states[i], *(None,) * (len(of_layer) - 1))
                *streams, (after, *_) = reversible.layer(
                    of_layer, params[i], rngs[i], shared, *streams, before
                )
                new_states.append(after)
            return tuple(streams), tuple(new_states)

        return run


def _by_repeats(memory: MemoryRows | None):
    """What a scan over repeats reads of it; None: nothing."""
    return None if memory is None else (memory.key, memory.value)
