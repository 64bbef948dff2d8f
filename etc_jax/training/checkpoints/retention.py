"""Which checkpoints stay."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from etc_jax.config import CheckpointConfig
from etc_jax.training.errors import UserError


@dataclasses.dataclass(frozen=True)
class Retention:
    """What is kept; a checkpoint goes when no rule keeps it.

    Attributes:
      keep: so many of the newest, at least 1.
      keep_every_steps: those of the multiples of it stay for ever; None: no others.
      keep_best: so many of the best by `best_metric`.
      best_metric: a metric of the evaluation that was done at the checkpoint's step.
      best_is: whether lower or higher is better.
    """

    keep: int
    keep_every_steps: int | None = None
    keep_best: int = 0
    best_metric: str = "loss"
    best_is: Literal["lowest", "highest"] = "lowest"

    def metric_in(self, evaluation: Mapping[str, Any]) -> float | None:
        """The metric to rank a checkpoint by, from the evaluation of its step.

        None where the step was not evaluated, or the metric is not finite.
        """
        value = evaluation.get(self.best_metric)
        return value if value is not None and math.isfinite(value) else None

    def dispensable(self, metrics: Mapping[int, float | None]) -> list[int]:
        """The steps that may go, oldest first.

        Args:
          metrics: step -> metric (None: not known) of every finished checkpoint.
        """
        steps = sorted(metrics)
        stay = set(steps[-self.keep :])
        if self.keep_every_steps is not None:
            stay.update(step for step in steps if step % self.keep_every_steps == 0)
        sign = 1 if self.best_is == "lowest" else -1
        ranked = sorted(
            (step for step in steps if metrics[step] is not None),
            key=lambda step: (sign * metrics[step], step),
        )
        stay.update(ranked[: self.keep_best])
        return [step for step in steps if step not in stay]


def check_best_metric(config: CheckpointConfig, names: Iterable[str]) -> None:
    """Refuses to rank by a metric that no evaluation gives.

    Args:
      config: the section of the run's config.
      names: of what an evaluation gives.

    Raises:
      UserError: naming what there is.
    """
    names = sorted(names)
    if config.keep_best and config.best_metric not in names:
        official = config.best_metric.startswith("official_")
        has_none = not any(name.startswith("official_") for name in names)
        remedy = "choose one of these"
        if official and has_none:
            remedy += ", or name the official files of development data in "
            remedy += (
                "data.validation_files, by whose score checkpoints are then ranked"
            )
        raise UserError(
            f"checkpoint.best_metric is {config.best_metric!r}, but the evaluation "
            f"gives: {', '.join(names)}; {remedy}"
        )
