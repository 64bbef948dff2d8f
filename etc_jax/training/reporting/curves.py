"""Pictures of how a run has learnt; they need the extra `plot`."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath

from etc_jax.base import strict_json
from etc_jax.base.extras import needed
from etc_jax.base.whole_files import whole
from etc_jax.training.reporting import metrics as metrics_lib
from etc_jax.training.reporting.progress import is_score

FILE = "curves.png"
# Lines of a run by their name, each with its "step".
Runs = Mapping[str, Sequence[Mapping[str, Any]]]
_MOST_SCORES = 2


def draw(workdir: epath.Path) -> None:
    """Draws the loss, scores and the learning rate of a run, over its steps.

    Args:
      workdir: the run's folder; the picture is written there.

    Raises:
      MissingExtraError: if matplotlib is not installed.
      OSError: if there are no metrics, or the picture cannot be written.
    """
    lines = list(map(strict_json.loads, metrics_lib.lines_of(workdir)))
    kinds = {"training": "train", "validation": "eval"}
    runs = {name: [x for x in lines if x["kind"] == k] for name, k in kinds.items()}
    names = dict.fromkeys(name for line in reversed(lines) for name in line)
    scores = [name for name in names if is_score(name)][:_MOST_SCORES]
    panels = ["loss", *scores, "learning_rate"]
    titles = {name: name.replace("_", " ") for name in panels}
    with whole(workdir / FILE) as picture:
        draw_panels(titles, runs, picture)


def figure(columns: int, width: float, height: float) -> tuple[Any, Any]:
    """A figure of matplotlib in inches, and its axes side by side.

    Raises:
      MissingExtraError: if matplotlib is not installed.
    """
    module = needed("matplotlib.figure", extra="plot", to="draw")
    figure = module.Figure(figsize=(width, height), layout="constrained", dpi=100)
    return figure, figure.subplots(1, columns)


def draw_panels(
    panels: Mapping[str, str], runs: Runs, path: pathlib.Path, **levels: float
) -> None:
    """Draws metrics side by side, each over the steps of every run that has it.

    Args:
      panels: {metric: title}, two or more.
      runs: by their names in the legend; a value may be None.
      path: of the picture.
      **levels: horizontal lines in the first panel.
    """
    picture, every = figure(len(panels), 4 * len(panels), 3.5)
    for ax, (metric, title) in zip(every, panels.items(), strict=True):
        for number, (name, lines) in enumerate(runs.items()):
            points = [(x["step"], x[metric]) for x in lines if metric in x]
            if points:
                # A single evaluation is no line.
                marker = "o" if len(points) == 1 else None
                style = {"color": f"C{number}", "marker": marker}
                steps, values = zip(*points, strict=True)
                values = [float("nan") if v is None else v for v in values]
                ax.plot(steps, values, label=name, **style)
        ax.set(title=title, xlabel="step")
    for name, level in levels.items():
        label = name.replace("_", " ")
        every[0].axhline(level, color="grey", linestyle="--", label=label)
    every[0].legend()
    picture.savefig(path, format="png", bbox_inches="tight")
