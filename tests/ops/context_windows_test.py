"""Windows of SLED, by appendix A of the paper, for all lengths."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from etc_jax.ops.context_windows import CollectedRows, Windows

CUTS = [Windows(1, 0), Windows(4, 1), Windows(6, 0), Windows(5, 2), Windows(8, 2)]
EACH = pytest.mark.parametrize(
    "windows", CUTS, ids=lambda w: f"c={w.size}, P={w.margin}"
)


def by_the_paper(n, size, margin):
    """[(first token, end, tokens that are kept)] of each window, in plain words."""
    if n <= size:
        return [(0, n, list(range(n)))]
    # The first keeps all but the context on its right.
    found, kept = [(0, size, list(range(size - margin)))], size - margin
    while kept < n:
        start = kept - margin
        if start + size < n:
            mine = list(range(kept, kept + size - 2 * margin))
            found.append((start, start + size, mine))
        else:
            # The last one ends with the text, and keeps what nothing kept before.
            mine = list(range(kept, n))
            found.append((n - size, n, mine))
        kept = mine[-1] + 1
    return found


@EACH
@pytest.mark.full(but=["c=4, P=1", "c=1, P=0", "c=5, P=2"])
def test_windows_are_those_of_the_paper(windows):
    longest = 4 * windows.size
    keeper_of = jax.jit(lambda n: windows.keeper(n, jnp.arange(longest)))
    start_of = jax.jit(windows.start)
    for n in range(1, longest + 1):
        want = by_the_paper(n, *windows)
        assert windows.count(n) == len(want)
        keeper = np.asarray(keeper_of(np.int32(n)))[:n]
        for number, (start, end, kept) in enumerate(want):
            assert int(start_of(np.int32(n), np.int32(number))) == start
            assert min(start + windows.size, n) == end
            np.testing.assert_array_equal(np.nonzero(keeper == number)[0], kept)


@EACH
@pytest.mark.full(but=["c=4, P=1", "c=1, P=0"])
def test_every_token_is_kept_once_with_its_context(windows):
    """Rows are made of the windows themselves: a row says where its token stood."""
    longest = 4 * windows.size
    lengths = jnp.arange(1, longest + 1)
    tokens = jnp.broadcast_to(jnp.arange(1, longest + 1), (longest, longest))
    tokens = jnp.where(jnp.arange(longest)[None] < lengths[:, None], tokens, 0)
    count = windows.count(longest)

    @functools.partial(jax.jit, static_argnums=0)
    def joined(at_once):
        kept = CollectedRows.none(windows, longest, 2, jnp.int32)
        inner = []
        for first in range(0, count, at_once):
            number = jnp.arange(first, min(first + at_once, count))
            cut = windows.cut(tokens, lengths, number)
            place = jnp.broadcast_to(jnp.arange(windows.size), cut.shape)
            rows = jnp.stack([cut, place], axis=-1)
            kept, mine = kept.with_rows(windows, lengths, number, rows)
            inner.append(mine.reshape(longest, -1, 2))
        return kept.joined(windows, lengths, jnp.concatenate(inner, axis=1), longest)

    for at_once in {1, 2, count}:
        rows = joined(at_once)
        for row, n in zip(np.asarray(rows), range(1, longest + 1), strict=True):
            np.testing.assert_array_equal(row[:n, 0], np.arange(1, n + 1))
            for i, place in enumerate(row[:n, 1]):
                size = min(windows.size, n)
                # As much context on each side as P, or as there is text.
                assert place >= min(windows.margin, i)
                assert size - 1 - place >= min(windows.margin, n - 1 - i)
