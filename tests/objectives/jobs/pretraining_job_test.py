"""From a data section to the job: every source, and what is refused."""

import functools

import numpy as np
import pytest
import tiny_text

from etc_jax.data.text.cache import TokenCache
from etc_jax.objectives.jobs.pretraining import make_job
from etc_jax.objectives.jobs.pretraining_data import prepare

pytest.importorskip("nupunkt")


@pytest.fixture(scope="module")
def rows_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "rows.jsonl"
    tiny_text.write_rows(path, 80)
    return path


config_of = functools.partial(tiny_text.config, train__batch_size=2)


def jsonl(path, **changes):
    return config_of(data__paths=(str(path),), **changes)


@pytest.fixture(scope="module")
def prepared(rows_file, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return prepare(jsonl(rows_file).data, folder)


def test_files_become_batches(rows_file, tmp_path):
    job = make_job(jsonl(rows_file), tmp_path)
    batch = job.train_batch(0, np.arange(2))
    assert job.check_batch(batch) == []
    assert batch["long_tokens"].shape == (2, 128)
    assert batch["cpc_weights"].sum() >= 2
    assert job.tokens_per_step == 256 and job.steps_per_epoch > 1
    again = make_job(jsonl(rows_file), tmp_path).train_batch(0, np.arange(2))
    np.testing.assert_array_equal(again["long_tokens"], batch["long_tokens"])


def test_validation_files_are_for_evaluation_alone(rows_file, tmp_path):
    tiny_text.write_rows(tmp_path / "other.jsonl", 50, seed=1)
    config = jsonl(rows_file, data__validation_paths=(str(tmp_path / "other.jsonl"),))
    found = prepare(config.data, tmp_path)
    assert (found.train[0].num_documents, found.validation.num_documents) == (80, 50)


def test_caches_are_mixed_by_weights(prepared, tmp_path):
    train, validation = prepared.train[0], prepared.validation
    config = config_of(
        data__source="cache",
        data__paths=(str(train.path), str(validation.path)),
        data__validation_paths=(str(validation.path),),
        data__weights=(1.0, 3.0),
        train__batch_size=40,
    )
    assert prepare(config.data, tmp_path).weights == (1.0, 3.0)
    batch = make_job(config, tmp_path).train_batch(0, np.arange(40))
    length = 9  # such a run of pieces hardly occurs in both caches

    def runs(ids):
        return {tuple(ids[i : i + length]) for i in range(len(ids) - length + 1)}

    known = runs(np.asarray(validation.tokens).tolist())

    def is_second(row):
        unmasked = [run for run in runs(row.tolist()) if min(run) > 103]
        return np.mean([run in known for run in unmasked]) > 0.5

    assert 25 <= sum(map(is_second, batch["long_tokens"])) <= 35


def test_fixed_blocks_have_no_cpc(rows_file, tmp_path):
    config = jsonl(
        rows_file,
        data__global_tokens="fixed_blocks",
        data__tokens_per_block=27,
        objective__cpc_weight=0.0,
    )
    job = make_job(config, tmp_path)
    batch = job.train_batch(0, np.arange(2))
    assert not [name for name in batch if name.startswith("cpc_")]
    lengths = np.bincount(batch["structure"].links[0, :, 0] + 1)[1:]
    assert lengths.max() == 27
    assert set(job.final_report(None)) == {"unigram_entropy"}


def test_batches_from_other_processes_are_the_same(rows_file, tmp_path):
    here, there = (
        make_job(jsonl(rows_file, data__read_workers=workers), tmp_path)
        for workers in (0, 1)
    )
    here, there = (job.train_batch(3, np.arange(2)) for job in (here, there))
    np.testing.assert_array_equal(here["long_tokens"], there["long_tokens"])


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"data__mlm_capacity": 8}, "chosen for MLM has no room.*data.mlm_capacity"),
        ({"data__vocab_size": 170}, "the tokenizer has 180 ids; set it to that"),
        # None of 80 documents or one: their names, which decide, begin with the folder.
        (
            {"data__validation_fraction": 0.01},
            "none is for validation|sentences .* in the validation text",
        ),
    ],
)
def test_data_that_does_not_fit_is_refused(
    prepared, rows_file, tmp_path, changes, message
):
    vocabulary = {"data__tokenizer": str(prepared.train[0].path)}
    with pytest.raises(ValueError, match=message):
        make_job(jsonl(rows_file, **vocabulary | changes), tmp_path)


def test_a_cache_of_another_vocabulary_is_refused(prepared, tmp_path):
    tiny_text.write_rows(tmp_path / "rows.jsonl", 60, seed=5)
    other = prepare(jsonl(tmp_path / "rows.jsonl").data, tmp_path)
    config = config_of(
        data__source="cache",
        data__paths=(str(prepared.train[0].path), str(other.train[0].path)),
        data__validation_paths=(str(prepared.validation.path),),
    )
    with pytest.raises(ValueError, match="the cache was made with vocabulary"):
        make_job(config, tmp_path)
    assert TokenCache.open(other.train[0].path).num_documents > 0
