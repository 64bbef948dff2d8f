"""What a run reports: one JSON line an event."""

import collections
import json
import logging
import math
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
from etils import epath

from etc_jax.base import stores, strict_json
from etc_jax.training.reporting.line_file import LineFile

_LOG = logging.getLogger(__name__)

FILE = "metrics.jsonl"
UNREADABLE = "metrics_unreadable.txt"
# Lines that wait for space on the disk; some MB.
MOST_WAITING = 10_000


def _plain(value: Any) -> Any:
    """A value as JSON takes it; numbers that are not finite become null."""
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def to_json(values: Mapping[str, Any], **options) -> str:
    """Strict JSON of metrics: NaN and infinities become null."""
    return json.dumps(_plain(values), allow_nan=False, **options)


class MetricsWriter:
    """Appends to `workdir/metrics.jsonl`, on process 0 alone.

    What cannot be written (a full disk) waits in memory for the next report: it does
    not end the run.

    Lines after `resume_step` are from steps that will be done again; they go, so the
    file is the history of one run. Lines that cannot be read are moved to
    `metrics_unreadable.txt`.

    Args:
      workdir: the run's folder.
      resume_step: the step that the run continues from; 0 for a new one.
      is_evaluated: whether the evaluation of that step was finished and stays.

    Attributes:
      lost_lines: how many have been given up so far.
    """

    def __init__(
        self,
        workdir: str | os.PathLike,
        *,
        resume_step: int = 0,
        is_evaluated: bool = True,
    ):
        self.lost_lines = 0
        self._file = LineFile(stores.absolute(workdir) / FILE)
        self._waiting: collections.deque[bytes] = collections.deque(maxlen=MOST_WAITING)
        self._is_failing = False
        self._active = jax.process_index() == 0
        if not self._active:
            return

        def stays(step: float, kind: Any) -> bool:
            if step == resume_step and kind == "eval":
                return is_evaluated
            return step <= resume_step

        try:
            _tidy(self._file, stays)
        except OSError as error:
            _LOG.error("%s stays as it is: %s", self._file.path, error)

    def write(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Adds one line: `step`, `kind` ("train" or "eval") and the metrics."""
        if not self._active:
            return
        self.lost_lines += len(self._waiting) == MOST_WAITING  # the oldest one goes
        line = to_json({"step": step, "kind": kind, **values})
        self._waiting.append(line.encode() + b"\n")
        try:
            self._file.append(b"".join(self._waiting))
        except OSError as error:
            if not self._is_failing:
                _LOG.error(
                    "METRICS NOT WRITTEN from step %d on: %s. The run goes on; the "
                    "lines wait in memory, %d at most",
                    step,
                    error,
                    MOST_WAITING,
                )
            self._is_failing = True
            return
        if self._is_failing:
            _LOG.warning(
                "%d lines of metrics that had to wait are written now; %d are lost",
                len(self._waiting),
                self.lost_lines,
            )
        self._is_failing = False
        self._waiting.clear()

    def close(self) -> None:
        """Says what is lost."""
        if lost := self.lost_lines + len(self._waiting):
            _LOG.error("%d lines of metrics are not in %s", lost, self._file.path)


def _tidy(file: LineFile, stays: Callable[[float, Any], bool]) -> None:
    """Leaves the lines of a file for which `stays(step, kind)` is true.

    Raises:
      OSError: if the storage refuses; nothing is lost then.
    """
    for part in file.parts():
        content = part.read_bytes()
        lines, unreadable = [], []
        for number, line in enumerate(content.splitlines(keepends=True), 1):
            event = _event(line)
            if event is None:
                if line.strip():
                    unreadable.append((number, line))
            elif stays(*event):
                lines.append(line)
        if unreadable:
            _put_aside(part, unreadable)
        file.replace(part, content, b"".join(lines))


def _event(line: bytes) -> tuple[float, Any] | None:
    """(step, kind) of a line; None if it is damaged, such as cut short by a crash."""
    try:
        values = strict_json.loads(line)
        step, kind = values["step"], values.get("kind")
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    is_number = isinstance(step, int | float) and math.isfinite(step)
    return (step, kind) if is_number else None


def lines_of(workdir: str | os.PathLike) -> list[bytes]:
    """What a run has reported so far, some lines of which may be damaged.

    Raises:
      OSError: if the storage cannot be read.
    """
    return LineFile(stores.absolute(workdir) / FILE).read().splitlines()


def evaluations(workdir: str | os.PathLike) -> list[dict[str, float]]:
    """The evaluations of a run that were finished, in order: step and metrics of each.

    Left out are times, damaged lines and values that were not finite.
    """
    finished = []
    for line in lines_of(workdir):
        step, kind = _event(line) or (None, None)
        values = strict_json.loads(line) if kind == "eval" else {}
        if "failed_evaluations" not in values and values:
            metrics = {
                name: value
                for name, value in values.items()
                if isinstance(value, int | float) and not name.endswith("_secs")
            }
            finished.append({**metrics, "step": step})
    return finished


def spent_secs(workdir: str | os.PathLike) -> float:
    """Time of training and evaluating so far, of all starts of a run.

    What came after the last report of a start that was cut short is not counted.
    """
    secs = latest = 0.0
    for line in lines_of(workdir):
        if _event(line) is None:  # the run that continues puts it aside
            continue
        now = strict_json.loads(line).get("wall_secs", latest)
        if now < latest:  # another start
            secs += latest
        latest = now
    return secs + latest


def _put_aside(path: epath.Path, lines: list[tuple[int, bytes]]) -> None:
    aside = path.parent / UNREADABLE
    LineFile(aside).append(b"".join(line.rstrip(b"\r\n") + b"\n" for _, line in lines))
    shown = ", ".join(str(number) for number, _ in lines[:5])
    more = f" and {len(lines) - 5} more" if len(lines) > 5 else ""
    _LOG.warning(
        "%s: line %s%s cannot be read (a crash while writing, or a damaged file); "
        "moved to %s",
        path,
        shown,
        more,
        aside,
    )


class StepMetrics:
    """Gathers the metrics of steps between two reports, fetching them one step late.

    Waiting for a step that has only been started would leave the device idle between
    steps, so `add` looks at the metrics of the step before.

    Args:
      skipped_steps: updates skipped so far, in all.
      skipped_in_row: of these, the ones at the end.
      window: what `window` gave when the run was stopped between two reports.

    Attributes:
      skipped_steps, skipped_in_row: the same, up to the last fetched step.
      last_step: the last fetched step; None before the first.
    """

    def __init__(
        self,
        *,
        skipped_steps: int = 0,
        skipped_in_row: int = 0,
        window: Mapping[str, Any] | None = None,
    ):
        self.skipped_steps = skipped_steps
        self.skipped_in_row = skipped_in_row
        self.last_step: int | None = None
        self._pending: tuple[int, Any] | None = None
        self._reset()
        if window is not None:
            self._losses = list(window["losses"])
            self._sums = {k: (s, w) for k, (s, w) in window["sums"].items()}

    def _reset(self) -> None:
        self._losses: list[float] = []
        self._sums: dict[str, tuple[float, float]] = {}
        self._last: dict[str, float] = {}
        self._steps = 0
        self._began = time.perf_counter()

    def window(self) -> dict[str, Any]:
        """What has been gathered since the last report, as JSON takes it.

        A resumed run continues from it, so that its next report is that of a run which
        was not stopped.
        """
        sums = {k: list(pair) for k, pair in self._sums.items()}
        return {"losses": list(self._losses), "sums": sums}

    def exclude(self, secs: float) -> None:
        """Leaves out time that was not spent on training, such as an evaluation."""
        self._began += secs

    def add(self, step: int, metrics: Any) -> None:
        """Takes the metrics of a step that has been started."""
        previous, self._pending = self._pending, (step, metrics)
        self._fetch(previous)

    def flush(self) -> None:
        """Waits for the last step."""
        previous, self._pending = self._pending, None
        self._fetch(previous)

    def _fetch(self, pending: tuple[int, Any] | None) -> None:
        if pending is None:
            return
        self.last_step = pending[0]
        got = jax.device_get(pending[1])
        self._steps += 1
        self._last = {
            k: float(got[k]) for k in ("learning_rate", "grad_norm", "param_norm")
        }
        if got["skipped"]:
            self.skipped_steps += 1
            self.skipped_in_row += 1
            return
        self.skipped_in_row = 0
        self._losses.append(float(got["loss"]))
        self._sums = add_sums(self._sums, got["sums"])

    def take(self, *, tokens_per_step: int) -> dict[str, Any]:
        """The metrics since the last call (call `flush` first).

        Returns:
          `loss` (mean over the steps that were not skipped; NaN if there are none),
          `learning_rate`, `grad_norm`, `param_norm` (of the last step), `tokens_per_s`,
          `secs`, `skipped_steps` (of the whole run) and the loss function's metrics.
        """
        secs = time.perf_counter() - self._began
        losses = self._losses
        values = {
            **means(self._sums),
            **self._last,
            "loss": sum(losses) / len(losses) if losses else math.nan,
            "tokens_per_s": self._steps * tokens_per_step / secs,
            "skipped_steps": self.skipped_steps,
            "secs": secs,
        }
        self._reset()
        return values


def add_sums(total: dict, sums: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Adds `{name: (sum, weight)}` to a running total."""
    out = dict(total)
    for name, (value, weight) in sums.items():
        before = out.get(name, (0.0, 0.0))
        out[name] = (before[0] + float(value), before[1] + float(weight))
    return out


def means(sums: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """`sum / weight` by name; NaN where there is no weight."""
    return {k: s / w if w else math.nan for k, (s, w) in sums.items()}
