"""Thirty likely mistakes: each is named in seconds, before anything is compiled.

    python -m pytest tests/training/bad_input_test.py -s

prints a table: the mistake's number, what was wrong, and the message. A mistake that
cannot be made here stands there with what comes of it. They are in the files
bad_input_configs.py, bad_input_data.py and bad_input_runs.py.
"""

import collections
import sys
import textwrap
import time

import bad_input_configs
import bad_input_data
import bad_input_runs
import numpy as np
import pytest
import toy_job
from bad_input_bench import Bench
from tiny_text import write_rows

from etc_jax import config as config_lib
from etc_jax.data.text.cache import TokenCache
from etc_jax.objectives.jobs import pretraining as pretraining_job
from etc_jax.objectives.jobs.pretraining_data import prepare
from etc_jax.training.run import train_and_evaluate

LIMIT_SECS = 10.0
COUNT = 30
# Stable, so that the forms of one mistake stay in order.
MISTAKES = sorted(
    [*bad_input_configs.MISTAKES, *bad_input_data.MISTAKES, *bad_input_runs.MISTAKES],
    key=lambda mistake: mistake[0],
)
SAID = collections.defaultdict(list)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """(a good JSONL file, its caches, the workdir of a finished run)."""
    pytest.importorskip("nupunkt")
    folder = tmp_path_factory.mktemp("shared")
    rows = folder / "rows.jsonl"
    write_rows(rows)
    bench = Bench(folder, rows, folder / "caches", None, None)
    prepare(bench.text_config().data, folder)
    finished = folder / "finished"
    train_and_evaluate(toy_job.config(train__num_steps=4), finished)
    return rows, folder / "caches", finished


@pytest.fixture(scope="module", autouse=True)
def table(tmp_path_factory):
    """Prints and keeps the table when the tests of this file are done."""
    yield
    lines = []
    for number in sorted(SAID):
        for title, said, secs in SAID[number]:
            lines.append(f"{number:2}  {title}  [{secs:.2f} s]")
            lines.append(textwrap.indent(said, "      "))
    text = "\n".join(lines)
    path = tmp_path_factory.mktemp("bad_input") / "table.txt"
    path.write_text(text + "\n")
    print(f"\n\n{text}\n\n{len(SAID)} of {COUNT} mistakes; this table is in {path}")


@pytest.mark.parametrize(
    "number, title, parts, fn", MISTAKES, ids=[f"{n}-{t}" for n, t, *_ in MISTAKES]
)
def test_a_mistake_is_named(
    shared, tmp_path, monkeypatch, no_compile, number, title, parts, fn
):
    rows, cache, finished = shared
    bench = Bench(tmp_path, rows, cache, finished, monkeypatch)
    began = time.perf_counter()
    said = fn(bench)
    secs = time.perf_counter() - began
    SAID[number].append((title, said, secs))
    assert secs < LIMIT_SECS
    assert len(said) < 1500
    for part in parts:
        assert part in said


def test_every_mistake_has_a_case():
    assert {number for number, *_ in MISTAKES} == set(range(1, COUNT + 1))


def test_the_ban_on_compiling_works(tmp_path, no_compile):
    with pytest.raises(pytest.fail.Exception, match="compiled"):
        train_and_evaluate(toy_job.config(train__num_steps=4), tmp_path)


def test_all_that_is_wrong_with_a_config_comes_at_once():
    values = toy_job.config_dict().to_dict()
    wrong = {
        ("train", "seed"): 2**40,
        ("train", "bach_size"): 8,
        ("train", "num_steps"): 1e3,
        ("optimizer", "learning_rate"): -1.0,
        ("schedule", "name"): "cosin",
        ("mesh", "tensors"): 2,
        ("objective", "name"): "mlm_cpcc",
        ("data", "source"): "json",
        ("model", "vocab_size"): 31,
    }
    for (section, field), value in wrong.items():
        values[section][field] = value
    with pytest.raises(config_lib.ConfigError) as caught:
        config_lib.from_config_dict(values)
    assert {path for path, _ in caught.value.problems} == {
        f"{section}.{field}" for section, field in wrong
    }


def test_files_mesh_workdir_and_packages_come_at_once(
    shared, tmp_path, monkeypatch, no_compile
):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    (tmp_path / "file").write_text("")
    bench = Bench(tmp_path, shared[0], shared[1], None, monkeypatch)
    config = bench.text_config(
        mesh__data=4,
        train__tensorboard=True,
        data__paths=(str(tmp_path / "a*.jsonl"), str(tmp_path / "b*.jsonl")),
        data__tokenizer=str(tmp_path / "nothing.txt"),
    )
    said = bench.refused(config, tmp_path / "file")
    for part in ("'a*.jsonl'", "'b*.jsonl'", "no tokenizer at", "needs 4 devices"):
        assert part in said
    assert "it is a file" in said and "tensorboardX" in said


def test_caches_that_are_not_there_are_named_together(shared, tmp_path, monkeypatch):
    bench = Bench(tmp_path, shared[0], shared[1], None, monkeypatch)
    said = bench.text(
        data__source="cache",
        data__paths=(str(tmp_path / "one"), str(tmp_path / "two")),
        data__validation_paths=(str(tmp_path / "three"),),
    )
    assert all(f"no token cache in {tmp_path / x}" in said for x in ("one", "two"))
    assert f"data.validation_paths: no token cache in {tmp_path / 'three'}" in said


def test_the_good_input_of_these_tests_is_good(shared, tmp_path):
    bench = Bench(tmp_path, shared[0], shared[1], None, None)
    job = pretraining_job.make_job(bench.text_config(), tmp_path)
    assert job.check_batch(job.train_batch(0, np.arange(8))) == []
    (path,) = (p.parent for p in shared[1].glob("*/train/header.json"))
    assert TokenCache.open(path).num_documents > 10
