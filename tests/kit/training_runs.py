"""What the tests of whole runs share."""

import json
import os
import signal

from etc_jax.training.reporting.metrics import MetricsWriter

MESH = {"mesh__data": 2, "mesh__fsdp": 2, "mesh__tensor": 2}

# Figures that depend on the clock.
TIMES = {
    "tokens_per_s",
    "data_wait_share",
    "checkpoint_share",
    "wall_secs",
    "eval_secs",
}


def lines(workdir, kind):
    """The metrics lines of one kind."""
    text = (workdir / "metrics.jsonl").read_text()
    found = [json.loads(line) for line in text.splitlines()]
    return [line for line in found if line["kind"] == kind]


def losses(workdir):
    return {line["step"]: line["loss"] for line in lines(workdir, "train")}


def timeless(workdir):
    """All metrics lines, in order, without what depends on the clock."""
    text = (workdir / "metrics.jsonl").read_text()
    found = [json.loads(line) for line in text.splitlines()]
    return [{k: v for k, v in line.items() if k not in TIMES} for line in found]


def signal_at(monkeypatch, step, number=signal.SIGTERM):
    """Sends a signal to this process when the metrics of `step` are written."""
    write = MetricsWriter.write

    def write_and_signal(self, kind, at, values):
        write(self, kind, at, values)
        if at == step and kind == "train":
            os.kill(os.getpid(), number)

    monkeypatch.setattr(MetricsWriter, "write", write_and_signal)
