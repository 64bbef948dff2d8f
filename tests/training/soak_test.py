"""A long run with many saves takes no more memory, files or threads at its end."""

import gc
import os
import pathlib

import pytest
import toy_job
from training_runs import after_each_step

from etc_jax.training.run import train_and_evaluate


def resident_mib() -> float:
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 2**10


def count(folder: str) -> int:
    return len(os.listdir(f"/proc/self/{folder}"))


def soak(monkeypatch, workdir, *, steps, every, sample_every):
    """Figures (step, resident MiB, file descriptors, threads) along a run."""
    samples = []

    def look(run):
        if run._step % sample_every == 0:
            run._checkpointer.wait()
            gc.collect()
            samples.append((run._step, resident_mib(), count("fd"), count("task")))

    gc.collect()
    gc.freeze()  # it would take seconds to go through what other tests left
    after_each_step(monkeypatch, look)
    config = toy_job.config(
        train__num_steps=steps,
        train__log_every_steps=50,
        train__eval_every_steps=steps // 4,
        checkpoint__every_steps=every,
    )
    try:
        result = train_and_evaluate(config, workdir)
    finally:
        gc.unfreeze()
    assert result.step == steps
    assert len(list((workdir / "checkpoints").iterdir())) == 3
    for step, mib, files, threads in samples:
        print(f"step {step}: {mib:.0f} MiB, {files} files, {threads} threads")
    return samples


def flat(samples, which, slack):
    values = [sample[which] for sample in samples]
    return max(values) <= values[0] + slack


pytestmark = pytest.mark.skipif(
    not pathlib.Path("/proc/self/status").exists(), reason="figures are from /proc"
)


@pytest.mark.full
def test_two_thousand_steps_and_two_hundred_saves(tmp_path, monkeypatch):
    samples = soak(monkeypatch, tmp_path, steps=2000, every=10, sample_every=100)
    samples = [sample for sample in samples if sample[0] >= 200]
    first, last = samples[0][1], samples[-1][1]
    print(f"resident memory: {first:.0f} -> {last:.0f} MiB ({last / first - 1:+.1%})")
    assert last < 1.05 * first
    assert flat(samples, 2, slack=5) and flat(samples, 3, slack=5)
