"""Which checkpoints stay: that what they are ranked by is there."""

from collections.abc import Iterable

from etc_jax.config.sections import Retention
from etc_jax.training.errors import UserError


def check_best_metric(config: Retention, names: Iterable[str]) -> None:
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
