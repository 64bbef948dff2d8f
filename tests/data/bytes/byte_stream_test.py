"""Bytes of files: split by position, each predicted once, batches by the step."""

import zipfile

import numpy as np
import pytest

from etc_jax.data.bytes import stream as byte_stream


def part_of(size, start=0, stop=None):
    stream = (np.arange(size) % 251).astype(np.uint8)
    return byte_stream.StreamSlice(stream, start, size if stop is None else stop)


def test_files_follow_each_other_in_the_order_of_their_names(tmp_path):
    for name, content in {"b": b"two", "a": b"one", "c": b""}.items():
        (tmp_path / f"{name}.txt").write_bytes(content)
    got = byte_stream.open_bytes([f"{tmp_path}/*.txt", f"{tmp_path}/a.txt"])
    assert got.tobytes() == b"onetwoone"


def test_a_zip_file_is_its_one_member(tmp_path):
    file = tmp_path / "enwik8.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("enwik8", b"<xml>")
    assert byte_stream.open_bytes([str(file)]).tobytes() == b"<xml>"
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("more", b"x")
    with pytest.raises(ValueError, match="holds 2 files, expected one; unpack it"):
        byte_stream.open_bytes([str(file)])


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match="'nowhere' in data.paths matches no file"):
        byte_stream.open_bytes(["nowhere"])
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match="no byte in .*empty"):
        byte_stream.open_bytes([str(tmp_path / "empty")])


def test_parts_follow_each_other_and_are_all_there_is():
    parts = byte_stream.split(np.zeros(1000, np.uint8), 0.05)
    assert [(p.start, p.stop) for p in parts] == [(0, 900), (900, 950), (950, 1000)]
    with pytest.raises(ValueError, match="9 bytes with .* = 0.05 leave 9 .* 0 for val"):
        byte_stream.split(np.zeros(9, np.uint8), 0.05)


@pytest.mark.parametrize("size, length", [(100, 7), (100, 100), (103, 50), (14, 7)])
def test_an_epoch_has_windows_side_by_side(size, length):
    part = part_of(size + 5, start=5)
    reader = byte_stream.ByteReader(part, length=length, batch_size=1, seed=3)
    firsts = set()
    for epoch in range(6):
        steps = range(epoch * reader.num_examples, (epoch + 1) * reader.num_examples)
        batches = [reader.batch_at(step) for step in steps]
        starts = sorted(find(part.stream, b["targets"][0]) for b in batches)
        assert starts[0] >= 5 and starts[-1] + length <= size + 5
        assert (np.diff(starts) == length).all()
        firsts.add(starts[0])
        # At most one window's worth of bytes is left out.
        assert size - length * len(starts) < 2 * length
    assert len(firsts) > 1 or size == length or size % length == 0


def find(stream, window):
    """Where a window stands; its bytes count up."""
    [place] = [
        i
        for i in range(len(stream) - len(window) + 1)
        if (stream[i : i + len(window)] == window).all()
    ]
    return place


def test_what_is_told_is_the_byte_before_each():
    part = part_of(200, start=100)
    reader = byte_stream.ByteReader(part, length=20, batch_size=4, seed=0)
    batch = reader.batch_at(7)
    for tokens, targets in zip(batch["tokens"], batch["targets"], strict=True):
        np.testing.assert_array_equal(tokens[1:], targets[:-1])
        assert tokens[0] == part.stream[find(part.stream, targets) - 1]
    assert (batch["target_weights"] == 1).all()


def test_a_text_shorter_than_a_window_is_refused():
    with pytest.raises(ValueError, match="10 bytes to train on, fewer than data.in"):
        byte_stream.ByteReader(part_of(10), length=11, batch_size=1, seed=0)


@pytest.mark.parametrize(
    "size, length, scored", [(50, 8, 8), (50, 8, 3), (50, 8, 1), (8, 8, 2), (5, 8, 8)]
)
def test_evaluation_counts_each_byte_once(size, length, scored):
    part = part_of(40 + size + 9, start=40, stop=40 + size)
    reader = byte_stream.ByteEvaluation(
        part, length=length, scored=scored, batch_size=3
    )
    seen = []
    for step in range(reader.steps_per_epoch):
        batch = reader.batch_at(step)
        for tokens, targets, weights in zip(*batch.values(), strict=True):
            for place in np.flatnonzero(weights):
                byte = int(targets[place])
                seen.append(byte)
                assert tokens[place] == byte - 1
                # Context there is: all but the first window look back far enough.
                assert place >= length - scored or byte - 40 < length
    assert seen == list(range(40, 40 + size))


def test_the_first_byte_of_all_follows_the_start():
    reader = byte_stream.ByteEvaluation(part_of(9), length=4, scored=4, batch_size=1)
    np.testing.assert_array_equal(
        reader.batch_at(0)["tokens"], [[byte_stream.START, 0, 1, 2]]
    )


@pytest.mark.parametrize("scored", [0, 9])
def test_windows_that_count_nothing_or_too_much_are_refused(scored):
    with pytest.raises(ValueError, match=r"scored_length is \d, expected 1..8"):
        byte_stream.ByteEvaluation(part_of(9), length=8, scored=scored, batch_size=1)
