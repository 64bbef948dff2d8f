"""How good the model of a run is, as far as the run and evaluations have recorded."""

from __future__ import annotations

import dataclasses
import logging
import pathlib
from collections.abc import Mapping
from typing import Any

from etc_jax.base import strict_json
from etc_jax.config import Config
from etc_jax.conversion.formats import native
from etc_jax.loading.model_source import ModelSource
from etc_jax.training.checkpoints.folder import FOLDER
from etc_jax.training.reporting import metrics as metrics_lib

_LOG = logging.getLogger(__name__)

# What `etc-jax evaluate` writes.
SCORES = "scores.json"
# In the report of an exported model, what was on record of its run.
FIELD = "results"


@dataclasses.dataclass(frozen=True)
class RunResults:
    """What is on record of a model that a run has trained.

    Attributes:
      step: of the run, after which the model was saved; None: not recorded.
      best: step and metrics of the best evaluation until then, as the run ranks
        checkpoints, such as {"step": 500, "loss": 0.3}; None: there is none.
      last: the same of the last evaluation until then.
      scores: of this very model, by the folder of each `scores.json`: its `task`,
        `files` and `metrics`.
    """

    step: int | None = None
    best: Mapping[str, float] | None = None
    last: Mapping[str, float] | None = None
    scores: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)


def read(source: ModelSource) -> RunResults:
    """The results of a run's model: of a run, or of what was exported from one.

    Raises:
      ValueError, RunError: if the model, or the report of an export, is damaged.
    """
    saved = source.saved
    if saved is None:
        return _of_exported(source)
    if saved.folder.parent.name != FOLDER:  # it was moved out of its run
        return RunResults(saved.step)
    run = pathlib.Path(saved.run)
    best, last = _best_and_last(run, saved.config, saved.step)
    return RunResults(saved.step, best, last, _scores_below(run, source))


def _best_and_last(run: pathlib.Path, config: Config, step: int):
    """(best, last) evaluation of a run until a step; None where there is none."""
    evaluations = [x for x in metrics_lib.evaluations(run) if x["step"] <= step]
    metrics = {i: config.checkpoint.metric_in(x) for i, x in enumerate(evaluations)}
    ranked = config.checkpoint.ranked(metrics)
    best = evaluations[ranked[0]] if ranked else None
    return best, evaluations[-1] if evaluations else None


def _of_exported(source: ModelSource) -> RunResults:
    folder = pathlib.Path(source.place.path)
    path = folder / native.REPORT
    try:
        report = strict_json.loads(path.read_bytes()) if path.is_file() else {}
        results = report.get(FIELD, {})
        best, last = (_numbers(results.get(x) or {}) or None for x in ("best", "last"))
        scores = {x: _summary(y) for x, y in results.get("scores", {}).items()}
        step = report.get("made_from", {}).get("step")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is damaged ({repr(error)[:200]}); export the run again"
        ) from error
    return RunResults(step, best, last, scores | _scores_below(folder, source))


def _scores_below(folder: pathlib.Path, source: ModelSource) -> dict[str, Any]:
    """{folder below that of the model: scores} of this very model."""
    written = {path: _read_scores(path) for path in sorted(folder.rglob(SCORES))}
    # Which reads all parameters.
    digest = source.digest if any(written.values()) else None
    return {
        path.parent.relative_to(folder).as_posix(): _summary(values)
        for path, values in written.items()
        if values and values["model_sha256"] == digest
    }


def _read_scores(path: pathlib.Path) -> dict[str, Any] | None:
    """The content of a file of scores; None if another program has written it."""
    try:
        values = strict_json.loads(path.read_bytes())
        _summary(values), values["model_sha256"]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        _LOG.warning("%s is left out: no scores of etc-jax evaluate: %r", path, error)
        return None
    return values


def _summary(values: Mapping[str, Any]) -> dict[str, Any]:
    """What a card shows of scores."""
    files, metrics = map(str, values["files"]), _numbers(values["metrics"])
    return {"task": str(values["task"]), "files": list(files), "metrics": metrics}


def _numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Those that have a value."""
    return {k: x for k, x in metrics.items() if isinstance(x, int | float)}
