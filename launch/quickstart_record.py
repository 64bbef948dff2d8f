"""What a quickstart run leaves in its folder, read while it may be written."""

import dataclasses
import hashlib
import json
import os
import pathlib
from collections.abc import Sequence
from typing import Any

from etc_jax.training.errors import PREEMPTED

RECORD = "quickstart.json"


@dataclasses.dataclass(frozen=True)
class Launch:
    """One start of the training command.

    Attributes:
      exit_code: of the training command; negative: killed by that signal.
      secs: wall time from start to end, setting up and compiling included.
      stopped_by: "half-way" or "user"; None if nothing stopped it.
      saved_step: of the newest checkpoint at the end; None if there is none.
      metrics_lines: whole lines of the metrics file at the end.
      metrics_sha256: of these lines.
    """

    exit_code: int
    secs: float
    stopped_by: str | None
    saved_step: int | None
    metrics_lines: int
    metrics_sha256: str

    @property
    def stopped_half_way(self) -> bool:
        return self.stopped_by == "half-way" and self.exit_code == PREEMPTED


class Workdir:
    """What a run leaves in its folder, read while it may be written."""

    def __init__(self, folder: str | os.PathLike):
        self.folder = pathlib.Path(folder)

    def _json(self, name: str) -> dict[str, Any] | None:
        path = self.folder / name
        return json.loads(path.read_text()) if path.exists() else None

    def config(self) -> dict[str, Any] | None:
        """The config of the run; None before it has begun."""
        run = self._json("run.json")
        return None if run is None else run["config"]

    def saved_step(self) -> int | None:
        """Step of the newest checkpoint."""
        last = self._json("last_checkpoint.json")
        return None if last is None else last["step"]

    def all_steps_saved(self) -> bool:
        """Whether a checkpoint has the last step."""
        config = self.config()
        return config is not None and self.saved_step() == config["train"]["num_steps"]

    def final_report(self) -> dict[str, Any] | None:
        """Figures of the finished run; None before its end."""
        return self._json("final_report.json")

    def metrics_text(self) -> list[str]:
        """The lines of the metrics file, but for one that is being written."""
        path = self.folder / "metrics.jsonl"
        if not path.exists():
            return []
        lines = path.read_text().splitlines(keepends=True)
        return [line for line in lines if line.endswith("\n")]

    def metrics(self, kind: str) -> list[dict[str, Any]]:
        """The reports of one kind, "train" or "eval", in order."""
        lines = map(json.loads, self.metrics_text())
        return [line for line in lines if line["kind"] == kind]

    def metrics_stamp(self) -> tuple[int, int] | None:
        """Differs once the metrics file was written or replaced."""
        path = self.folder / "metrics.jsonl"
        if not path.exists():
            return None
        stat = path.stat()
        return stat.st_ino, stat.st_mtime_ns

    def record(self) -> dict[str, Any]:
        """What the quickstart noted about this run: launches, and facts at its end."""
        return self._json(RECORD) or {"launches": [], "facts": None}

    def launches(self) -> list[Launch]:
        """The launches so far, in order."""
        return [Launch(**launch) for launch in self.record()["launches"]]

    def note(self, **changes: Any) -> None:
        """Replaces entries of the record."""
        text = json.dumps(self.record() | changes, indent=2)
        part = self.folder / f".{RECORD}.part"
        part.write_text(text + "\n")
        part.replace(self.folder / RECORD)


def digest(lines: Sequence[str]) -> str:
    return hashlib.sha256("".join(lines).encode()).hexdigest()
