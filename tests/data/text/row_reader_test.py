"""Rows that each have a part of a text of their own."""

import functools

import numpy as np
import pytest
import tiny_text

from etc_jax import config as config_lib
from etc_jax.data.text import cache as cache_lib, reader as reader_lib
from etc_jax.data.text.reader import RowReader
from etc_jax.objectives.jobs import pretraining, pretraining_data

pytest.importorskip("nupunkt")

ROWS = 8


@pytest.fixture(scope="module")
def rows_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "rows.jsonl"
    tiny_text.write_rows(path, 80)
    return path


@pytest.fixture(scope="module")
def data(rows_file):
    return tiny_text.config(data__paths=(str(rows_file),), data__part_per_row=True).data


@pytest.fixture(scope="module")
def corpora(data, tmp_path_factory):
    return pretraining_data.prepare(data, tmp_path_factory.mktemp("run"))


@pytest.fixture
def make(data, corpora):
    def make(**changes):
        options = {"batch_size": ROWS, "seed": 3} | changes
        return pretraining_data.Examples(data, True).training_reader(corpora, **options)

    return make


def leaves(batch):
    return {
        name: array
        for name, value in batch.items()
        for name, array in (
            [(name, value)]
            if isinstance(value, np.ndarray)
            else [(f"{name}.{k}", x) for k, x in vars(value).items() if x is not None]
        )
    }


@pytest.mark.parametrize("count", [1, 3, 7, 76])
def test_parts_are_the_text(corpora, count):
    [cache] = corpora.train
    parts = [cache.part(number, count) for number in range(count)]
    np.testing.assert_array_equal(
        np.concatenate([part.tokens for part in parts]), cache.tokens
    )
    starts = [part.word_starts(0, part.num_tokens) for part in parts]
    np.testing.assert_array_equal(
        np.concatenate(starts), cache.word_starts(0, cache.num_tokens)
    )
    lengths = [part.tokens_per_document() for part in parts]
    np.testing.assert_array_equal(np.concatenate(lengths), cache.tokens_per_document())
    for part in parts:
        cache_lib._check_values(part, cache.header["vocab_size"])
    borders = [cache.part_borders(number, count) for number in range(count)]
    assert [end for _, end in borders[:-1]] == [start for start, _ in borders[1:]]


def test_rows_do_not_depend_on_who_builds_them(make):
    whole = [leaves(make().batch_at(step)) for step in range(3)]
    hosts = make(), make()
    for step in (2, 0, 1):
        halves = [
            leaves(host.batch_at(step, rows))
            for host, rows in zip(hosts, (slice(0, 3), slice(3, 8)), strict=True)
        ]
        for name, array in whole[step].items():
            both = np.concatenate([half[name] for half in halves])
            np.testing.assert_array_equal(both, array, err_msg=name)
    assert len(hosts[0].source_counts) == 3 and len(hosts[1].source_counts) == 5


def test_a_row_goes_through_its_part(make, corpora):
    [cache] = corpora.train
    reader = make(batch_size=2)
    plan = reader._source(1).plan
    seen = [reader.batch_at(step, [1]) for step in range(2 * plan.num_windows)]
    windows = [reader._example_at(2 * step + 1) for step in range(len(seen))]
    for epoch in (0, 1):
        of_epoch = [x.window for x in windows if x.epoch == epoch]
        assert sorted(of_epoch) == list(range(plan.num_windows))
    first, stop = cache.part_borders(1, 2)
    numbers = np.concatenate([batch["cpc_documents"].reshape(-1) for batch in seen])
    numbers = numbers[numbers >= 0]
    # As the whole text counts them: no other row has one of these.
    assert first <= numbers.min() and numbers.max() < stop
    # The same window is masked in another way in each row.
    draws = [
        reader._source(row).read(reader_lib._ExampleId(row, 0, 0))[1].integers(1 << 62)
        for row in (0, 1)
    ]
    assert draws[0] != draws[1]


def test_too_few_documents(make):
    with pytest.raises(ValueError, match="documents, too few for 100 rows"):
        make(batch_size=100)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_job(rows_file, tmp_path, workers):
    config = tiny_text.config(
        data__paths=(str(rows_file),),
        data__part_per_row=True,
        data__read_workers=workers,
        train__batch_size=4,
    )
    job = pretraining.make_job(config, tmp_path)
    assert job.steps_per_epoch is None
    batches = [job.train_batch(step, np.arange(4)) for step in range(2)]
    assert not [m for batch in batches for m in job.check_batch(batch)]
    again = job.train_batch(1, np.array([2]))
    np.testing.assert_array_equal(again["long_tokens"], batches[1]["long_tokens"][2:3])


def test_it_is_of_one_text():
    caches = {"data__source": "cache", "data__paths": ("a", "b")}
    with pytest.raises(config_lib.ConfigError, match="paths has 2 folders; it is of"):
        tiny_text.config(
            **caches, data__validation_paths=("c",), data__part_per_row=True
        )


def test_rows_of_one_sequence(corpora, data):
    class Rows:
        schema = None

        def empty(self, rows):
            return {"tokens": np.zeros((rows, 128), np.int32)}

        def fill(self, batch, row, window, rng):
            batch["tokens"][row, : len(window.tokens)] = window.tokens
            return reader_lib.Overflow()

    order = {"length": 128, "rows": Rows(), "batch_size": 4, "seed": 0}
    reader = functools.partial(pretraining_data.in_rows, data, corpora.train, **order)
    apart = reader()
    assert isinstance(apart, RowReader)
    part = corpora.train[0].part(2, 4)
    assert set(apart.batch_at(0)["tokens"][2]) <= {0, *part.tokens.tolist()}
    assert not isinstance(reader(evaluation=True), RowReader)
