"""The first half of the quickstart with its real commands, on a small text."""

import json
import os
import sys

import programs
import pytest
from main_path import cache_dir_fixture  # noqa: F401
from repository import ROOT
from small_text import SMALL
from training_runs import lines
from xla_flags import xla_flags

pytest.importorskip("nupunkt")
# Quicker: main_path_test.py, the same stop, resume and figures.
pytestmark = pytest.mark.full


def one_device() -> dict[str, str]:
    """An environment with one device."""
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    flags = xla_flags(devices=1)
    return {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": path}


STEPS = 120


def test_the_quickstart_stops_resumes_learns_and_reports(cache_dir, tmp_path):
    lengths = {
        "model.num_layers": 1,
        "train.num_steps": STEPS,
        "train.eval_every_steps": STEPS // 2,
        "train.log_every_steps": 10,
        "schedule.warmup_steps": 20,
    }
    config = {**SMALL, **lengths, "data.cache_dir": cache_dir}
    argv = ["--config=quickstart"]
    argv += [f"--workdir={tmp_path / 'run'}", "--pretrain_only"]
    argv += [f"--config.{path}={value}" for path, value in config.items()]

    def start():
        return programs.run("launch.quickstart", *argv, environ=one_device(), cwd=ROOT)

    first = start()
    assert (tmp_path / "run" / "report.md").exists(), first.stderr
    report = (tmp_path / "run" / "report.md").read_text()
    bars = [
        row for row in report.splitlines() if row.endswith(("| yes |", "| **no** |"))
    ]
    assert len(bars) == 4
    # So few steps are enough for masked words, for masked sentences with luck.
    held = [row.endswith("| yes |") for row in bars]
    assert held[0] and held[2] and held[3], report
    word = "passed" if all(held) else "FAILED"
    assert report.startswith(f"# Quickstart of etc_jax: {word}")
    assert first.stdout.startswith(f"quickstart of etc_jax: {word}")
    assert first.stdout.endswith("report.md\n")
    assert first.returncode == (0 if all(held) else 1)
    record = json.loads((tmp_path / "run" / "quickstart.json").read_text())
    assert [x["exit_code"] for x in record["launches"]] == [17, 0]
    assert STEPS // 2 <= record["launches"][0]["saved_step"] < STEPS
    steps = [line["step"] for line in lines(tmp_path / "run", "train")]
    assert steps == list(range(10, STEPS + 1, 10))
    again = start()
    assert again.returncode == first.returncode
    assert "it is not trained again" in again.stderr
    assert again.stdout == first.stdout
