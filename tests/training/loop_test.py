import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import types

import jax
import limits
import numpy as np
import pytest
import toy_job
from training_runs import MESH, lines, losses, signal_at

from etc_jax.training import errors, run as run_lib
from etc_jax.training.preflight import hardware
from etc_jax.training.reporting.metrics import MetricsWriter
from etc_jax.training.run import train_and_evaluate


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A compile cache that the tests share, to be quick."""
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def make_config(cache):
    def make(**changes):
        return toy_job.config(train__compile_cache_dir=cache, **changes)

    return make


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """(workdir, digest) of an uninterrupted run."""
    workdir = tmp_path_factory.mktemp("reference")
    # So small a step compiles in less time than jax finds worth keeping.
    least = "jax_persistent_cache_min_compile_time_secs"
    before = getattr(jax.config, least)
    jax.config.update(least, 0)
    try:
        result = train_and_evaluate(toy_job.config(**MESH), workdir)
    finally:
        jax.config.update(least, before)
    assert result.exit_code == errors.DONE
    return workdir, toy_job.digest(result.state)


def test_a_run_learns_and_leaves_its_records(reference):
    workdir, _ = reference
    train, evals = lines(workdir, "train"), lines(workdir, "eval")
    assert [line["step"] for line in train] == list(range(1, 13))
    assert [line["step"] for line in evals] == [6, 12]
    assert evals[1]["loss"] < evals[0]["loss"]
    assert set(train[0]) == {
        "step",
        "kind",
        "loss",
        "tokens",
        "learning_rate",
        "grad_norm",
        "param_norm",
        "tokens_per_s",
        "data_wait_share",
        "checkpoint_share",
        "failed_saves",
        "failed_evaluations",
        "skipped_steps",
        "wall_secs",
    }
    for line in train:
        assert 0 <= line["data_wait_share"] <= 1
        assert 0 <= line["checkpoint_share"] <= 1
        assert line["tokens_per_s"] > 0
        assert line["loss"] == pytest.approx(line["tokens"], rel=1e-6)
    # Warm-up over 2 steps, then down to 0 over 10.
    rates = [line["learning_rate"] for line in train]
    expected = [0, 0.005, *(0.01 * (1 - i / 10) for i in range(10))]
    np.testing.assert_allclose(rates, expected, atol=1e-8)
    assert json.loads((workdir / "final_report.json").read_text()) == {"table_rows": 32}
    steps = sorted(int(p.name) for p in (workdir / "checkpoints").iterdir())
    assert steps == [4, 8, 12]
    assert not (workdir / "compile_cache").exists()


def test_an_interrupt_saves_and_the_run_goes_on(
    reference, tmp_path, monkeypatch, make_config
):
    step, number = 5, signal.SIGINT
    whole, digest = reference
    config = make_config(**MESH)
    before = signal.getsignal(number)
    with monkeypatch.context() as patch:
        signal_at(patch, step, number)
        stopped = train_and_evaluate(config, tmp_path)
    assert stopped.exit_code == errors.PREEMPTED
    assert stopped.step == step == int(stopped.state.step)
    assert (tmp_path / "checkpoints" / str(step) / "manifest.json").exists()
    assert signal.getsignal(number) is before
    result = train_and_evaluate(config, tmp_path)
    assert result.exit_code == errors.DONE
    assert toy_job.digest(result.state) == digest
    assert losses(tmp_path) == losses(whole)
    assert [line["loss"] for line in lines(tmp_path, "eval")] == [
        line["loss"] for line in lines(whole, "eval")
    ]


def test_a_finished_run_is_not_trained_again(reference, make_config):
    workdir, digest = reference
    before = (workdir / "metrics.jsonl").read_bytes()
    result = train_and_evaluate(make_config(**MESH), workdir)
    assert toy_job.digest(result.state) == digest
    assert result.step == 12 and result.report == {"table_rows": 32}
    assert result.evaluation["loss"] == lines(workdir, "eval")[-1]["loss"]
    assert (workdir / "metrics.jsonl").read_bytes() == before


def test_falling_back_to_an_older_checkpoint_gives_the_same_end(
    reference, tmp_path, make_config
):
    whole, digest = reference
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    files = (tmp_path / "checkpoints" / "12" / "state").rglob("*")
    victim = max((p for p in files if p.is_file()), key=lambda p: p.stat().st_size)
    content = bytearray(victim.read_bytes())
    content[len(content) // 3] ^= 1
    victim.write_bytes(content)
    result = train_and_evaluate(make_config(**MESH), tmp_path)
    assert toy_job.digest(result.state) == digest
    # Steps 9 to 12 stand in the metrics once.
    assert losses(tmp_path) == losses(whole)
    assert len(lines(tmp_path, "train")) == 12


@pytest.mark.full
def test_another_mesh_continues_the_run(reference, tmp_path, monkeypatch, make_config):
    whole, _ = reference
    with monkeypatch.context() as patch:
        signal_at(patch, 5)
        train_and_evaluate(make_config(**MESH), tmp_path)
    result = train_and_evaluate(make_config(), tmp_path)
    assert result.exit_code == errors.DONE
    got, expected = losses(tmp_path), losses(whole)
    np.testing.assert_allclose(list(got.values()), list(expected.values()), rtol=1e-5)


def test_a_relative_workdir_holds_a_run(tmp_path, monkeypatch, make_config):
    monkeypatch.chdir(tmp_path)
    result = train_and_evaluate(make_config(), "runs/one")
    assert result.exit_code == errors.DONE
    assert (tmp_path / "runs/one/checkpoints").is_dir()
    assert list((tmp_path / "runs/one/checkpoints").iterdir())


def test_a_workdir_of_another_run_is_refused(reference, make_config):
    workdir, _ = reference
    other = make_config(**MESH, train__seed=7, model__mlp_dim=64)
    with pytest.raises(errors.UserError) as caught:
        train_and_evaluate(other, workdir)
    text = str(caught.value)
    assert "model.mlp_dim: 32 there, 64 now" in text
    assert "train.seed: 0 there, 7 now" in text
    assert "choose another --workdir" in text


def test_bad_batches_are_skipped_and_counted(tmp_path, make_config):
    config = make_config(model__poison_from=3, model__poison_to=5)
    result = train_and_evaluate(config, tmp_path)
    assert result.step == 12
    train = lines(tmp_path, "train")
    assert [line["skipped_steps"] for line in train] == [0] * 3 + [1] + [2] * 8
    assert [line["loss"] is None for line in train] == [i in (3, 4) for i in range(12)]
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(result.state))
    assert train[3]["param_norm"] is None and train[5]["param_norm"] > 0


def test_bad_batches_in_a_row_end_the_run(tmp_path, make_config):
    config = make_config(
        model__poison_from=5, model__poison_to=99, train__max_nonfinite_steps=3
    )
    with pytest.raises(errors.NotFiniteError) as caught:
        train_and_evaluate(config, tmp_path)
    assert "3 updates in a row were not finite, the last at step 8" in str(caught.value)
    assert "(batch 7, counted from 0); the last good step is 5" in str(caught.value)
    assert str(tmp_path / "checkpoints" / "4") in str(caught.value)
    # Which steps are named does not depend on how often they are reported.
    seldom = make_config(
        model__poison_from=5,
        model__poison_to=99,
        train__max_nonfinite_steps=3,
        train__log_every_steps=100,
        checkpoint__every_steps=100,
    )
    with pytest.raises(errors.NotFiniteError, match=r"step 8 \(batch 7, .* step is 5"):
        train_and_evaluate(seldom, tmp_path / "seldom")
    # The count goes on over a restart, so a run cannot restart for ever.
    with pytest.raises(errors.NotFiniteError):
        train_and_evaluate(config, tmp_path)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"train__batch_size": 12}, "train.batch_size is 12, not divisible by 8"),
        ({"mesh__data": 4}, "needs 4 devices, but there are 8"),
    ],
)
def test_mesh_and_batch_are_checked_before_compilation(
    tmp_path, monkeypatch, changes, message, make_config
):
    monkeypatch.setattr(jax, "jit", lambda *a, **k: pytest.fail("compiled"))
    with pytest.raises(errors.UserError, match=message):
        train_and_evaluate(make_config(**changes), tmp_path)


def test_a_bad_first_batch_is_named_before_compilation(
    tmp_path, monkeypatch, make_config
):
    monkeypatch.setattr(jax, "jit", lambda *a, **k: pytest.fail("compiled"))
    make = toy_job.rows_at

    def too_large(c, step, rows):
        return {k: v + (k == "tokens") * 40 for k, v in make(c, step, rows).items()}

    monkeypatch.setattr(toy_job, "rows_at", too_large)
    with pytest.raises(errors.UserError, match="token id .* >= vocab_size 32"):
        train_and_evaluate(make_config(), tmp_path)
    assert not (tmp_path / "run.json").exists()  # another config may be tried here


def test_an_error_in_the_data_reaches_the_caller(tmp_path, monkeypatch, make_config):
    make = toy_job.rows_at

    def broken(c, step, rows):
        if step == 3:
            raise RuntimeError("row 17 of shard 2 cannot be decoded")
        return make(c, step, rows)

    monkeypatch.setattr(toy_job, "rows_at", broken)
    with pytest.raises(RuntimeError, match="row 17 of shard 2"):
        train_and_evaluate(make_config(train__check_batches=1), tmp_path)
    assert list(losses(tmp_path)) == [1, 2, 3]


def test_nothing_to_evaluate_on_is_an_error(tmp_path, monkeypatch, make_config):
    monkeypatch.setattr(toy_job, "EVAL_BATCHES", 0)
    with pytest.raises(errors.UserError, match="nothing to evaluate on"):
        train_and_evaluate(make_config(train__num_steps=2), tmp_path)


def start_child(workdir, cache):
    return subprocess.Popen(
        [sys.executable, toy_job.__file__, str(workdir), cache],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def kill_during_a_save(child, workdir, after):
    """SIGKILL while a temporary checkpoint folder stands; True if one stood."""
    deadline = time.monotonic() + limits.SECS
    root = workdir / "checkpoints"
    while time.monotonic() < deadline and child.poll() is None:
        names = [p.name for p in root.iterdir()] if root.exists() else []
        done = [int(n) for n in names if n.isdigit()]
        saving = [n for n in names if "tmp" in n]
        if saving and max(done, default=0) >= after:
            break
    child.kill()
    child.wait()
    return any("tmp" in p.name for p in root.iterdir())


@pytest.mark.full  # checkpoint_kill_test kills ten times
def test_kill_9_during_saves_loses_nothing(tmp_path, tmp_path_factory, cache):
    config = toy_job.long_config(
        train__compile_cache_dir=cache, checkpoint__every_steps=100
    )
    whole = tmp_path_factory.mktemp("whole")
    straight = train_and_evaluate(config, whole)
    mid_save = 0
    for after in (1, 4, 7):
        mid_save += kill_during_a_save(start_child(tmp_path, cache), tmp_path, after)
    assert mid_save  # else the test has not tested
    resumed = train_and_evaluate(config, tmp_path)
    assert toy_job.digest(resumed.state) == toy_job.digest(straight.state)
    assert losses(tmp_path) == losses(whole)
    assert not (tmp_path / "bad_checkpoints").exists()


def test_tensorboard_gets_what_the_lines_have(tmp_path, monkeypatch, make_config):
    events, closed = {}, []

    class Writer:
        def __init__(self, logdir, purge_step):
            assert logdir == str(tmp_path / "tensorboard") and purge_step == 1

        def add_scalar(self, tag, value, step):
            events[tag, step] = value

        def flush(self):
            pass

        def close(self):
            closed.append(True)

    package = types.SimpleNamespace(SummaryWriter=Writer)
    monkeypatch.setitem(sys.modules, "tensorboardX", package)
    train_and_evaluate(make_config(train__tensorboard=True), tmp_path)
    for kind in ("train", "eval"):
        for line in lines(tmp_path, kind):
            assert events[f"{kind}/loss", line["step"]] == line["loss"]
    assert ("train/grad_norm", 12) in events and closed == [True]


def test_the_profiler_watches_its_window(tmp_path, monkeypatch, make_config):
    calls = []
    monkeypatch.setattr(jax.profiler, "start_trace", lambda path: calls.append(path))
    monkeypatch.setattr(jax.profiler, "stop_trace", lambda: calls.append("stop"))
    write = MetricsWriter.write

    def noted(self, kind, step, values):
        calls.append(step)
        write(self, kind, step, values)

    monkeypatch.setattr(MetricsWriter, "write", noted)
    config = make_config(
        train__profile_start_step=2, train__profile_steps=3, train__num_steps=6
    )
    train_and_evaluate(config, tmp_path)
    folder = str(tmp_path / "profile")
    # 6 twice: the last step is evaluated too.
    assert calls == [1, 2, folder, 3, 4, "stop", 5, 6, 6]


@pytest.mark.full
def test_a_profile_is_a_file_for_the_profiler(tmp_path, make_config):
    config = make_config(
        train__profile_start_step=2, train__profile_steps=99, train__num_steps=4
    )
    train_and_evaluate(config, tmp_path)
    assert list((tmp_path / "profile").rglob("*.xplane.pb"))


def test_mfu_is_of_all_devices_where_the_peak_is_known(
    tmp_path, monkeypatch, make_config
):
    monkeypatch.setattr(hardware, "peak_flops", lambda devices: 1e9 * len(devices))
    monkeypatch.setattr(hardware, "peak_memory", lambda devices: 77)
    make = toy_job.make_job
    monkeypatch.setattr(
        run_lib,
        "make_job",
        lambda *a: dataclasses.replace(make(*a), useful_flops=lambda batch: 4e6),
    )
    train_and_evaluate(make_config(train__num_steps=2), tmp_path)
    for line in lines(tmp_path, "train"):
        steps_per_s = line["tokens_per_s"] / 64
        assert line["mfu"] == pytest.approx(4e6 * steps_per_s / 8e9)
        # `dry_run` says so: padding and all.
        assert line["hfu"] == pytest.approx(6.021e5 * steps_per_s / 8e9, rel=1e-3)
        assert line["peak_memory_bytes"] == 77
