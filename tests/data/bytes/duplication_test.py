"""Sequences 0w0w: what is told, what counts, and that no two are alike."""

import numpy as np
import pytest

from etc_jax.data.bytes.duplication import DuplicationReader


def reader(**changes):
    options = {"length": 12, "num_symbols": 9, "batch_size": 4, "seed": 0}
    return DuplicationReader(**(options | changes))


def test_the_second_half_says_the_first_again():
    batch = reader().batch_at(3)
    targets = batch["targets"]
    np.testing.assert_array_equal(targets[:, :6], targets[:, 6:])
    assert (targets[:, 0] == 0).all() and (targets[:, 1:6] > 0).all()
    assert targets.max() == 8
    np.testing.assert_array_equal(batch["tokens"][:, 1:], targets[:, :-1])
    assert (batch["tokens"][:, 0] == 0).all()
    np.testing.assert_array_equal(batch["target_weights"], [[0] * 7 + [1] * 5] * 4)


def test_rows_are_drawn_anew_and_by_the_step():
    readers = [reader(num_symbols=100, evaluation=flag) for flag in (False, True)]
    batches = [x.batch_at(step)["targets"] for x in readers for step in range(50)]
    rows = {tuple(row) for batch in batches for row in batch.tolist()}
    assert len(rows) == 2 * 50 * 4


@pytest.mark.parametrize("length", [3, 7, 2])
def test_lengths_without_two_equal_halves_are_refused(length):
    with pytest.raises(ValueError, match="0w0w needs an even length of 4 or more"):
        reader(length=length)


def test_one_symbol_is_too_few():
    with pytest.raises(ValueError, match="data.vocab_size is 2; expected 3 or more"):
        reader(num_symbols=2)
