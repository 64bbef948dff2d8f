"""Window caches against the windows themselves, stacked by hand."""

import dataclasses
import itertools
import pathlib
import pickle

import numpy as np
import pytest
from caches_before import window_cache_of_version_2, without_checksums
from window_samples import (
    FILLS,
    OPTIONAL,
    SOURCE,
    assert_same,
    make_rich_window,
    make_tokenizer,
    make_window,
    make_windows,
    padded,
    stacked,
)
from written_windows import write_windows

from etc_jax.base.types import Rows
from etc_jax.data.pretraining import masking
from etc_jax.data.windows.cache import WindowCache, WindowReader
from etc_jax.data.workers import WorkerReader, dumps
from etc_jax.structure import Structure, flat

USUAL = {"lengths": {"long": 40, "global": 12}, "batch_size": 3, "seed": 0}


def make_reader(*caches, **kwargs):
    return WindowReader(caches, **(USUAL | kwargs))


# --- what comes back ------------------------------------------------------------------


@pytest.mark.parametrize("links", [0, 1, 3])
@pytest.mark.parametrize("optional", [(), OPTIONAL, *((x,) for x in OPTIONAL)], ids=str)
def test_windows_come_back_as_they_were(tokenizer, tmp_path, optional, links):
    made = make_windows(5, optional=optional, links=links)
    cache = write_windows(made, tokenizer, tmp_path / "c", SOURCE)
    reader = make_reader(cache, batch_size=5, evaluation=True)
    assert_same(reader.batch_at(0), stacked(made, 40, 12))


def test_any_length_that_holds_the_windows_will_do(cache, windows):
    real = max(int(np.count_nonzero(w.structure.long_example_ids)) for w in windows)
    used = max(int(np.count_nonzero(w.structure.global_example_ids)) for w in windows)
    assert cache.longest == {"long": real, "global": used}
    assert cache.sizes == {"long": 40, "global": 12}
    for n, g in ((real, used), (41, 100)):
        reader = make_reader(
            cache, lengths={"long": n, "global": g}, batch_size=7, evaluation=True
        )
        assert_same(reader.batch_at(0), stacked(windows, n, g))


@pytest.mark.parametrize("n, g", [(40, 12), (45, 13)])
def test_further_inputs_and_labels_of_any_axis_come_back(tokenizer, tmp_path, n, g):
    made = make_windows(5, make_fn=make_rich_window)
    cache = write_windows(made, tokenizer, tmp_path / "c", SOURCE)
    reader = make_reader(
        cache, batch_size=3, evaluation=True, lengths={"long": n, "global": g}
    )
    assert_same(reader.batch_at(0), stacked(made[:3], n, g))
    assert_same(reader.batch_at(1), stacked(made[3:], n, g, rows=3))
    again = WindowCache.open(cache.path)
    assert again.schema == cache.schema == made[0].schema.of(made[0])


def test_as_many_long_as_global_tokens_are_not_mixed_up(tokenizer, tmp_path):
    made = make_windows(4, make_fn=make_rich_window, n=12, g=12)
    cache = write_windows(made, tokenizer, tmp_path / "c", SOURCE)
    reader = make_reader(
        cache, batch_size=4, evaluation=True, lengths={"long": 15, "global": 12}
    )
    assert_same(reader.batch_at(0), stacked(made, 15, 12))


def test_further_inputs_are_kept_without_their_padding(tokenizer, tmp_path):
    made = make_windows(5, make_fn=make_rich_window)
    for window in made:
        window.labels["occurrences"] = np.zeros(40, np.uint8)
    cache = write_windows(made, tokenizer, tmp_path / "c", SOURCE)
    long, globals_ = (len(cache.arrays[f"{x}_tokens"]) for x in ("long", "global"))
    assert long < 5 * 40 and globals_ < 5 * 12
    want = {
        "long_words": long,
        "visual.font": globals_,
        "visual.boxes": 6 * globals_,
        "page": 5 * 4,
        "labels.start": 5 * 3,
    }
    assert want == {name: cache.arrays[name].size for name in want}


def test_a_cache_of_version_2_is_read(tokenizer, tmp_path):
    made = make_windows(7, make_fn=make_rich_window)
    now = write_windows(made, tokenizer, tmp_path / "c", SOURCE)
    path = window_cache_of_version_2(tmp_path / "before")
    before = WindowCache.open(path)
    assert before.schema == now.schema
    for axis in ("long", "global", "long_run", "name"):
        offsets = (x.arrays[f"{axis}_offsets"] for x in (before, now))
        np.testing.assert_array_equal(*offsets)
    assert (before.sizes, before.longest) == (now.sizes, now.longest)
    assert before.record_id(3) == now.record_id(3)
    assert_same(make_reader(before, now).batch_at(5), make_reader(now, now).batch_at(5))
    with pytest.raises(ValueError, match="version 1, but this etc_jax makes version 2"):
        write_windows(made, tokenizer, path, SOURCE)
    with WorkerReader(make_reader(before), num_workers=1) as workers:
        assert_same(workers.batch_at(3), make_reader(now).batch_at(3))


def test_a_window_without_long_or_global_tokens_is_one(tokenizer, tmp_path):
    bare = make_window(0, g=12)
    nothing = {
        f.name: np.full_like(x, FILLS.get(f.name, 0))
        for f in dataclasses.fields(Structure)
        if (x := getattr(bare.structure, f.name)) is not None
    }
    bare.structure = Structure(**nothing)
    bare.tokens = bare.types = Rows(np.zeros(40, np.int32), np.zeros(12, np.int32))
    bare.labels = {"support": np.zeros(12, np.int32)}
    cache = write_windows([bare], tokenizer, tmp_path / "c", SOURCE)
    assert cache.longest == {"long": 0, "global": 0}
    reader = make_reader(cache, batch_size=1, evaluation=True)
    assert_same(reader.batch_at(0), stacked([bare], 40, 12))


def test_neighbours_that_differ_in_the_id_alone_are_one_run(tokenizer, tmp_path):
    window = make_window(0, optional=("long_segment_ids",), links=1)
    window.tokens = Rows(padded([5, 6, 7, 8, 9], 40), padded([2], 12))
    window.types = Rows(padded([3, 3, 1, 1, 1], 40), padded([4], 12))
    window.structure = Structure(
        long_example_ids=padded(np.ones(5, np.int32), 40),
        global_example_ids=padded(np.ones(1, np.int32), 12),
        links=padded(np.array([[0], [0], [0], [0], [-1]], np.int16), 40, -1),
        long_segment_ids=padded([7] * 5, 40),
    )
    window.labels = {"answer": np.array(3, np.int32)}
    cache = write_windows([window, window], tokenizer, tmp_path / "c", SOURCE)
    got = {k: x.tolist() for k, x in cache.arrays.items() if "name" not in k}
    assert got == {
        "long_tokens": [5, 6, 7, 8, 9] * 2,
        "long_offsets": [0, 5, 10],
        "long_run_lengths": [2, 2, 1] * 2,
        "long_run_offsets": [0, 3, 6],
        "long_types": [3, 1, 1] * 2,
        "structure.long_example_ids": [1, 1, 1] * 2,
        "structure.long_segment_ids": [7, 7, 7] * 2,
        "structure.links": [0, 0, -1] * 2,
        "global_tokens": [2, 2],
        "global_offsets": [0, 1, 2],
        "global_types": [4, 4],
        "structure.global_example_ids": [1, 1],
        "labels.answer": [3, 3],
    }


def test_records_keep_their_names(cache, windows):
    names = [cache.record_id(i) for i in range(cache.num_windows)]
    assert names == [w.record.id for w in windows]


def test_the_header_says_what_there_is(cache, tokenizer, windows):
    assert cache.task == "toy" and cache.num_windows == 7
    schema = cache.header["schema"]
    labels = {k: x for k, x in schema["fields"].items() if k.startswith("labels")}
    assert schema["format"] == "structured" and labels == {
        "labels.answer": {"axis": None, "dtype": "int32"},
        "labels.support": {"axis": "global", "dtype": "int32"},
        "labels.weight": {"axis": "global", "dtype": "float32"},
    }
    assert cache.header["sizes"] == {"long_length": 40, "global_length": 12}
    assert cache.header["counts"] == {"records": 7, "windows": 7}
    assert len(cache.arrays["long_tokens"]) == sum(
        int(np.count_nonzero(w.structure.long_example_ids)) for w in windows
    )
    assert cache.header["vocab_size"] == 100
    assert cache.header["options"] == {"odd": False}
    assert cache.header["made_by"] == {"files": ["a"]}
    assert cache.load_tokenizer().fingerprint() == tokenizer.fingerprint()


# --- batches --------------------------------------------------------------------------


def order_of(reader, steps, windows):
    """Which window stands in each row of some training batches."""
    ids = {tuple(w.tokens.long): i for i, w in enumerate(windows)}
    batches = [reader.batch_at(step) for step in steps]
    assert all((batch["weights"] == 1).all() for batch in batches)
    return [ids[tuple(row)] for batch in batches for row in batch["long_tokens"]]


def test_training_is_endless_epochs_of_permutations(cache, windows):
    reader = make_reader(cache, seed=5)
    want = []
    for epoch in range(3):
        rng = masking.generator(5, epoch, 0, stream=masking.PERMUTATION)
        want += rng.permutation(7).tolist()
    assert want[:7] != want[7:14]
    assert order_of(reader, range(7), windows) == want
    assert reader.num_examples == 7 and reader.steps_per_epoch == 3


def test_training_batches_hold_whole_windows(cache, windows):
    reader = make_reader(cache)
    for step in range(4):
        rows = [windows[i] for i in order_of(reader, [step], windows)]
        assert_same(reader.batch_at(step), stacked(rows, 40, 12))


def test_evaluation_is_one_epoch_in_order_with_padding_after(cache, windows):
    reader = make_reader(cache, evaluation=True, seed=9)
    assert reader.steps_per_epoch == 3
    for step in range(3):
        here = windows[3 * step : 3 * step + 3]
        assert_same(reader.batch_at(step), stacked(here, 40, 12, rows=3))
    last = reader.batch_at(2)
    assert last["weights"].tolist() == [1, 0, 0]
    assert not last["structure"].long_example_ids[1:].any()
    assert (last["structure"].links[1:] == -1).all()


def test_flat_batches_are_the_ablation_of_the_others(cache):
    batch = make_reader(cache).batch_at(2)
    ablated = make_reader(cache, flat=True).batch_at(2)
    assert ablated["structure"].links.shape == (3, 40, 1)
    assert ablated["structure"].long_segment_ids is None
    assert_same(ablated, batch | {"structure": flat(batch["structure"])})


def test_several_caches_are_one_pool(tokenizer, tmp_path):
    parts = [make_windows(2), make_windows(5, start=20), make_windows(1, start=40)]
    caches = [
        write_windows(part, tokenizer, tmp_path / str(i), SOURCE)
        for i, part in enumerate(parts)
    ]
    everything = list(itertools.chain(*parts))
    evaluation = make_reader(*caches, batch_size=8, evaluation=True)
    assert evaluation.num_examples == 8
    assert_same(evaluation.batch_at(0), stacked(everything, 40, 12))
    training = make_reader(*caches, batch_size=4)
    assert sorted(order_of(training, range(2), everything)) == list(range(8))


def test_batches_may_be_written_to(cache):
    batch = make_reader(cache).batch_at(0)
    batch["long_tokens"] += 1
    batch["structure"].links[:] = 0
    batch["labels"]["answer"][:] = 0


def test_workers_map_the_files_instead_of_copying_them(cache, tmp_path):
    reader = make_reader(cache)
    text = dumps(reader, tmp_path)
    ids = cache.arrays["long_tokens"].tobytes()
    assert len(ids) > 100 and ids not in text
    [copied] = pickle.loads(text)._caches
    for name, array in copied.arrays.items():
        assert isinstance(array, np.memmap), name
        assert pathlib.Path(array.filename) == cache.path / f"{name}.npy"


# --- what is refused ------------------------------------------------------------------


def test_windows_that_are_too_long_are_named(cache):
    n, g = cache.longest.values()
    with pytest.raises(
        ValueError, match=f"up to {n} long tokens.*long_length is {n - 1}"
    ):
        make_reader(cache, lengths={"long": n - 1, "global": g})
    with pytest.raises(ValueError, match=f"{g} global tokens.*--global_length={g - 1}"):
        make_reader(cache, lengths={"long": n, "global": g - 1})


@pytest.mark.parametrize(
    "change, message",
    [
        ({"task": "other"}, "has task other, but .* toy"),
        ({"options": {"odd": True}}, "has options"),
    ],
)
def test_caches_of_other_making_are_no_pool(
    cache, windows, tokenizer, tmp_path, change, message
):
    source = dataclasses.replace(SOURCE, **change)
    other = write_windows(windows, tokenizer, tmp_path / "o", source)
    with pytest.raises(ValueError, match=message):
        make_reader(cache, other)


def test_caches_of_other_labels_or_vocabulary_are_no_pool(
    cache, windows, tokenizer, tmp_path
):
    other = write_windows(windows, make_tokenizer("more"), tmp_path / "v", SOURCE)
    with pytest.raises(ValueError, match="has vocabulary"):
        make_reader(cache, other)
    for window in windows:
        window.labels["more"] = np.array(1)
    other = write_windows(windows, tokenizer, tmp_path / "l", SOURCE)
    with pytest.raises(ValueError, match="has schema.*more"):
        make_reader(cache, other)


def test_no_cache_is_an_error():
    with pytest.raises(ValueError, match="0 window caches"):
        make_reader()


# --- damage ---------------------------------------------------------------------------

# Of the first version, which nothing but its values can be checked by.


@pytest.fixture
def unsealed(tmp_path):
    without_checksums(path := window_cache_of_version_2(tmp_path / "unsealed"))
    return path


@pytest.mark.parametrize(
    "old, new, message",
    [
        ('"format_version": 1', '"format_version": 99', "version 99, expected 3"),
        ('"schema"', '"skema"', "header.json is damaged"),
        ('"kind": "global"', '"kind": "grobal"', "header.json is damaged.*grobal"),
        ('"links_0"', '"links_7"', "header.json is damaged.*links_7"),
        ('"checksum"', '"sum"', "header.json is damaged"),
        ('"task"', '"tusk"', "header.json is damaged"),
        ('"task": "toy"', '"task": 7', "header.json is damaged.*task is 7"),
        ('"vocabulary"', '"vocables"', "header.json is damaged"),
        ('"id_dtype": "uint16"', '"id_dtype": "words"', "header.json is damaged"),
        ('"long_length": 40', '"long_length": "x"', "header.json is damaged"),
        ('"sizes": {', '"sizes": 3, "sises": {', "header.json is damaged"),
        ("{", "", "header.json is damaged"),
        ("{", "[{", "header.json is damaged"),
    ],
)
def test_a_damaged_header_is_named(unsealed, old, new, message):
    file = unsealed / "header.json"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(ValueError, match=message):
        WindowCache.open(unsealed)
