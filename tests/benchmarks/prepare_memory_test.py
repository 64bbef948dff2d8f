"""Memory of preparing: what is measured, at tiny sizes; that it is flat, at larger."""

import json
import pathlib
import subprocess
import sys

import pytest

from benchmarks import long_files

ROOT = pathlib.Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="looks at processes in /proc"
)


def measured(folder, *argv):
    """What the command finds, in a process of its own."""
    out = folder / "memory.json"
    command = [sys.executable, "-m", "benchmarks.prepare_memory", f"--out={out}"]
    done = subprocess.run(
        [*command, *argv], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return json.loads(out.read_text()), done.stdout


def test_peaks_are_those_of_all_processes(tmp_path):
    got, text = measured(tmp_path, "--megabytes=0.2", "--workers=1")
    peaks = got["peak_bytes"]
    # This one, a worker, and the helper that multiprocessing starts.
    assert len(peaks) == 3 and "self" in peaks
    assert sum(x > 50 * 2**20 for x in peaks.values()) == 2
    assert got["task"] == "hotpotqa" and got["growth"] >= 0
    assert got["records"] == got["windows"] > 20
    rate = got["records"] / got["secs"]
    assert f"{got['records']} records" in text and f"{rate:.1f} records/s" in text


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--gzip",)])
@pytest.mark.parametrize("task", long_files.TASKS)
def test_memory_does_not_grow_with_the_file(tmp_path, task, more):
    # Of articles there must be some hundred: they differ in length.
    megabytes = {"hotpotqa": 100, "natural_questions": 1200}[task]
    argv = [f"--task={task}", f"--megabytes={megabytes}", "--workers=2", *more]
    got, _ = measured(tmp_path, *argv)
    assert got["growth"] < 0.1
    assert (got["bytes"] < got["text_bytes"] / 2) == bool(more)
