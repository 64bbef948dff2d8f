"""The main path on a small text: train, stop, resume, evaluate, on 8 devices."""

import contextlib
import dataclasses
import os
import pathlib

import jax
import numpy as np
import pytest
from compiled_anew import compiled_anew
from main_path import (  # noqa: F401
    DROPOUT,
    MESH,
    cache_dir_fixture,
    noted_batches,
    quickstart_values,
    small_config,
)
from training_runs import compiled_once, lines, signal_at

from etc_jax import config as config_lib
from etc_jax.objectives.pretraining import Pretraining
from etc_jax.sharding import make_mesh
from etc_jax.training import errors
from etc_jax.training.loop import RunResult
from etc_jax.training.optimizers.optimizer import make_optimizer
from etc_jax.training.optimizers.schedule import make_schedule
from etc_jax.training.run import train_and_evaluate
from etc_jax.training.state import abstract_state

pytest.importorskip("nupunkt")

REMATERIALIZATION = "Involuntary full rematerialization"


@contextlib.contextmanager
def standard_error(path):
    """Lets file descriptor 2 point at a file, where XLA's own messages go.

    It has none about what it finds compiled.
    """
    saved = os.dup(2)
    with open(path, "wb") as file:
        os.dup2(file.fileno(), 2)
        try:
            with compiled_anew():
                yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)


@dataclasses.dataclass
class Reference:
    """An uninterrupted run on 8 devices."""

    workdir: pathlib.Path
    result: RunResult
    batches: dict[int, str]
    stderr: str


@pytest.fixture(scope="module")
def programs():
    """Real processes, each with programs of its own, are in `two_processes_test`."""
    with compiled_once():
        yield


@pytest.fixture(scope="module")
def config(cache_dir):
    return small_config(DROPOUT, MESH, **{"data.cache_dir": cache_dir})


@pytest.fixture(scope="module")
def reference(config, programs, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("reference")
    errors_file = tmp_path_factory.mktemp("stderr") / "file"
    with noted_batches() as batches, standard_error(errors_file):
        result = train_and_evaluate(config, workdir)
    assert result.exit_code == errors.DONE
    return Reference(workdir, result, batches, errors_file.read_text())


def test_a_run_leaves_its_figures(reference, cache_dir):
    train = lines(reference.workdir, "train")
    assert [line["step"] for line in train] == [1, 2, 3, 4, 5, 6]
    assert [line["step"] for line in lines(reference.workdir, "eval")] == [3, 6]
    for line in train:
        parts = 0.8 * line["mlm_loss"] + 0.2 * line["cpc_loss"]
        assert line["loss"] == pytest.approx(parts, rel=1e-5)
    report = reference.result.report
    assert report["cpc_pool_sentences"] == 256
    assert report["cpc_pool_chance"] == 1 / 256
    assert 0 <= report["cpc_pool_top1"] <= 1
    tokens = np.load(next(pathlib.Path(cache_dir).glob("*/held_back/tokens.npy")))
    shares = np.unique(tokens, return_counts=True)[1] / len(tokens)
    entropy = sum(p * np.log(1 / p) for p in shares)
    assert report["unigram_entropy"] == pytest.approx(entropy, rel=1e-6)


def test_a_stopped_run_goes_on_bit_by_bit(reference, config, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        signal_at(patch, 2)
        stopped = train_and_evaluate(config, tmp_path)
    assert (stopped.exit_code, stopped.step) == (errors.PREEMPTED, 2)
    with noted_batches() as batches:
        resumed = train_and_evaluate(config, tmp_path)
    # Step 0 is read at every start, to be checked.
    assert sorted(batches) == [0, 2, 3, 4, 5]
    assert batches == {step: reference.batches[step] for step in batches}
    assert resumed.exit_code == errors.DONE
    expected = jax.tree_util.tree_leaves_with_path(reference.result.state)
    got = jax.tree.leaves(resumed.state)
    for (path, want), have in zip(expected, got, strict=True):
        np.testing.assert_array_equal(have, want, err_msg=jax.tree_util.keystr(path))
    for kind, names in (("train", ("loss", "mlm_loss")), ("eval", ("cpc_loss",))):
        for name in names:
            assert [x[name] for x in lines(tmp_path, kind)] == [
                x[name] for x in lines(reference.workdir, kind)
            ]
    assert resumed.report == reference.result.report


def test_xla_finds_no_layout_that_it_must_replicate(reference):
    assert REMATERIALIZATION not in reference.stderr


def test_the_message_about_layouts_would_be_seen(tmp_path):
    mesh = jax.make_mesh(
        (2, 2, 2), ("a", "b", "c"), axis_types=(jax.sharding.AxisType.Auto,) * 3
    )

    def pin(x, *spec):
        return jax.lax.with_sharding_constraint(
            x, jax.NamedSharding(mesh, jax.P(*spec))
        )

    def columns_to_rows(x):
        return pin(2 * pin(x, None, ("a", "b", "c")), ("c", "b"), None)

    with standard_error(tmp_path / "file"):
        jax.jit(columns_to_rows).lower(np.ones((16, 16))).compile()
    assert REMATERIALIZATION in (tmp_path / "file").read_text()


def test_the_quickstart_config_has_the_size_that_it_says():
    config = config_lib.from_config_dict(quickstart_values())
    mesh = make_mesh(config.mesh)
    schedule = make_schedule(config.schedule, learning_rate=1.0, num_steps=10)
    task = Pretraining(config.model, config.objective)
    state = abstract_state(task.init, make_optimizer(config.optimizer, schedule), mesh)
    e, m, v, heads, labels = 192, 768, 4096, 3, 32
    dense, norm = e * e + e, 2 * e
    attention = (2 + 8 + 2) * dense + 2 * labels * (e + heads)
    layer = attention + (e * m + m) + (m * e + e) + 3 * norm
    embeddings = v * e + 16 * e + 2 * norm
    heads_on_top = dense + norm + v + 1
    expected = 3 * layer + embeddings + heads_on_top
    assert sum(x.size for x in jax.tree.leaves(state.params)) == expected == 3094337
    # AdamW keeps two numbers for each; a few scalars count.
    total = sum(x.size for x in jax.tree.leaves(state))
    assert 3 * expected < total < 3 * expected + 20
