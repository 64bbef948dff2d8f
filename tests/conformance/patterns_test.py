"""Every pattern of attention: who sees whom, FLOPs, caches, split sequences."""

import numpy as np
import pytest
from pattern_cases import (
    PatternCase,
    check_a_split_sequence,
    check_full_length,
    check_pairs,
    check_steps,
    check_who_sees_whom,
)

from etc_jax.layers.patterns.block_sparse import BlockSparse
from etc_jax.layers.patterns.blocks import Blocks
from etc_jax.layers.patterns.chunks import LocalChunks, LshChunks
from etc_jax.layers.patterns.flat import Flat
from etc_jax.layers.patterns.full import Causal, Full
from etc_jax.layers.patterns.global_local import GlobalLocal
from etc_jax.layers.patterns.local import Local, TransientGlobal
from etc_jax.layers.patterns.sliding_window import SlidingWindow
from etc_jax.layers.self_attention import Pattern
from etc_jax.ops.attention import pooled_block
from etc_jax.ops.attention.lsh import ChunkNeighbors


def offsets(ids):
    """Key minus query, int `[n, n]`."""
    place = np.arange(len(ids))
    return place[None] - place[:, None]


def everything(ids):
    return offsets(ids) == offsets(ids)


def before(ids):
    return offsets(ids) <= 0


def window(radius, step=1, *, causal=False):
    def sees(ids):
        offset = offsets(ids)
        near = (abs(offset) <= radius * step) & (offset % step == 0)
        return near & before(ids) if causal else near

    return sees


def window_or_globals(index):
    def sees(ids):
        special = np.isin(np.arange(len(ids)), index)
        return window(3)(ids) | special[None] | special[:, None]

    return sees


def blocks(reach, num_globals):
    def sees(ids):
        place = np.arange(len(ids))
        first = place[:, None] // 8 * 8
        near = (place >= first - reach) & (place < first + 8 + reach)
        special = place % 8 < num_globals
        return near | special[None] | special[:, None]

    return sees


def chunks(size, lookback, *, causal):
    """In a circle unless causal: the first chunk looks at the last one."""

    def sees(ids):
        n = len(ids)
        chunk, count = np.arange(n) // size, -(-n // size)
        back = chunk[:, None] - chunk[None]
        if not causal:
            back = back % count
        near = (back >= 0) & (back <= lookback)
        return near & before(ids) if causal else near

    return sees


GLOBALS = np.array([[0, 5, -1], [11, 2, -1]], np.int32)
CASES = {
    "full": PatternCase(Full(), everything),
    "causal": PatternCase(Causal(), before),
    "window": PatternCase(SlidingWindow(3), window(3)),
    "dilated": PatternCase(SlidingWindow(2, 3), window(2, 3)),
    "causal window": PatternCase(SlidingWindow(3, causal=True), window(3, causal=True)),
    "relative window": PatternCase(
        SlidingWindow(2, 2, True, relative=True), window(2, 2, causal=True)
    ),
    "window and globals": PatternCase(
        SlidingWindow(3),
        window_or_globals([11, 2]),
        packed=False,
        inputs={"global_index": GLOBALS[1:]},
    ),
    "local": PatternCase(Local(3), window(3)),
    "blocks": PatternCase(Blocks(pooled_block.Blocks(8)), blocks(0, 0)),
    "blocks with more": PatternCase(
        Blocks(pooled_block.Blocks(8, overlap=True, num_globals=2)), blocks(4, 2)
    ),
    "chunks": PatternCase(
        LocalChunks(ChunkNeighbors(8), causal=True), chunks(8, 1, causal=True)
    ),
}
# Who sees whom hangs on what is drawn, or on sums of tokens: their ops' own tests.
ELSEWHERE = {BlockSparse, LshChunks, Flat, GlobalLocal, TransientGlobal}
each = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def test_each_pattern_has_a_case():
    def below(kind):
        return {kind}.union(*map(below, kind.__subclasses__()))

    kinds = {x for x in below(Pattern) if x.__module__.startswith("etc_jax.")}
    kinds -= {Pattern}
    tried = {type(case.pattern) for case in CASES.values()}
    # A subclass that sees the same, as that of averages, is tried where it differs.
    assert {x for x in kinds if not issubclass(x, tuple(tried | ELSEWHERE))} == set()


@each
def test_who_sees_whom(case):
    check_who_sees_whom(case)


@each
def test_useful_flops_count_what_is_seen(case):
    check_pairs(case)


@each
def test_short_sequences_are_attended_whole(case):
    check_full_length(case)


@pytest.mark.parametrize(
    "name", ["causal", "causal window", "relative window", "chunks"]
)
def test_steps_from_a_cache(name):
    check_steps(CASES[name])


@pytest.mark.full(but=["full", "dilated", "blocks with more", "window and globals"])
@each
def test_split_sequences(case):
    check_a_split_sequence(case)
