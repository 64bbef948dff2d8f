import dataclasses
import json
import shutil
import signal

import jax
import numpy as np
import pytest
import toy_job
from checkpoint_states import data_file, flip_a_bit
from training_runs import MESH, change_batches, lines, losses, signal_at

from etc_jax.training import errors, run as run_lib
from etc_jax.training.preflight import hardware
from etc_jax.training.reporting.metrics import MetricsWriter
from etc_jax.training.run import train_and_evaluate


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """(workdir, digest) of an uninterrupted run."""
    workdir = tmp_path_factory.mktemp("reference")
    result = train_and_evaluate(toy_job.config(**MESH), workdir)
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


def test_an_interrupt_saves_and_the_run_goes_on(reference, tmp_path, monkeypatch):
    step, number = 5, signal.SIGINT
    whole, digest = reference
    config = toy_job.config(**MESH)
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


def test_a_finished_run_is_not_trained_again(reference):
    workdir, digest = reference
    before = (workdir / "metrics.jsonl").read_bytes()
    result = train_and_evaluate(toy_job.config(**MESH), workdir)
    assert toy_job.digest(result.state) == digest
    assert result.step == 12 and result.report == {"table_rows": 32}
    assert result.evaluation["loss"] == lines(workdir, "eval")[-1]["loss"]
    assert (workdir / "metrics.jsonl").read_bytes() == before


def test_falling_back_to_an_older_checkpoint_gives_the_same_end(reference, tmp_path):
    whole, digest = reference
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    flip_a_bit(data_file(tmp_path / "checkpoints" / "12"))
    result = train_and_evaluate(toy_job.config(**MESH), tmp_path)
    assert toy_job.digest(result.state) == digest
    # Steps 9 to 12 stand in the metrics once.
    assert losses(tmp_path) == losses(whole)
    assert len(lines(tmp_path, "train")) == 12


@pytest.mark.full
def test_another_mesh_continues_the_run(reference, tmp_path, monkeypatch):
    whole, _ = reference
    with monkeypatch.context() as patch:
        signal_at(patch, 5)
        train_and_evaluate(toy_job.config(**MESH), tmp_path)
    result = train_and_evaluate(toy_job.config(), tmp_path)
    assert result.exit_code == errors.DONE
    got, expected = losses(tmp_path), losses(whole)
    np.testing.assert_allclose(list(got.values()), list(expected.values()), rtol=1e-5)


def test_a_relative_workdir_holds_a_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = train_and_evaluate(toy_job.config(), "runs/one")
    assert result.exit_code == errors.DONE
    assert (tmp_path / "runs/one/checkpoints").is_dir()
    assert list((tmp_path / "runs/one/checkpoints").iterdir())


def test_bad_batches_are_skipped_and_counted(tmp_path):
    config = toy_job.config(model__poison_from=3, model__poison_to=5)
    result = train_and_evaluate(config, tmp_path)
    assert result.step == 12
    train = lines(tmp_path, "train")
    assert [line["skipped_steps"] for line in train] == [0] * 3 + [1] + [2] * 8
    assert [line["loss"] is None for line in train] == [i in (3, 4) for i in range(12)]
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(result.state))
    assert train[3]["param_norm"] is None and train[5]["param_norm"] > 0


def test_bad_batches_in_a_row_end_the_run(tmp_path):
    changes = {"model__poison_from": 5, "model__poison_to": 99}
    changes["train__max_nonfinite_steps"] = 3
    config = toy_job.config(**changes)
    with pytest.raises(errors.NotFiniteError) as caught:
        train_and_evaluate(config, tmp_path)
    assert "3 updates in a row were not finite, the last at step 8" in str(caught.value)
    assert "(batch 7, counted from 0); the last good step is 5" in str(caught.value)
    assert str(tmp_path / "checkpoints" / "4") in str(caught.value)
    # Which steps are named does not depend on how often they are reported.
    seldom = toy_job.config(
        **changes, train__log_every_steps=100, checkpoint__every_steps=100
    )
    with pytest.raises(errors.NotFiniteError, match=r"step 8 \(batch 7, .* step is 5"):
        train_and_evaluate(seldom, tmp_path / "seldom")
    # The count goes on over a restart, so a run cannot restart for ever.
    with pytest.raises(errors.NotFiniteError):
        train_and_evaluate(config, tmp_path)
    assert caught.value.exit_code == 3


def test_an_error_in_the_data_reaches_the_caller(tmp_path, monkeypatch):
    def broken(step, batch):
        if step == 3:
            raise RuntimeError("row 17 of shard 2 cannot be decoded")
        return batch

    change_batches(monkeypatch, broken)
    with pytest.raises(RuntimeError, match="row 17 of shard 2"):
        train_and_evaluate(toy_job.config(train__check_batches=1), tmp_path)
    assert list(losses(tmp_path)) == [1, 2, 3]


def test_the_profiler_watches_its_window(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(jax.profiler, "start_trace", lambda path: calls.append(path))
    monkeypatch.setattr(jax.profiler, "stop_trace", lambda: calls.append("stop"))
    write = MetricsWriter.write

    def noted(self, kind, step, values):
        calls.append(step)
        write(self, kind, step, values)

    monkeypatch.setattr(MetricsWriter, "write", noted)
    config = toy_job.config(
        train__profile_start_step=2, train__profile_steps=3, train__num_steps=6
    )
    train_and_evaluate(config, tmp_path)
    folder = str(tmp_path / "profile")
    # 6 twice: the last step is evaluated too.
    assert calls == [1, 2, folder, 3, 4, "stop", 5, 6, 6]


@pytest.mark.full
def test_a_profile_is_a_file_for_the_profiler(tmp_path):
    config = toy_job.config(
        train__profile_start_step=2, train__profile_steps=99, train__num_steps=4
    )
    train_and_evaluate(config, tmp_path)
    assert list((tmp_path / "profile").rglob("*.xplane.pb"))


def test_mfu_is_of_all_devices_where_the_peak_is_known(tmp_path, monkeypatch):
    monkeypatch.setattr(hardware, "peak_flops", lambda devices: 1e9 * len(devices))
    monkeypatch.setattr(hardware, "peak_memory", lambda devices: 77)
    make = toy_job.make_job
    monkeypatch.setattr(
        run_lib,
        "make_job",
        lambda *a: dataclasses.replace(make(*a), useful_flops=lambda batch: 4e6),
    )
    train_and_evaluate(toy_job.config(train__num_steps=2), tmp_path)
    for line in lines(tmp_path, "train"):
        steps_per_s = line["tokens_per_s"] / 64
        assert line["mfu"] == pytest.approx(4e6 * steps_per_s / 8e9)
        # `dry_run` says so: padding and all.
        assert line["hfu"] == pytest.approx(6.021e5 * steps_per_s / 8e9, rel=1e-3)
        assert line["peak_memory_bytes"] == 77
