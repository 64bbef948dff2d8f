"""Chunks of blocks: how much of the work is padding, off CPU and on it."""

import functools
import itertools

import numpy as np
import pytest

from etc_jax.ops import blocking
from etc_jax.ops.attention import block_sparse, lsh
from etc_jax.ops.attention.parts import sizes

HEADS = 12
# Batch rows of one device, and lengths: powers of two, and others.
BATCHES = range(1, 33)
ROUND = tuple(2**i for i in range(9, 15))
AWKWARD = (*range(512, 16_385, 365), 832, 1_089, 2_047, 4_097, 12_289, 16_383)


def chunks_of_blocks(radius, globals_, n, rows):
    """(blocks, blocks at once) of ETC's and Longformer's windows."""
    size, chunk = sizes.block_sizes(n, globals_, radius, rows)
    return -(-n // size), chunk


def chunks_of_block_sparse(num_globals, n, rows):
    count = block_sparse.drawing_blocks(n, 64, num_globals)
    seen = 3 + (-(-num_globals // 64) or 2) + 3
    return count, sizes.even_chunk(count, rows, 64, 64 * seen, 1)


def chunks_of_lsh(rounds, n, rows):
    look = lsh.ChunkNeighbors(64)
    count = rounds * look.padded(n) // 64
    return count, sizes.even_chunk(count, rows, 64, 128, 1)


OPS = {
    "ETC base": functools.partial(chunks_of_blocks, 84, 230),
    "ETC large": functools.partial(chunks_of_blocks, 169, 460),
    "Longformer": functools.partial(chunks_of_blocks, 256, 64),
    "full": functools.partial(chunks_of_blocks, 0, 0),
    "BigBird, internal": functools.partial(chunks_of_block_sparse, 0),
    "BigBird, globals": functools.partial(chunks_of_block_sparse, 256),
    "LSH, 4 rounds": functools.partial(chunks_of_lsh, 4),
    "local chunks": functools.partial(chunks_of_lsh, 1),
}


def paddings(op, lengths):
    """Blocks worked on over blocks that there are, for all batches and lengths."""
    found = []
    for batch, n in itertools.product(BATCHES, lengths):
        count, chunk = OPS[op](n, batch * HEADS)
        found.append(-(-count // chunk) * chunk / count)
    return np.array(found)


@pytest.mark.parametrize("bytes_", [2**22, 2**28], ids=["cpu", "other"])
@pytest.mark.parametrize("op", OPS)
def test_little_of_the_work_is_padding(op, bytes_, monkeypatch):
    monkeypatch.setattr(blocking, "step_bytes", lambda: bytes_)
    for name, lengths in (("powers of two", ROUND), ("awkward", AWKWARD)):
        found = paddings(op, lengths)
        shown = f"{found.mean():.4f} mean, {found.max():.4f} worst"
        print(f"\n| {op} | {name} | {shown} |", end="")
        assert found.mean() <= 1.02
        assert found.max() <= 1.13


def test_the_papers_base_with_three_rows_works_on_no_padding(monkeypatch):
    monkeypatch.setattr(blocking, "step_bytes", lambda: 2**28)
    # 63 blocks of 64 would be within the bytes of a step, and 8,064 tokens' work.
    assert sizes.block_sizes(4096, 230, 84, 3 * HEADS) == (64, 32)


@pytest.mark.parametrize("count", [1, 2, 5, 12, 13, 17, 64, 97, 256])
def test_chunks_stay_within_the_bytes_of_a_step(count, monkeypatch):
    monkeypatch.setattr(blocking, "step_bytes", lambda: 1000)
    for logits in range(12, 1200, 12):
        chunk = sizes.even_chunk(count, 1, 3, logits // 12, 1)
        assert chunk == 1 or chunk * logits <= 1000
        # No chunk is padding alone, and there are below four times the least number.
        assert -count % chunk < chunk
        least = -(-count // max(1, min(count, 1000 // logits)))
        assert -(-count // chunk) < 4 * least


@pytest.mark.parametrize(
    "rows, shards, chunks", [(2, 1, 32), (512, 256, 32), (512, 1, 1), (4, 3, 32)]
)
def test_chunks_of_lsh_go_by_the_rows_of_one_device(rows, shards, chunks, monkeypatch):
    monkeypatch.setattr(blocking, "step_bytes", lambda: 4 * 2 * 64 * 128 * 40)
    order = lsh.Order(np.zeros((rows, 4096), np.int32))
    assert (
        lsh._chunks_at_once(order, lsh.ChunkNeighbors(64), rows, None, shards) == chunks
    )
