"""Caches of HotpotQA and WikiHop for Longformer, as commit 95dd699 wrote them.

These were data sets of their own, `hotpotqa_longformer` and `wikihop_longformer`; now
they are the sequence format of two others. The caches hold the records of
`multihop_samples`, at a length of 80.
"""

import pathlib
import types
import zipfile

import jax
import multihop_samples
import numpy as np
import pytest
from learning import random_params
from mean_loss import loss_of
from small_run import small_config
from written_windows import write_windows

from etc_jax.data.windows.cache import WindowCache, WindowReader
from etc_jax.data.windows.writing import WindowSource
from etc_jax.datasets.task import find_task
from etc_jax.formats.sequence import SequenceSizes
from etc_jax.objectives.jobs import finetuning as finetuning_job

FOLDER = pathlib.Path(__file__).parent / "caches_before_formats"
VALUES = {"hotpotqa": multihop_samples.HOTPOT, "wikihop": multihop_samples.WIKIHOP}
LENGTH = 80


def batch_of(*caches):
    reader = WindowReader(
        caches,
        lengths={"input": LENGTH, "global": caches[0].longest["global"]},
        batch_size=len(caches),
        seed=0,
        evaluation=True,
    )
    return reader.batch_at(0)


@pytest.fixture(params=VALUES)
def task(request):
    return find_task(request.param, "sequence")


@pytest.fixture
def folder(task, tmp_path):
    with zipfile.ZipFile(FOLDER / f"{task.name}_longformer.zip") as file:
        file.extractall(tmp_path / "before")
    return tmp_path / "before"


@pytest.fixture
def before(folder):
    return WindowCache.open(folder)


@pytest.fixture
def now(task, tmp_path):
    """The same windows as they are made and written now."""
    tokenizer = multihop_samples.tokenizer_for(task)
    record = task.parse(VALUES[task.name], lambda *note: None)
    n, g = LENGTH, task.sizes.global_length
    windows = task.features(record, tokenizer, SequenceSizes(n, g))
    options = {"official_quirks": False}
    sizes = {"input_length": n, "global_length": g}
    source = WindowSource(task.name, task.format, sizes, options=options)
    return write_windows(windows, tokenizer, tmp_path / "now", source)


def test_it_is_another_data_set_in_a_format(task, before):
    assert before.header["task"] == f"{task.name}_longformer"
    assert (before.task, before.format) == (task.name, "sequence")
    tokenizer = multihop_samples.tokenizer_for(task)
    assert before.load_tokenizer().fingerprint() == tokenizer.fingerprint()


def test_its_batches_are_those_of_a_cache_of_today(before, now):
    got, want = batch_of(before), batch_of(now)
    assert jax.tree.structure(got) == jax.tree.structure(want)
    jax.tree.map(np.testing.assert_array_equal, got, want)
    assert before.num_windows == 1 and got["weights"].sum() == 1


def test_it_is_read_together_with_one_of_today(before, now):
    both = batch_of(before, now)
    jax.tree.map(lambda x: np.testing.assert_array_equal(x[0], x[1]), both)


def test_a_run_of_today_trains_on_it(task, folder, tmp_path):
    size = multihop_samples.tokenizer_for(task).vocab_size
    longest = WindowCache.open(folder).longest["global"]
    config = small_config(
        *(task.name, folder, size, {"input_length": LENGTH, "global_length": longest}),
        family="longformer",
        model={"attention_window": (8,), "num_types": 2, "max_length": LENGTH},
        train__batch_size=2,
    )
    (tmp_path / "run").mkdir()
    job = finetuning_job.make_job(config, tmp_path / "run")
    batch = job.train_batch(0, None)
    assert job.check_batch(batch) == []
    params = random_params(types.SimpleNamespace(init=job.init_params))
    loss = jax.jit(lambda params: loss_of(job)(params, batch, None, True)[0])(params)
    assert np.isfinite(loss) and loss > 0
