"""Masked rows: what is hidden can be put back, draws depend on the place alone."""

import numpy as np
import pytest
from toy_text import restored
from window_samples import assert_same

from etc_jax.data.bytes import stream as byte_stream
from etc_jax.data.bytes.masked import BYTE_MASK, MaskedBytes
from etc_jax.data.pretraining import masking

STREAM = np.random.default_rng(0).integers(0, 256, 5000).astype(np.uint8)
LENGTH = 40


def part_of(start=0, stop=5000):
    return byte_stream.StreamSlice(STREAM, start, stop)


def of_bytes(batch_size=4, seed=3, capacity=6, mlm=0.15, length=LENGTH, **parts):
    windows = byte_stream.ByteReader(
        part_of(**parts), length=length, batch_size=batch_size, seed=seed
    )
    shares = masking.MaskingShares(mlm=mlm)
    options = {"batch_size": batch_size, "seed": seed, "capacity": capacity}
    return windows, MaskedBytes(windows, shares=shares, **options)


def evaluation(start, stop, scored, batch_size=4):
    windows = byte_stream.ByteEvaluation(
        part_of(start, stop), length=LENGTH, scored=scored, batch_size=batch_size
    )
    return windows, MaskedBytes(windows, batch_size=batch_size, seed=3, capacity=6)


def test_each_row_hides_its_share_and_the_targets_put_it_back():
    windows, reader = of_bytes()
    batch = reader.batch_at(5)
    np.testing.assert_array_equal(restored(batch), windows.batch_at(5)["targets"])
    assert (batch["mlm_weights"] == 1).all()  # 15 % of 40 are 6 in every row
    assert (np.diff(batch["mlm_positions"], axis=1) > 0).all()
    assert (batch["example_ids"] == 1).all() and (batch["mlm_overflow"] == 0).all()
    assert {name: array.dtype.name for name, array in batch.items()} == {
        **dict.fromkeys(
            ("tokens", "example_ids", "mlm_positions", "mlm_targets"), "int32"
        ),
        "mlm_weights": "float32",
        "mlm_overflow": "int32",
    }


def test_chosen_bytes_become_the_mask_another_byte_or_stay():
    windows, reader = of_bytes(batch_size=16, length=400, capacity=60)
    shown, targets = [], []
    for step in range(20):
        batch = reader.batch_at(step)
        shown.append(np.take_along_axis(batch["tokens"], batch["mlm_positions"], 1))
        targets.append(batch["mlm_targets"])
    shown, targets = np.concatenate(shown), np.concatenate(targets)
    same, masked = np.mean(shown == targets), np.mean(shown == BYTE_MASK)
    assert masked == pytest.approx(0.8, abs=0.01)
    assert same == pytest.approx(0.1 + 0.1 / 256, abs=0.01)
    others = shown[(shown != targets) & (shown != BYTE_MASK)]
    assert set(np.unique(others)) == set(range(256))


def test_a_row_depends_on_its_place_alone():
    _, reader = of_bytes()
    _, wide = of_bytes(batch_size=12)
    assert_same(wide.batch_at(100, slice(0, 4)), reader.batch_at(300))


def test_epochs_and_seeds_mask_otherwise():
    _, reader = of_bytes(stop=LENGTH, batch_size=1)  # one window, again and again
    first, second = reader.batch_at(0), reader.batch_at(1)
    np.testing.assert_array_equal(restored(first), restored(second))
    assert (first["mlm_positions"] != second["mlm_positions"]).any()
    _, other = of_bytes(stop=LENGTH, batch_size=1, seed=4)
    assert (other.batch_at(0)["mlm_positions"] != first["mlm_positions"]).any()


def test_more_than_there_is_room_for_is_counted_and_left():
    windows, reader = of_bytes(mlm=0.5, capacity=6)
    batch = reader.batch_at(0)
    assert (batch["mlm_overflow"] == 14).all() and batch["mlm_weights"].sum() == 24
    changed = batch["tokens"] != windows.batch_at(0)["targets"]
    assert changed.sum() <= 24


@pytest.mark.parametrize("scored", [40, 10, 1])
def test_evaluation_hides_only_bytes_that_count(scored):
    windows, reader = evaluation(100, 330, scored)
    for step in range(windows.steps_per_epoch):
        plain, batch = windows.batch_at(step), reader.batch_at(step)
        assert_same(batch, evaluation(100, 330, scored)[1].batch_at(step))
        np.testing.assert_array_equal(restored(batch), plain["targets"])
        rows, places = np.nonzero(batch["mlm_weights"])
        assert (
            plain["target_weights"][rows, batch["mlm_positions"][rows, places]] == 1
        ).all()
        # The bytes before those that count are seen; a row without any is padding.
        used = plain["target_weights"].any(axis=1)
        assert (batch["example_ids"] == used[:, None]).all()


def test_what_is_after_a_short_text_is_padding():
    _, reader = evaluation(100, 125, 40)
    batch = reader.batch_at(0)
    np.testing.assert_array_equal(batch["example_ids"][0], np.arange(LENGTH) < 25)
    assert not batch["example_ids"][1:].any() and not batch["mlm_weights"][1:].any()
    assert batch["mlm_positions"].max() < 25
