"""What every pattern of attention promises, checked for one of them.

A case says in plain loops which tokens see which. The rest is asked of the pattern: who
reads whom is seen in the derivatives of a layer, token by token.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from etc_jax import sharding
from etc_jax.layers.self_attention import Pattern, SelfAttention, SequenceInputs
from etc_jax.ops.attention.row_cache import Newest

# Heads that do not share out the width.
HEADS, SIZE, WIDTH = 2, 3, 8
# Two packed examples, padding between and behind; and one with a token of padding.
IDS = np.zeros((2, 24), np.int32)
IDS[0, :13], IDS[0, 14:22], IDS[1, :23] = 1, 2, 1

# (example ids [n]) -> bool [n, n]: query i sees key j, wherever both are of an example.
Sees = Callable[[np.ndarray], np.ndarray]


class Sizes(NamedTuple):
    """What FLOPs read of a model's config."""

    num_heads: int = HEADS
    attention_head_dim: int = SIZE
    embed_dim: int = WIDTH


@dataclasses.dataclass(frozen=True)
class PatternCase:
    """A pattern, and what its tokens see.

    Attributes:
      pattern: with sizes that 24 tokens reach beyond.
      sees: within an example; see `Sees`.
      packed: packed examples work; otherwise each row of `IDS` holds one.
      inputs: further ones of `SequenceInputs`.
      options: of the layer, which may be other sizes.
      pairs: what one row counts, where it is another number than that of `sees`.
    """

    pattern: Pattern
    sees: Sees
    packed: bool = True
    inputs: dict[str, Any] = dataclasses.field(default_factory=dict)
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    pairs: Callable[[np.ndarray], float] | None = None

    @property
    def ids(self) -> np.ndarray:
        """Example ids `[b, n]`."""
        return IDS if self.packed else np.minimum(IDS, 1)[1:]

    def sequence(self, ids: np.ndarray) -> SequenceInputs:
        """What a layer is given."""
        return SequenceInputs(jnp.asarray(ids), **self.inputs)

    def seen(self, ids: np.ndarray) -> np.ndarray:
        """bool `[b, n, n]` from the case alone."""
        same = (ids[:, :, None] == ids[:, None]) & (ids > 0)[:, :, None]
        return same & np.stack([self.sees(row) for row in ids])

    def layer(self, **options: Any) -> SelfAttention:
        """Float64, so that what is not seen is exactly 0."""
        wide = {"dtype": jnp.float64, "param_dtype": jnp.float64, "stddev": 0.5}
        sizes = {"num_heads": HEADS, "head_dim": SIZE, "name": None}
        return self.pattern.module(**{**sizes, **wide, **self.options, **options})


def inputs_of(ids: np.ndarray) -> jax.Array:
    """float64 `[b, n, e]`."""
    return jax.random.normal(jax.random.key(1), (*ids.shape, WIDTH), jnp.float64)


def params_of(case: PatternCase, ids: np.ndarray) -> Any:
    """Drawn parameters of the layer."""
    layer, x = case.layer(), inputs_of(ids)
    return jax.jit(layer.init)(jax.random.key(0), x, case.sequence(ids))


def reads(case: PatternCase, ids: np.ndarray) -> np.ndarray:
    """bool `[b, n, n]`: whether the row of token i moves with token j's input."""
    layer, params = case.layer(), params_of(case, ids)

    def rows(x):
        # [b, n, e] -> [b, n]: rows of a batch do not meet.
        out, _ = layer.apply(params, x, case.sequence(ids))
        return out @ jnp.arange(1.0, WIDTH + 1)

    @jax.jit
    def derivatives(x):
        _, back = jax.vjp(rows, x)
        # For each row in turn: [n, b, n] -> [n, b, n, e], what moves it.
        of_row = jnp.repeat(jnp.eye(ids.shape[1])[:, None], len(ids), axis=1)
        return jax.vmap(back)(of_row)[0]

    # [n, b, n, e] -> [b, n, n]
    return np.moveaxis(np.abs(derivatives(inputs_of(ids))).max(-1), 0, 1) > 1e-12


def check_who_sees_whom(case: PatternCase) -> None:
    """Each token reads those of the case, of its example, and itself as the query."""
    ids = case.ids
    with jax.enable_x64(True):
        got = reads(case, ids)
    want = case.seen(ids)
    # The query itself is of token i, if it sees anything at all.
    itself = np.eye(ids.shape[1], dtype=bool)[None] & want.any(axis=2)[:, :, None]
    real = (ids > 0)[:, :, None] & np.ones_like(want)
    np.testing.assert_array_equal(got & real, (want | itself) & real)


def check_pairs(case: PatternCase) -> None:
    """FLOPs count the pairs that are seen."""
    inputs = case.sequence(case.ids)
    want = case.seen(case.ids).sum()
    if case.pairs is not None:
        want = sum(map(case.pairs, case.ids))
    assert case.pattern.visible_pairs(Sizes(), inputs) == want
    assert case.pattern.flops(Sizes(), inputs) > 4 * HEADS * SIZE * want


def check_full_length(case: PatternCase) -> None:
    """Up to `full_attention_length` all see all, or all before them; no further."""
    longest = case.pattern.full_attention_length
    two = case.sees(np.ones(2, np.int32))
    causal = two[1, 0] and not two[0, 1]
    for n in range(1, 24):
        seen = case.sees(np.ones(n, np.int32))
        whole = np.tri(n, dtype=bool) if causal else np.ones((n, n), bool)
        if longest is None or n <= longest:
            np.testing.assert_array_equal(seen, whole)
    if longest is not None and longest < 23:
        assert not case.sees(np.ones(23, np.int32))[whole].all()


def check_steps(case: PatternCase) -> None:
    """Token by token from a cache as all at once; patterns that look ahead cannot."""
    n, first = 12, 8
    ids = np.ones((2, n), np.int32)
    with jax.enable_x64(True):
        x, params = inputs_of(ids), params_of(case, ids)
        want, _ = jax.jit(case.layer().apply)(params, x, case.sequence(ids))
        cached = case.layer(cache_length=n)
        prompt = x[:, :first], case.sequence(ids[:, :first])
        _, cache = jax.jit(cached.apply)(params, *prompt)
        # [b, rows, h, d] -> [1, b, rows, h, d]: of one layer.
        cache = jax.tree.map(lambda a: a[None], cache)

        @jax.jit
        def step(cache, row, position):
            at = jnp.full((2,), position, jnp.int32)
            now = Newest(at, 0, length=at + 1)
            inputs = SequenceInputs(None, **case.inputs)._replace(newest=now)
            return cached.apply(params, row, inputs, None, cache)

        for i in range(first, n):
            got, cache = step(cache, x[:, i : i + 1], i)
            np.testing.assert_allclose(got[:, 0], want[:, i], atol=1e-12)


def check_a_split_sequence(case: PatternCase) -> None:
    """Over 8 devices as on one, where the pattern says that it can; else refused."""
    ids, layer = case.ids, case.layer()
    mesh = sharding.make_mesh(sharding.MeshConfig(data=1, sequence=8))
    with jax.enable_x64(True):
        x, params = inputs_of(ids), params_of(case, ids)
        apply = lambda: jax.jit(layer.apply)(params, x, case.sequence(ids))[0]  # noqa: E731
        want = apply()
        with jax.set_mesh(mesh), sharding.logical_rules(sharding.DEFAULT_RULES):
            if not case.pattern.splits_sequence:
                try:
                    apply()
                except ValueError as error:
                    assert type(case.pattern).__name__ in str(error)
                    return
                raise AssertionError("a split sequence was not refused")
            got = apply()
        np.testing.assert_allclose(got, want, atol=1e-12)
