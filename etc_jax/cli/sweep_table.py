"""The table of a sweep: how far each run is, and how good, as its folder says."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shlex
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath

from etc_jax.base.whole_files import write_whole
from etc_jax.cli import next_steps
from etc_jax.config import Config
from etc_jax.training.checkpoints.folder import CheckpointFolder
from etc_jax.training.reporting import metrics as metrics_lib
from etc_jax.training.reporting.progress import in_words, is_score

TABLE, RECORD = "sweep.md", "sweep.json"
FINISHED, FAILED = "finished", "failed"
SEED = "seed"
_MOST_SCORES = 5  # beside the one that ranks; the record has all


@dataclasses.dataclass(frozen=True)
class SweepRun:
    """One run of a sweep.

    Attributes:
      settings: what it has of its own, by short names.
      argv: of `etc-jax train`.
      folder: of the run.
      config: that it trains.
    """

    settings: Mapping[str, Any]
    argv: Sequence[str]
    folder: pathlib.Path
    config: Config

    @property
    def name(self) -> str:
        """That of its folder."""
        return self.folder.name

    @property
    def command(self) -> str:
        """That trains it, as a shell takes it."""
        return shlex.join(["etc-jax", "train", *self.argv])

    def row(self, error: str | None = None) -> dict[str, Any]:
        """What is in the folder now, for the record.

        `best_step` is that of the best checkpoint that is kept, `value` its
        `checkpoint.best_metric` and `evaluation` all its metrics; None and {} if none
        was evaluated.

        Args:
          error: why the run failed.
        """
        section, num_steps = self.config.checkpoint, self.config.train.num_steps
        checkpoints = CheckpointFolder(epath.Path(self.folder))
        saved = {step: checkpoints.evaluation(step) for step in checkpoints.finished()}
        values = {step: section.metric_in(x) for step, x in saved.items()}
        best = next(iter(section.ranked(values)), None)
        state = f"step {max(saved)} of {num_steps}" if saved else "not begun"
        if saved.get(num_steps):  # and evaluated: a run that was killed makes up for it
            state = FINISHED
        return {
            "name": self.name,
            "settings": self.settings,
            "state": FAILED if error else state,
            "error": error,
            "best_step": best,
            "value": values.get(best),
            "evaluation": saved.get(best, {}),
            "secs": metrics_lib.spent_secs(self.folder),
            "command": self.command,
        }


def write(
    workdir: str | os.PathLike,
    name: str,
    runs: Sequence[SweepRun],
    failures: Mapping[str, str],
) -> str:
    """Writes the table and its record, each whole or not at all; returns the table.

    Args:
      workdir: of the sweep.
      name: of the config.
      runs: all of them, in the order of the grid.
      failures: name of a run that failed -> why.
    """
    section = runs[0].config.checkpoint

    def best_first(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        ranked = section.ranked({i: row["value"] for i, row in enumerate(rows)})
        return [rows[i] for i in dict.fromkeys([*ranked, *range(len(rows))])]

    rows = best_first([run.row(failures.get(run.name)) for run in runs])
    seeds = best_first(_over_seeds(rows))
    best = (seeds or rows)[0]
    record = {
        "config": name,
        "metric": section.best_metric,
        "best_is": section.best_is,
        "best": None if best["value"] is None else best["name"],
        "over_seeds": seeds,
        "runs": rows,
    }
    parts = [*_parts(record)]
    for run in runs:
        if run.name == record["best"]:
            step = run.row()["best_step"]
            parts.append(f"The best is step {step} of {run.folder}")
            parts.append(next_steps.of_run(run.config, run.folder, step=step))
    text = "\n\n".join(filter(None, parts))
    folder = pathlib.Path(workdir)
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / RECORD, metrics_lib.to_json(record, indent=1))
    write_whole(folder / TABLE, f"{text}\n")
    return text


def _over_seeds(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each setting, of its finished runs; none if no setting has two seeds.

    Args:
      rows: of the runs, the best one first.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        others = {k: x for k, x in row["settings"].items() if k != SEED}
        groups.setdefault(repr(others), []).append(row)
    if len(groups) == len(rows):
        return []
    means = []
    for group in groups.values():
        done = {
            str(row["settings"][SEED]): row["value"]
            for row in group
            if row["state"] == FINISHED and row["value"] is not None
        }
        few, best = len(done) < 2, group[0]
        means.append(
            {
                "name": best["name"],
                "settings": {k: x for k, x in best["settings"].items() if k != SEED},
                "value": statistics.mean(done.values()) if done else None,
                "standard_deviation": None if few else statistics.stdev(done.values()),
                "values": done,
                "seeds": len(group),
            }
        )
    return means


def _parts(record: Mapping[str, Any]) -> list[str]:
    """Title, tables and failures, in Markdown."""
    rows, metric = record["runs"], record["metric"]
    states = [row["state"] for row in rows]
    failed = f", {states.count(FAILED)} failed" if FAILED in states else ""
    every = dict.fromkeys(name for row in rows for name in row["evaluation"])
    scores = [name for name in every if is_score(name) and name != metric]
    shown = [*scores[:_MOST_SCORES], *(["loss"] if metric != "loss" else [])]
    seeds = [
        row["settings"]
        | {f"mean {metric}": _number(row["value"])}
        | {"standard deviation": _number(row["standard_deviation"])}
        | {"seeds": f"{len(row['values'])} of {row['seeds']}"}
        for row in record["over_seeds"]
    ]
    lines = [
        row["settings"]
        | {metric: _number(row["value"]), "best step": _step(row["best_step"])}
        | {name: _number(row["evaluation"].get(name)) for name in shown}
        | {"time": in_words(row["secs"]), "state": row["state"]}
        for row in rows
    ]
    return [
        f"# Sweep of {record['config']}: {states.count(FINISHED)} of {len(rows)} runs "
        f"are finished{failed}",
        f"By the {record['best_is']} {metric} of each run's checkpoints; other metrics "
        "are of the same checkpoint.",
        *map(_markdown, filter(None, [seeds, lines])),
        *(f"Failed: {row['name']}: {row['error']}" for row in rows if row["error"]),
    ]


def _step(step: int | None) -> str:
    return "–" if step is None else f"{step}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [rows[0], ["---"] * len(rows[0]), *(row.values() for row in rows)]
    cells = [[str(x).replace("|", "\\|") for x in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)
