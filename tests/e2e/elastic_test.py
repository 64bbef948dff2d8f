"""Hosts that come and go, as real processes on loopback.

The figures of the tests are printed; run with -s to see them.
"""

import collections
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import jax
import limits
import numpy as np
import processes
import pytest
import toy_job
from training_runs import timeless

from etc_jax.training import errors
from etc_jax.training.run import train_and_evaluate

BATCH = 12
CHANGES = (f"--config.train.batch_size={BATCH}",)


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return processes.toy_config(tmp_path_factory.mktemp("config"))


@pytest.fixture(scope="module")
def cache():
    """Programs of one device a process, beside what all tests compile."""
    return {"JAX_COMPILATION_CACHE_DIR": jax.config.jax_compilation_cache_dir}


def test_fewer_and_more_hosts_go_on_with_the_same_rows(tmp_path, toy, cache):
    """Four, then two, then three: each row of each step is learnt once."""

    def run(name, count, code=0, **variables):
        with processes.start(
            tmp_path / f"of_{count}",
            *CHANGES,
            config=toy,
            workdir=tmp_path / name,
            each=((),) * count,
            devices=1,
            NOTE_ROWS=str(tmp_path / name),
            **variables,
            **cache,
        ) as started:
            assert started.wait() == [code] * count, started.all_output()

    for name in ("several", "one"):
        (tmp_path / name).mkdir()
    run("several", 4, errors.PREEMPTED, STOP="3:2")
    run("several", 2, errors.PREEMPTED, STOP="0:6")
    run("several", 3)
    run("one", 1)
    learnt = collections.defaultdict(list)
    for path in (tmp_path / "several").glob("rows-*"):
        for step, rows in map(json.loads, path.read_text().splitlines()):
            learnt[step] += rows
    assert {step: sorted(rows) for step, rows in learnt.items()} == {
        step: list(range(BATCH)) for step in range(12)
    }
    for kind, names in (("train", ("loss", "grad_norm")), ("eval", ("loss",))):
        one, several = (
            processes.metrics(tmp_path / name, kind) for name in ("one", "several")
        )
        assert [x["step"] for x in one] == [x["step"] for x in several]
        for name in names:
            np.testing.assert_allclose(
                [x[name] for x in several], [x[name] for x in one], rtol=1e-5
            )


def children_of(pid: int) -> list[int]:
    path = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()]


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_twenty_kills_of_one_of_four_change_no_bit(tmp_path, toy, cache):
    """Killed with -9 at random times; the launcher starts all four again."""
    steps = 800
    changes = [*CHANGES, f"--config.train.num_steps={steps}"]
    changes += ["--config.train.eval_every_steps=400"]
    changes += ["--config.checkpoint.every_steps=10", f"--config={toy}"]
    words = ["-m", "etc_jax", "launch", "local"]
    words += ["--processes=4", "--devices_per_process=1"]
    words += ["--grace_secs=1"]

    def launch(name, restarts):
        argv = [*words, f"--restarts={restarts}", "--", "train", *changes]
        return subprocess.Popen(
            [sys.executable, *argv, f"--workdir={tmp_path / name}"],
            env={**processes.clean_environment(), **cache},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    whole = launch("whole", restarts=0)
    assert whole.wait(limits.SECS) == errors.DONE
    rng, began = random.Random(5), time.monotonic()
    metrics = tmp_path / "run/metrics.jsonl"

    def lines():
        return metrics.read_bytes().count(b"\n") if metrics.exists() else 0

    def kill_one(launcher):
        limits.until(lambda: len(children_of(launcher.pid)) == 4)
        children = children_of(launcher.pid)
        wanted = lines() + rng.randrange(1, 40)
        limits.until(lambda: lines() >= wanted or launcher.poll() is not None)
        assert launcher.poll() is None
        os.kill(rng.choice(children), signal.SIGKILL)
        limits.until(lambda: set(children).isdisjoint(children_of(launcher.pid)))

    launcher = launch("run", restarts=20)
    try:
        for _ in range(20):
            kill_one(launcher)
        assert launcher.wait(limits.SECS) == errors.DONE
    finally:
        launcher.kill()
        launcher.wait()
    print(f"20 kills and the end took {time.monotonic() - began:.0f} s")
    assert timeless(tmp_path / "run") == timeless(tmp_path / "whole")
    config = toy_job.config(
        train__num_steps=steps,
        train__batch_size=BATCH,
        train__eval_every_steps=400,
        checkpoint__every_steps=10,
        mesh__tensor=2,  # of this process
    )
    run, whole = (
        train_and_evaluate(config, tmp_path / name).state for name in ("run", "whole")
    )
    assert toy_job.digest(run) == toy_job.digest(whole)
