"""Windows, dilated or causal, and tokens among the others that are global."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from etc_jax import sharding
from etc_jax.base.types import LabelTable
from etc_jax.layers.common import Dense, sinusoids, truncated_normal
from etc_jax.layers.self_attention import Pattern, Projected, SequenceInputs
from etc_jax.ops import sequence
from etc_jax.ops.attention import sliding_window
from etc_jax.ops.attention.sliding_window import Globals
from etc_jax.ops.flops import attention, pairs_between, pairs_within, projection


@dataclasses.dataclass(frozen=True)
class SlidingWindow(Pattern):
    """Windows and global tokens (Beltagy et al. 2020); see `sliding_window.attend`.

    Attributes:
      radius: keys to each side.
      dilation: places from one key to the next, of all heads or of each.
      causal: no key after the query.
      relative: causal windows encode the offset of a key by products of queries and
        maps of sines of offsets (Dai et al. 2019, section 3.3).
    """

    reads: ClassVar[frozenset[str]] = frozenset({"global_index"})
    splits_sequence: ClassVar[bool] = True
    # Of the tokens that are global, and of all tokens for these.
    more_projections: ClassVar[tuple[str, ...]] = (
        "query_global",
        "key_global",
        "value_global",
    )

    radius: int
    dilation: int | tuple[int, ...] = 1
    causal: bool = False
    relative: bool = False

    @property
    def full_attention_length(self) -> int:
        """See `Pattern`."""
        return self.radius + 1 if self.dilation == 1 else 1

    @property
    def reach(self) -> dict[str, Any] | None:
        """See `Pattern`."""
        if not self.causal:
            return None
        return {"radius": self.radius, "dilation": self.dilation}

    @property
    def kernel_problem(self) -> str | None:
        """See `Pattern`."""
        return "positions are relative" if self.relative else None

    def attend(
        self, layer, projected: Projected, inputs: SequenceInputs, per_layer=None
    ) -> jax.Array:
        """See `Pattern.attend`."""
        del per_layer
        self._check_mesh(inputs)
        query, offsets = self._query(layer, projected)
        return sliding_window.attend(
            query,
            *projected.rows[1:],
            radius=self.radius,
            dilation=self.dilation,
            causal=self.causal,
            globals_=self._globals(layer, projected.x, inputs.global_index),
            offsets=offsets,
            bias=inputs.bias,
            sequence_axis=sharding.sequence_axis(),
            mesh_axes=sharding.mesh_axes(),
            **layer.options(),
            example_ids=inputs.example_ids,
        )

    def step(self, layer, projected: Projected, inputs: SequenceInputs, state):
        """See `Pattern.step`."""
        query, offsets = self._query(layer, projected)
        rows = (query, *projected.rows[1:])
        projected = projected._replace(rows=rows)
        return super().step(layer, projected, inputs, state, offsets=offsets)

    def _globals(self, layer, x: jax.Array, index: jax.Array | None) -> Globals | None:
        if index is None and layer.is_initializing() and not self.relative:
            # The projections are there whether a batch has global tokens or not.
            index = jnp.zeros((x.shape[0], 1), jnp.int32)
        if index is None:
            return None
        # [b, n, e] -> [b, g, e]; -1 reads row 0, which counts nowhere.
        rows = sequence.take_rows(x, jnp.maximum(index, 0), sharding.sequence_axis())
        query, key, value = self.more_projections
        return Globals(
            index,
            # [b, g, h, d] of these tokens, then [b, n, h, d] of all, twice.
            layer.project(query, rows),
            layer.project(key, x),
            layer.project(value, x),
        )

    def _check_mesh(self, inputs: SequenceInputs) -> None:
        steps = self.dilation
        differ = not isinstance(steps, int) and len(set(steps)) > 1
        split = [sharding.ways(axis) > 1 for axis in ("batch", "heads", "length")]
        if differ and all(split) and inputs.global_index is not None:
            # XLA's partitioner ends the process with a failed check.
            raise ValueError(
                "heads of different dilation, with global tokens, do not work on a "
                "mesh that splits batch, heads and sequence; leave mesh.tensor or "
                "mesh.sequence at 1"
            )

    def _steps(self, num_heads: int) -> tuple[int, ...]:
        """The dilation of each head."""
        steps = self.dilation
        return (steps,) * num_heads if isinstance(steps, int) else tuple(steps)

    def _query(self, layer, projected: Projected):
        """(queries with what they ask of any key, products of offsets or None).

        With relative positions the logit is (q + u) . key + (q + v) . E, with E of the
        offset: of q + u in place of q it is that query's product with the key and E,
        and (v - u) . E.
        """
        query = projected.rows[0]
        if not self.relative:
            return query, None
        steps, width = self._steps(layer.num_heads), projected.x.shape[-1]
        shape = (layer.num_heads, layer.head_dim)
        u, v = (
            layer.param(name, truncated_normal(layer.stddev), shape, layer.param_dtype)
            for name in ("key_bias", "offset_bias")
        )
        dense = Dense(
            shape,
            layer.stddev,
            layer.dtype,
            param_dtype=layer.param_dtype,
            use_bias=False,
            name="offset",
        )
        # [1, 2 * radius + 1], in steps of the dilation.
        offset = jnp.arange(-self.radius, self.radius + 1, dtype=jnp.int32)[None]
        # E of each head: [2 * radius + 1, h, d]
        embedding = jnp.zeros((2 * self.radius + 1, *shape), layer.dtype)
        for step in dict.fromkeys(steps):
            # bool [1, h, 1]: the heads of this dilation.
            of_step = np.array([s == step for s in steps])[None, :, None]
            # [2 * radius + 1, width] -> [2 * radius + 1, h, d]; one map for all steps.
            products = dense(sinusoids(offset * step, width)[0])
            embedding = jnp.where(of_step, products, embedding)
        wide = embedding.astype(jnp.promote_types(layer.dtype, jnp.float32))
        # (v - u) . E, summed in float32: [2 * radius + 1, h]
        bias = jnp.einsum("vhd,hd->vh", wide, (v - u).astype(wide.dtype))
        # [b, n, h, d] + [1, 1, h, d]
        return query + u.astype(query.dtype)[None, None], LabelTable(embedding, bias)

    def visible_pairs(self, config: Any, inputs: SequenceInputs) -> float:
        """See `Pattern.visible_pairs`: a mean over heads, which differ in dilation."""
        ids = np.asarray(inputs.example_ids)
        steps, index = self._steps(config.num_heads), np.arange(ids.shape[1])
        globals_ = _global_ids(ids, inputs.global_index)
        # A global token sees all, is seen by all, and is in no window.
        local = np.array(ids)
        if inputs.global_index is not None:
            row, column = np.nonzero(globals_)
            local[row, np.asarray(inputs.global_index)[row, column]] = 0
        total = 2.0 * pairs_between(globals_, ids) - pairs_between(globals_, globals_)
        for step in set(steps):
            last = index if self.causal else index + self.radius * step
            near = pairs_within(local, index - self.radius * step, last, step)
            total += near * steps.count(step) / len(steps)
        return total

    def flops(self, config: Any, inputs: SequenceInputs) -> float:
        """See `Pattern.flops`: with maps of global tokens and relative positions."""
        ids, total = np.asarray(inputs.example_ids), super().flops(config, inputs)
        width, inner = config.embed_dim, config.num_heads * config.attention_head_dim
        if num_globals := int(np.sum(_global_ids(ids, inputs.global_index) > 0)):
            # Keys and values of their own for all tokens, queries for the global ones.
            maps = 2 * int(np.sum(ids > 0)) + num_globals
            total += projection(maps, width, inner)
        if self.relative:
            kinds = len(set(self._steps(config.num_heads)))
            total += projection(kinds * (self.radius + 1), width, inner)
            # Products of queries with offsets, as many as with keys: half of all.
            total += attention(self.visible_pairs(config, inputs), config) / 2
        return total


def _global_ids(ids: np.ndarray, global_index) -> np.ndarray:
    """The example of each global token, 0 for none: `[b, g]`."""
    if global_index is None:
        return np.zeros((len(ids), 0), ids.dtype)
    index = np.asarray(global_index)
    # [b, n] at [b, g] -> [b, g]
    examples = np.take_along_axis(ids, np.maximum(index, 0), axis=1)
    return np.where(index >= 0, examples, 0)
