"""Making window caches: what is kept, what is refused, and nothing half done."""

import dataclasses
import fcntl
import os
import re

import numpy as np
import pytest
from window_samples import (
    SOURCE,
    contents,
    make_rich_window,
    make_window,
    make_windows,
)
from written_windows import write_windows

from etc_jax.data.schema import Placed
from etc_jax.data.windows import arrays as window_arrays
from etc_jax.data.windows.writing import (
    LeftOut,
    NoWindowError,
    build_windows,
    part_of,
)


@pytest.mark.parametrize(
    "vocab_size, dtype", [(2**16, "uint16"), (2**16 + 1, "uint32")]
)
def test_ids_take_as_little_room_as_the_vocabulary_allows(vocab_size, dtype):
    window = make_window(0)
    window.tokens.long[0] = vocab_size - 1
    schema = window.schema.of(window)
    arrays = window_arrays.flatten([window], schema, vocab_size)
    assert arrays["long_tokens"].dtype == arrays["global_tokens"].dtype == dtype
    assert arrays["long_tokens"][0] == vocab_size - 1
    assert arrays["structure.links"].dtype == "int16"
    assert arrays["long_types"].dtype == "uint8"
    assert arrays["structure.exempt_l2g"].dtype == "bool"


def padding_after(window):
    """Makes the last long token padding, in all but the words."""
    structure = window.structure
    for array in (window.tokens.long, window.types.long, structure.long_segment_ids):
        array[-1] = 0
    structure.long_example_ids[-1] = structure.exempt_l2g[-1] = 0
    structure.links[-1] = -1
    window.labels["occurrences"][-1] = 0


def spoil(window, what):
    structure = window.structure
    if what == "id":
        window.tokens.long[0] = 100
    elif what == "negative id":
        window.tokens.global_[0] = -1
    elif what == "type":
        window.types.long[0] = 256
    elif what == "segment":
        structure.long_segment_ids[0] = 2**15
    elif what == "padding":
        padding_after(window)
        window.types.long[-1] = 3
    elif what == "label":
        window.labels["answer"] = np.zeros(5)
    elif what == "label there":
        window.labels["more"] = np.zeros(())
    elif what == "links":
        window.structure = dataclasses.replace(structure, links=structure.links[:, :1])
    elif what == "no axis":
        window.axes = {k: x for k, x in window.axes.items() if k != "visual"}
    elif what == "every batch":
        window.extra["weights"] = np.zeros(())
        window.axes = window.axes | {"weights": Placed()}
    elif what == "length":
        window.extra["visual"]["font"] = np.zeros(40, np.uint8)
    elif what == "length of a label":
        window.labels["occurrences"] = np.zeros(12, np.uint8)
    elif what == "padding of words":
        padding_after(window)
        window.extra["long_words"][-1] = 3
    elif what == "shape":
        window.extra["page"] = np.zeros((2, 3), np.float32)


@pytest.mark.parametrize(
    "what, message",
    [
        ("id", "long_tokens reach from .* to 100, but the vocabulary has ids 0 to 99"),
        ("negative id", "global_tokens reach from -1"),
        ("type", "long_types has 256, which does not fit into uint8"),
        ("segment", "long_segment_ids has 32768, which does not fit into int16"),
        ("padding", "long_types has 3 in the padding, expected 0"),
        ("label", r"label 'answer' has shape \(5,\), expected \(\) or"),
        ("label there", r"it has .*more.*, but the windows before it"),
        ("links", r"shape=\(1,\).*, but the windows before it .*shape=\(2,\)"),
        ("no axis", "extra input 'visual' has no axis; "),
        ("every batch", "extra input 'weights' is in every batch; "),
        ("length", r"'visual.font' has shape \(40,\), .* axis global: \(12,\)"),
        (
            "length of a label",
            r"label 'occurrences' has shape \(12,\), .* axis long: \(40,\)",
        ),
        ("padding of words", "long_words has 3 in the padding, expected -1"),
        ("shape", r"shape=\(2, 3\).*, but the windows before it .*shape=\(2, 2\)"),
    ],
)
def test_what_cannot_be_kept_is_named(tokenizer, tmp_path, what, message):
    windows = make_windows(5, make_fn=make_rich_window)
    spoil(windows[4], what)
    with pytest.raises(ValueError, match=f"window of record 'record 4.*{message}"):
        write_windows(windows, tokenizer, tmp_path / "c", SOURCE)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("make_fn", [make_window, make_rich_window])
@pytest.mark.parametrize("sizes", [[1] * 7, [0, 3, 0, 4, 0], [6, 1]])
def test_parts_do_not_change_a_byte(tokenizer, tmp_path, sizes, make_fn):
    windows = make_windows(7, make_fn=make_fn)
    cache = write_windows(windows, tokenizer, tmp_path / "c", SOURCE)
    made = write_windows(windows, tokenizer, tmp_path / "p", SOURCE, sizes)
    assert contents(made.path) == contents(cache.path)
    assert sorted(os.listdir(tmp_path)) == ["c", "p"]


def test_parts_that_differ_are_an_error(windows, tokenizer, tmp_path):
    del windows[5].labels["answer"]
    with pytest.raises(ValueError, match="windows of one cache differ"):
        write_windows(windows, tokenizer, tmp_path / "p", SOURCE, [5, 1, 1])
    assert os.listdir(tmp_path) == []


def test_progress_ends_with_the_totals(windows, tokenizer, tmp_path):
    seen = []
    asked = (windows, tokenizer, tmp_path / "p", SOURCE, [3, 4])
    write_windows(*asked, progress_fn=lambda *counts: seen.append(counts))
    assert seen == [(3, 3), (7, 7)]


@pytest.mark.parametrize(
    "change",
    [
        {"task": "other"},
        {"sizes": {"long_length": 41, "global_length": 12}},
        {"sizes": {"long_length": 40, "global_length": 13}},
        {"options": {"odd": True}},
        {"made_by": {"files": ["b"]}},
    ],
    ids=str,
)
def test_a_cache_of_another_source_is_refused(cache, windows, tokenizer, change):
    before = contents(cache.path)
    [(key, value)] = change.items()
    message = f"with {key} .*asked for is .*{re.escape(str(value).strip('{}'))}"
    with pytest.raises(ValueError, match=message):
        write_windows(
            windows, tokenizer, cache.path, dataclasses.replace(SOURCE, **change)
        )
    assert contents(cache.path) == before


def test_no_window_at_all_is_an_error_that_says_why(tokenizer, tmp_path):
    left_out = LeftOut()
    left_out.add("no answer", "r1")
    left_out.add("no answer", "r2")

    def parts(*_):
        yield part_of([], tokenizer.vocab_size, 2, left_out)

    with pytest.raises(
        NoWindowError, match="none of 2 records .*: 2 x no answer: 'r1', 'r2';"
    ):
        build_windows(parts, tokenizer, tmp_path / "c", SOURCE)
    assert os.listdir(tmp_path) == []


def test_what_was_left_out_is_the_same_in_any_parts():
    names = [(f"reason {i % 3}", f"r{i}") for i in range(40)]
    whole = LeftOut()
    for reason, name in names:
        whole.add(reason, name)
    assert whole.counts["reason 1"] == {
        "count": 13,
        "first": ["r1", "r4", "r7", "r10", "r13"],
    }
    joined = LeftOut()
    for start in range(0, 40, 7):
        part = LeftOut()
        for reason, name in names[start : start + 7]:
            part.add(reason, name)
        joined.update(part.counts)
    assert joined.counts == whole.counts
    assert "13 x reason 1: 'r1', 'r4', 'r7', 'r10', 'r13', ..." in joined.lines()


def test_what_killed_runs_left_of_a_cache_goes_when_it_is_there(
    windows, tokenizer, tmp_path
):
    names = [".c-2-0123456789ab", ".c-0123456789ab", ".c-4-ba9876543210", ".c-notes"]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "000000.npz").write_bytes(b"half")
        (tmp_path / name / "lock").touch()
    with open(tmp_path / names[2] / "lock") as held:  # of a run that is at work
        fcntl.flock(held, fcntl.LOCK_EX)
        write_windows(windows, tokenizer, tmp_path / "c", SOURCE)
        assert sorted(os.listdir(tmp_path)) == [names[2], ".c-notes", "c"]
    write_windows(windows, tokenizer, tmp_path / "c", SOURCE)
    assert sorted(os.listdir(tmp_path)) == [".c-notes", "c"]
