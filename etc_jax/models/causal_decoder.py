"""What decoders of causal models share."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from etc_jax.ops.attention.memory_rows import MemoryRows


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["layers", "position", "memory", "beam"],
    meta_fields=["length"],
)
@dataclasses.dataclass(frozen=True)
class Cache:
    """The state of a batch of sequences: caches of their layers, and where they end.

    Attributes:
      layers: the state of each layer of a run that is repeated, with a leading axis
        of repeats.
      position: int32 `[b]`, where the next token of each sequence stands.
      length: longest sequence that there is room for.
      memory: of an encoder, of all layers; None: there is none.
      beam: see `row_cache.Newest`; None: each sequence has its own rows.
    """

    layers: tuple[Any, ...]
    position: jax.Array
    length: int
    memory: MemoryRows | None = None
    beam: jax.Array | None = None

    @property
    def newest(self) -> jax.Array:
        """int32 `[b]`: the place of the next token, or the last one if it has none."""
        return jnp.minimum(self.position, self.length - 1)

    def with_own_rows(self) -> Cache:
        """The cache in which the next token of each beam is in its own rows."""
        if self.beam is None:
            return self
        b, k, _ = self.beam.shape
        rows, beam = jnp.arange(b)[:, None], jnp.arange(k, dtype=jnp.int32)[None]
        # [b * k] -> [b, k]
        position = self.newest.reshape(b, k)
        return dataclasses.replace(
            self, beam=self.beam.at[rows, beam, position].set(beam)
        )

    def with_token(
        self, layers: tuple[Any, ...], logits: jax.Array
    ) -> tuple[jax.Array, Cache]:
        """(logits `[b, vocabulary]`, NaN where there was no room; cache after it)."""
        # [b] -> [b, 1], beside logits [b, vocabulary].
        fits = (self.position < self.length)[:, None]
        cache = dataclasses.replace(self, layers=layers, position=self.position + 1)
        return jnp.where(fits, logits, jnp.nan), cache


def prompt_ids(tokens: jax.Array, lengths: jax.Array) -> jax.Array:
    """int32 `[b, n]`: 1 for each token of a prompt, 0 for the padding after it.

    Args:
      tokens: `[b, n]`.
      lengths: int `[b]`, tokens of each prompt.
    """
    position = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
    return (position < lengths[:, None]).astype(jnp.int32)


def last_rows(rows: Any, lengths: jax.Array) -> Any:
    """The row of each prompt's last token: arrays `[b, n, e]` -> `[b, 1, e]`."""
    last = (lengths - 1)[:, None, None]
    return jax.tree.map(lambda x: jnp.take_along_axis(x, last, axis=1), rows)


@dataclasses.dataclass(frozen=True)
class CausalDecoder:
    """Of a model whose config has `causal` and `input_limit`; see `decoding.Decoder`.

    Attributes:
      config: of the model.
      reads_beams: whether its attention reads `Cache.beam`; otherwise rows are copied.
    """

    reads_beams: ClassVar[bool] = False

    config: Any

    def repeat(self, cache: Cache, num_beams: int) -> Cache:
        """Each sequence `num_beams` times, side by side; see `decoding.Decoder`."""
        many = functools.partial(jnp.repeat, repeats=num_beams)
        b = cache.position.shape[0]
        beam = jnp.arange(num_beams, dtype=jnp.int32)[None, :, None]
        return dataclasses.replace(
            cache,
            # [layers, b, ...] -> [layers, b * k, ...]
            layers=self.of_rows(cache.layers, functools.partial(many, axis=1)),
            position=many(cache.position, axis=0),
            beam=jnp.broadcast_to(beam, (b, num_beams, cache.length))
            if self.reads_beams
            else None,
        )

    def follow(self, cache: Cache, parents: jax.Array) -> Cache:
        """Beams go on from those at `parents`, int `[b, k]`; see `decoding.Decoder`."""
        if cache.beam is not None:
            # [b, k, length]: which rows each goes on from, in place of the rows.
            index = parents[:, :, None]
            beam = jnp.take_along_axis(cache.beam, index, axis=1)
            return dataclasses.replace(cache, beam=beam)
        b, k = parents.shape
        # [b, k] -> [b * k]
        rows = (parents + k * jnp.arange(b)[:, None]).ravel()
        layers = self.of_rows(cache.layers, lambda x: jnp.take(x, rows, axis=1))
        return dataclasses.replace(cache, layers=layers)

    def of_rows(self, layers: Any, change: Callable[[jax.Array], jax.Array]) -> Any:
        """Changes all arrays `[layers, b, ...]` of the layers' states."""
        return jax.tree.map(change, layers)

    def check(self, length: int) -> None:
        """Raises ValueError if the model is not causal, or not so long."""
        if not self.config.causal:
            raise ValueError(
                "the model has causal=False: its tokens see those after them, so that "
                "it cannot continue a text; take a language model"
            )
        field, longest = self.config.input_limit
        check_length(length, longest, f"{field} is how many positions it has")


def check_length(length: int, longest: int | None, reason: str) -> None:
    """Refuses a sequence that is longer than a model writes.

    Args:
      length: tokens of the sequence.
      longest: of the model; None: any number.
      reason: which of its fields says so.

    Raises:
      ValueError: if it is longer, or has no token.
    """
    if length < 1 or (longest is not None and length > longest):
        expected = "1 or more" if longest is None else f"1..{longest}"
        raise ValueError(
            f"length is {length}, expected {expected}: the model's {reason}"
        )
