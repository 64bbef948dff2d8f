"""How far a run is, for a person: a line for each report, and a bar on a terminal."""

import contextlib
import logging
import math
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import tqdm

_LOG = logging.getLogger(__name__)

# Metrics in a line, beside the loss.
_MOST_METRICS = 3
# Shares of the time below which waiting is not worth a word.
_LITTLE = 0.05
_BAR = "{percentage:3.0f}%|{bar}| step {n_fmt} of {total_fmt}{postfix}"


class StepProgress:
    """Shows the metrics that matter most, and an estimate of the time left.

    All metrics are in metrics.jsonl. A terminal that is gone (a connection that broke)
    takes the bar with it, not the run.
    """

    def __init__(
        self, *, start: int, total: int, eval_every: int, best_metric: str = "loss"
    ):
        """See the class.

        Args:
          start: steps that are done already.
          total: steps of the whole run.
          eval_every: steps between evaluations; one more follows the last step.
          best_metric: of the evaluation, by which checkpoints are ranked.
        """
        self._total, self._best = total, best_metric
        self._time = _TimeLeft(start, total, eval_every)
        self._bar = None
        if jax.process_index() == 0 and sys.stderr.isatty():
            self._bar = tqdm.tqdm(initial=start, total=total, bar_format=_BAR)

    @contextlib.contextmanager
    def _shown(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._bar.disable = True  # else it would be written to when it is deleted
            self._bar = None
            _LOG.warning("progress is no longer shown: %s", error)

    def advance(self) -> None:
        """One step is done."""
        if self._bar is not None:
            with self._shown():
                self._bar.update()

    def report(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Shows the metrics of one event, "train" or "eval"."""
        if jax.process_index() != 0:
            return
        self._time.report(kind, step, values)
        parts = [*self._metrics(values), *_speed(values), *_troubles(values)]
        text = ", ".join([*parts, *self._time.left(kind, step)])
        if self._bar is not None and kind == "train":
            with self._shown():
                self._bar.set_postfix_str(text)
        what = "evaluation at step" if kind == "eval" else "step"
        _LOG.info("%s %d of %d: %s", what, step, self._total, text)

    def _metrics(self, values: Mapping[str, Any]) -> Iterator[str]:
        """The loss, what checkpoints are ranked by, official scores, accuracies."""
        scores = filter(is_score, values)
        official_first = sorted(scores, key=lambda x: not x.startswith("official_"))
        wanted = [self._best, *official_first]
        more = [n for n in dict.fromkeys(wanted) if n in values and n != "loss"]
        # What no example has a label for has no mean.
        more = [n for n in more if not math.isnan(values[n])]
        for name in ["loss", *more[:_MOST_METRICS]]:
            if name in values:
                yield f"{name.replace('_', ' ')} {values[name]:.4g}"

    def close(self) -> None:
        """Leaves the terminal in order."""
        if self._bar is not None:
            with self._shown():
                self._bar.close()


def is_score(metric: str) -> bool:
    """Whether a metric says how well a run does what it is for."""
    return metric.startswith("official_") or metric.endswith("accuracy")


def _speed(values: Mapping[str, Any]) -> Iterator[str]:
    if (tokens := values.get("tokens_per_s")) is not None:
        yield f"{tokens:,.0f} tokens/s" if tokens >= 100 else f"{tokens:.3g} tokens/s"
    if (mfu := values.get("mfu")) is not None:
        yield f"MFU {mfu:.1%}"
    if (secs := values.get("eval_secs")) is not None:
        yield f"took {in_words(secs)}"


def _troubles(values: Mapping[str, Any]) -> Iterator[str]:
    """What a person should know of, if there is any."""
    if skipped := values.get("skipped_steps"):
        yield f"{skipped} skipped as not finite"
    if failed := values.get("failed_saves"):
        yield f"{failed} saves failed"
    if failed := values.get("failed_evaluations"):
        yield f"{failed} evaluations failed"
    for name, doing in (("data_wait", "waiting for data"), ("checkpoint", "saving")):
        if (share := values.get(f"{name}_share", 0)) >= _LITTLE:
            yield f"{share:.0%} of the time {doing}"


class _TimeLeft:
    """Estimates the rest of a run from its last steps and its last evaluation."""

    def __init__(self, start: int, total: int, eval_every: int):
        self._total, self._every = total, eval_every
        self._step, self._wall = start, 0.0
        self._step_secs: float | None = None
        self._eval_secs: float | None = None

    def report(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Takes the times of one event: `wall_secs`, and `eval_secs`."""
        if kind == "eval":
            self._eval_secs = values["eval_secs"]
            self._wall += self._eval_secs  # no time of steps
        elif step > self._step:
            secs = values["wall_secs"] - self._wall
            self._step_secs = max(secs, 0.0) / (step - self._step)
            self._step, self._wall = step, values["wall_secs"]

    def left(self, kind: str, step: int) -> Iterator[str]:
        """In words; nothing where nothing is known or left."""
        evaluations = self._total // self._every - step // self._every
        evaluations += self._total % self._every > 0
        if kind == "train":  # that of this step is still to come
            evaluations += step % self._every == 0
        is_over = kind == "eval" and step == self._total
        if self._step_secs is None or is_over:
            return
        secs = self._step_secs * (self._total - step)
        if step == self._total and self._eval_secs is None:
            yield "an evaluation is left"
        elif self._eval_secs is None:
            yield f"{in_words(secs)} left without evaluations"
        else:
            secs += self._eval_secs * evaluations
            yield f"about {in_words(secs)} left"


def in_words(secs: float) -> str:
    """A time such as 45 s, 12 min or 3 h 20 min."""
    if secs < 99.5:
        return f"{secs:.0f} s"
    minutes = round(secs / 60)
    if minutes < 100:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"
