"""The main path on a small text: train, stop, resume, evaluate, on one device and 8."""

import contextlib
import dataclasses
import hashlib
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys

import jax
import ml_collections
import numpy as np
import pytest
from small_text import SMALL, make_cache

from etc_jax import config as config_lib
from etc_jax import registry
from etc_jax.data.pretraining import PretrainingReader
from etc_jax.objectives.pretraining import Pretraining
from etc_jax.sharding import make_mesh
from etc_jax.training import errors, loop
from etc_jax.training.metrics import MetricsWriter
from etc_jax.training.optimizer import make_optimizer
from etc_jax.training.run import Result, Run
from etc_jax.training.schedule import make_schedule
from etc_jax.training.state import abstract_state

pytest.importorskip("nupunkt")

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory):
    """Token caches of the small text, where those of the built-in text would be."""
    return make_cache(tmp_path_factory.mktemp("token_cache"))


DROPOUT = {"model.dropout_rate": 0.1, "model.attention_dropout_rate": 0.1}
MESH = {"mesh.data": 2, "mesh.fsdp": 2, "mesh.tensor": 2}
REMATERIALIZATION = "Involuntary full rematerialization"


def quickstart_values() -> ml_collections.ConfigDict:
    """What `configs/quickstart.py` says, read as the command line reads it."""
    spec = importlib.util.spec_from_file_location(
        "quickstart_config", ROOT / "configs" / "quickstart.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.get_config()


def small_config(*changes, **more) -> config_lib.Config:
    values = quickstart_values()
    for change in (SMALL, *changes, more):
        values.update_from_flattened_dict(change)
    return config_lib.from_config_dict(values)


def metrics(workdir, kind) -> list[dict]:
    text = (pathlib.Path(workdir) / "metrics.jsonl").read_text()
    return [x for x in map(json.loads, text.splitlines()) if x["kind"] == kind]


@contextlib.contextmanager
def standard_error(path):
    """Lets file descriptor 2 point at a file, where XLA's own messages go."""
    saved = os.dup(2)
    with open(path, "wb") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)


@pytest.fixture(scope="module")
def compile_cache(tmp_path_factory):
    return {"train.compile_cache_dir": str(tmp_path_factory.mktemp("compiled"))}


@dataclasses.dataclass
class Reference:
    """An uninterrupted run on 8 devices."""

    workdir: pathlib.Path
    result: Result
    batches: dict[int, str]
    stderr: str


@contextlib.contextmanager
def noted_batches():
    """Notes {step: digest of the tokens} of the training batches that are read."""
    seen: dict[int, str] = {}
    read = PretrainingReader.batch_at

    def batch_at(self, step, rows=None):
        batch = read(self, step, rows)
        # Whole batches are looked at before; evaluation numbers its own.
        if rows is not None and not self._evaluation:
            seen[step] = hashlib.sha256(batch["long_tokens"].tobytes()).hexdigest()
        return batch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PretrainingReader, "batch_at", batch_at)
        yield seen


@pytest.fixture(scope="module")
def reference(cache_dir, compile_cache, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("reference")
    config = small_config(DROPOUT, MESH, compile_cache, **{"data.cache_dir": cache_dir})
    errors_file = tmp_path_factory.mktemp("stderr") / "file"
    with noted_batches() as batches, standard_error(errors_file):
        result = loop.train_and_evaluate(config, workdir)
    assert result.exit_code == errors.DONE
    return Reference(workdir, result, batches, errors_file.read_text())


def test_a_run_leaves_its_figures(reference, cache_dir):
    train = metrics(reference.workdir, "train")
    assert [line["step"] for line in train] == [1, 2, 3, 4, 5, 6]
    assert [line["step"] for line in metrics(reference.workdir, "eval")] == [3, 6]
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


def test_a_stopped_run_goes_on_bit_by_bit(
    reference, cache_dir, compile_cache, tmp_path, monkeypatch
):
    config = small_config(DROPOUT, MESH, compile_cache, **{"data.cache_dir": cache_dir})
    write = MetricsWriter.write

    def write_and_signal(self, kind, step, values):
        write(self, kind, step, values)
        if step == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(MetricsWriter, "write", write_and_signal)
        stopped = loop.train_and_evaluate(config, tmp_path)
    assert (stopped.exit_code, stopped.step) == (errors.PREEMPTED, 2)
    with noted_batches() as batches:
        resumed = loop.train_and_evaluate(config, tmp_path)
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
            assert [x[name] for x in metrics(tmp_path, kind)] == [
                x[name] for x in metrics(reference.workdir, kind)
            ]
    assert resumed.report == reference.result.report


# The first step; between two reports; an epoch's edge; an evaluation; before the end.
STOPS = (1, 3, 5, 8, 9)
STEPS = 10


@dataclasses.dataclass(frozen=True)
class Microbatches:
    """A run of two microbatches a step, over more than an epoch."""

    config: config_lib.Config
    workdir: pathlib.Path
    state: dict[str, bytes]
    batches: dict[int, str]


def bits(state) -> dict[str, bytes]:
    flat = jax.tree_util.tree_leaves_with_path(state)
    return {jax.tree_util.keystr(path): np.asarray(x).tobytes() for path, x in flat}


@pytest.fixture(scope="module")
def microbatches(cache_dir, compile_cache, tmp_path_factory):
    changes = {
        "data.cache_dir": cache_dir,
        "train.num_steps": STEPS,
        "train.batch_size": 16,
        "train.accumulation_steps": 2,
        "train.log_every_steps": 2,
        "train.eval_every_steps": 4,
        "train.check_batches": 1,
        "train.eval_steps": 1,
        "model.num_layers": 1,
    }
    config = small_config(DROPOUT, MESH, compile_cache, changes)
    workdir = tmp_path_factory.mktemp("microbatches")
    with noted_batches() as batches:
        result = loop.train_and_evaluate(config, workdir)
    return Microbatches(config, workdir, bits(result.state), batches)


def test_the_stops_have_an_epochs_edge_among_them(microbatches, tmp_path):
    job = registry.lookup("objective", microbatches.config.objective.name)
    per_epoch = job(microbatches.config, tmp_path).steps_per_epoch
    # An epoch ends within the step before the stop, or the step after it.
    assert any(abs(stop - per_epoch) < 1 for stop in STOPS), per_epoch


def test_five_stops_of_microbatches_change_no_bit(microbatches, tmp_path, monkeypatch):
    one_step = Run._one_step
    for stop in STOPS:

        def step_and_signal(self, stop=stop):
            one_step(self)
            if self._step == stop:
                os.kill(os.getpid(), signal.SIGTERM)

        with monkeypatch.context() as patch:
            patch.setattr(Run, "_one_step", step_and_signal)
            stopped = loop.train_and_evaluate(microbatches.config, tmp_path)
        assert (stopped.exit_code, stopped.step) == (errors.PREEMPTED, stop)
    with noted_batches() as batches:
        result = loop.train_and_evaluate(microbatches.config, tmp_path)
    assert sorted(batches) == [0, *range(STOPS[-1], STEPS)]
    assert all(microbatches.batches[step] == x for step, x in batches.items())
    assert bits(result.state) == microbatches.state
    for kind in ("train", "eval"):
        for name in ("loss", "mlm_loss", "cpc_loss"):
            got, expected = (
                [(x["step"], x[name]) for x in metrics(folder, kind)]
                for folder in (tmp_path, microbatches.workdir)
            )
            assert got == expected


def test_one_device_learns_what_eight_learn(
    reference, cache_dir, compile_cache, tmp_path, monkeypatch
):
    config = small_config(DROPOUT, compile_cache, **{"data.cache_dir": cache_dir})
    monkeypatch.setattr(loop, "make_mesh", lambda c: make_mesh(c, jax.devices()[:1]))
    result = loop.train_and_evaluate(config, tmp_path)
    assert result.state.step.sharding.num_devices == 1
    for name in ("loss", "mlm_loss", "cpc_loss"):
        one, eight = (
            [x[name] for x in metrics(folder, "train")]
            for folder in (tmp_path, reference.workdir)
        )
        np.testing.assert_allclose(one, eight, rtol=1e-5)


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


def command(module, workdir, config) -> list[str]:
    return [
        sys.executable,
        "-m",
        module,
        f"--config={ROOT / 'configs' / 'quickstart.py'}",
        f"--workdir={workdir}",
        *(f"--config.{path}={value}" for path, value in config.items()),
    ]


def one_device() -> dict[str, str]:
    """An environment with one device, in which compiling is quick."""
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    return {
        **os.environ,
        "XLA_FLAGS": "--xla_backend_optimization_level=0",
        "PYTHONPATH": path,
    }


def test_the_quickstart_stops_resumes_learns_and_reports(cache_dir, tmp_path):
    lengths = {
        "train.num_steps": 300,
        "train.eval_every_steps": 150,
        "train.log_every_steps": 10,
        "schedule.warmup_steps": 20,
        "objective.cpc_weight": 0.5,  # so few steps are for MLM otherwise
    }
    config = {**SMALL, **lengths, "data.cache_dir": cache_dir}
    argv = command("launch.quickstart", tmp_path / "run", config)
    argv.append("--pretrain_only")

    def start():
        return subprocess.run(
            argv,
            env=one_device(),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=400,
        )

    first = start()
    assert first.returncode == 0, first.stdout + first.stderr
    report = (tmp_path / "run" / "report.md").read_text()
    assert report.strip() == first.stdout.strip()
    assert report.startswith("# Quickstart of etc_jax: passed")
    record = json.loads((tmp_path / "run" / "quickstart.json").read_text())
    assert [x["exit_code"] for x in record["launches"]] == [17, 0]
    assert 150 <= record["launches"][0]["saved_step"] < 300
    steps = [line["step"] for line in metrics(tmp_path / "run", "train")]
    assert steps == list(range(10, 301, 10))
    again = start()
    assert again.returncode == 0
    assert "it is not trained again" in again.stderr
    assert again.stdout == first.stdout


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
