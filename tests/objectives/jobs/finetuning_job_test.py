"""Which caches a fine-tuning run takes."""

import dataclasses

import multihop_samples
import pytest
from written_windows import write_windows

from etc_jax import config as config_lib
from etc_jax.data.windows.writing import WindowSource
from etc_jax.datasets.task import find_task
from etc_jax.objectives.jobs import finetuning as finetuning_job

LENGTHS = (80, 40)
FORMATS = {"etc": "structured", "longformer": "sequence"}
VOCABULARY = multihop_samples.tokenizer_for(find_task("hotpotqa", "sequence"))


@pytest.fixture(scope="module")
def cache_of(tmp_path_factory):
    """(data set, format) -> the folder of a cache."""
    values = {"hotpotqa": multihop_samples.HOTPOT, "wikihop": multihop_samples.WIKIHOP}

    def make(name, format):
        task = find_task(name, format)
        vocabulary = multihop_samples.tokenizer_for(task)
        record = task.parse(values[name], lambda *note: None)
        sizes = type(task.sizes)(*LENGTHS)
        windows = task.features(record, vocabulary, sizes)
        source = WindowSource(name, format, dataclasses.asdict(sizes))
        folder = tmp_path_factory.mktemp(f"{name}_{format}") / "cache"
        return str(write_windows(windows, vocabulary, folder, source).path)

    return make


def make_job(family, caches, folder, **data):
    config = config_lib.default_config(family)
    config.model.update(vocab_size=VOCABULARY.vocab_size, num_types=16)
    config.objective.name = "hotpotqa"
    config.data.update(source="windows", vocab_size=VOCABULARY.vocab_size)
    config.data.update(paths=caches, validation_paths=caches[:1], **data)
    text = "long_length" if family == "etc" else "input_length"
    config.data.update({text: 80, "global_length": 40})
    return finetuning_job.make_job(config_lib.from_config_dict(config), folder)


@pytest.mark.parametrize("family", FORMATS)
def test_a_cache_in_another_format_is_refused(cache_of, tmp_path, family):
    [other] = {*FORMATS.values()} - {FORMATS[family]}
    cache = cache_of("hotpotqa", other)
    with pytest.raises(ValueError) as caught:
        make_job(family, (cache,), tmp_path)
    assert str(caught.value) == (
        f"{cache} holds inputs in format {other!r}, but the run reads "
        f"{FORMATS[family]!r}; prepare the files again with --format={FORMATS[family]}"
    )


def test_one_cache_of_several_in_another_format_is_named(cache_of, tmp_path):
    caches = [cache_of("hotpotqa", form) for form in ("sequence", "structured")]
    with pytest.raises(ValueError, match=f"{caches[1]} holds inputs in format 'struct"):
        make_job("longformer", tuple(caches), tmp_path)


@pytest.mark.parametrize("given", [None, "sequence"])
def test_a_cache_in_the_format_of_the_run_is_taken(cache_of, tmp_path, given):
    cache = cache_of("hotpotqa", "sequence")
    job = make_job("longformer", (cache,), tmp_path, format=given)
    assert job.check_batch(job.train_batch(0, None)) == []


def test_a_cache_of_another_data_set_is_refused(cache_of, tmp_path):
    cache = cache_of("wikihop", "sequence")
    with pytest.raises(ValueError, match="of 'wikihop', but objective.name is 'hotpot"):
        make_job("longformer", (cache,), tmp_path)
