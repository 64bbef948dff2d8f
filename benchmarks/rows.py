"""Rows of a table, each a small model that is trained and scored with some seeds.

What the benchmarks share that compare models by what they learn: a config with what a
row changes in it, a run of a row with a seed, the table of all runs, the command line.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import statistics
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from benchmarks import finetuning_runs, report
from benchmarks.finetuning_runs import Spent
from configs import quickstart_wikihop
from etc_jax.config import Config
from etc_jax.data.windows.cache import WindowCache
from etc_jax.training.errors import RunError

MODEL = quickstart_wikihop.MODEL


@dataclasses.dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
      row: its name.
      seed: of parameters and order.
      scores: the official metrics on the held-back items, in percent.
      curve: (step, a metric of the evaluations during training in percent), to the end.
      spent: on it, but not on pre-training.
      pretraining: spent on that; None without it.
    """

    row: str
    seed: int
    scores: dict[str, float]
    curve: tuple[tuple[int, float], ...]
    spent: Spent
    pretraining: Spent | None = None


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Rows to be compared.

    Attributes:
      run_fn: trains and scores (row, seed), unless that was done before.
      measure: the official metric that counts.
      metric: of the evaluations during training, what a learning curve shows.
      beside: further official metrics to be reported.
      pairs: rows (one, other) between which the difference is reported.
      wanted_points: that each is asked to be ahead with every seed; None: any lead.
      about: what the file of results says first.
    """

    run_fn: Callable[[str, int], Run]
    measure: str
    metric: str
    beside: tuple[str, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    wanted_points: float | None = None
    about: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def is_as_wanted(self, runs: Sequence[Run]) -> bool:
        """Whether the first of every pair is as far ahead as is asked for."""
        if self.wanted_points is None:
            return True
        leads = (lead(runs, self.measure, pair).values() for pair in self.pairs)
        return all(x >= self.wanted_points for points in leads for x in points)


def config(
    caches: tuple[WindowCache, WindowCache],
    row: Mapping[str, Any],
    *,
    model: Mapping[str, Any],
    seed: int,
    steps: int,
    changes: Sequence[str] = (),
    start: Mapping[str, Any] | None = None,
) -> Config:
    """The checked config of a run.

    Args:
      caches: to learn from and held back, in one folder with what was compiled.
      row: {dotted path: value} that is different in this row; it has the last word.
      model: fields of `EtcConfig`.
      seed: of parameters and order.
      steps: of training.
      changes: of the command line; see `finetuning_runs.changed`.
      start: fields of `CheckpointConfig`: which parameters are there already.

    Raises:
      ValueError: if something does not fit.
    """
    made = finetuning_runs.small_config(*caches, model)
    finetuning_runs.set_training(made, seed=seed, steps=steps)
    # Compiled once for all seeds.
    made.train.compile_cache_dir = str(caches[0].path.parent / "compile_cache")
    made.checkpoint.update(start or {})
    return finetuning_runs.changed(made, [*changes, *finetuning_runs.as_changes(row)])


def train_and_score(
    made: Config,
    folder: pathlib.Path,
    *records: str | pathlib.Path,
    row: str,
    metric: str,
    threshold: float | None = None,
    pretraining: Spent | None = None,
) -> Run:
    """A run of a row, trained and scored unless that was done before.

    Args:
      made: its config.
      folder: of the run.
      *records: files of official ones, held back.
      row: its name.
      metric: of the evaluations during training.
      threshold: of decoding; None: the best one, where there is a choice.
      pretraining: what the run before it took.

    Raises:
      RunError: see `finetuning_runs.train` and `official_scores`.
    """
    spent = finetuning_runs.train(made, folder)
    scores = finetuning_runs.official_scores(
        folder, folder / "evaluation", *records, threshold=threshold
    )
    curve = tuple(
        (line["step"], 100 * line[metric])
        for line in finetuning_runs.evaluations(folder)
    )
    percent = {name: 100 * share for name, share in scores.items()}
    return Run(row, made.train.seed, percent, curve, spent, pretraining)


# --- table ----------------------------------------------------------------------------


def table(runs: Sequence[Run], comparison: Comparison) -> str:
    """Each row's score: mean and standard deviation over seeds, and each seed.

    Beside it, further metrics and the mean learning curve, in which rows that end alike
    may still differ. Rows that are evaluated at other steps have these in their curve.
    """
    measure = comparison.measure
    seeds = sorted({run.seed for run in runs})
    steps = _steps(runs[0])
    head = ["row", measure, *(f"seed {seed}" for seed in seeds), *comparison.beside]
    head += [f"{comparison.metric} at {steps}", "CPU min a run"]
    lines = []
    for row in dict.fromkeys(run.row for run in runs):
        mine = {run.seed: run for run in runs if run.row == row}
        score = {seed: run.scores[measure] for seed, run in mine.items()}
        beside = [
            report.spread(run.scores[name] for run in mine.values())
            for name in comparison.beside
        ]
        each = [f"{score[s]:.1f}" if s in score else "-" for s in seeds]
        cpu = statistics.mean(run.spent.cpu_secs for run in mine.values()) / 60
        curve = _mean_curve(list(mine.values()), steps)
        lines.append(
            [row, report.spread(score.values()), *each, *beside, curve, f"{cpu:.1f}"]
        )
    for pair in comparison.pairs:
        if ahead := lead(runs, measure, pair):
            each = [f"{ahead[s]:+.1f}" if s in ahead else "-" for s in seeds]
            empty = [""] * (len(comparison.beside) + 2)
            lines.append(
                [" - ".join(pair), report.spread(ahead.values()), *each, *empty]
            )
    return report.table(head, lines)


def lead(runs: Sequence[Run], measure: str, pair: tuple[str, str]) -> dict[int, float]:
    """Points between two rows, by seeds that both have."""
    first, second = (
        {run.seed: run.scores[measure] for run in runs if run.row == row}
        for row in pair
    )
    return {seed: first[seed] - second[seed] for seed in first if seed in second}


def _steps(run: Run) -> str:
    return " / ".join(str(step) for step, _ in run.curve)


def _mean_curve(runs: Sequence[Run], steps: str) -> str:
    points = zip(*(run.curve for run in runs), strict=True)
    means = [statistics.mean(y for _, y in point) for point in points]
    curve = " / ".join(f"{mean:.1f}" for mean in means)
    own = _steps(runs[0])
    return curve if own == steps else f"{curve} at {own}"


# --- command line ---------------------------------------------------------------------


def parser(
    name: str, text: str, names: Collection[str], *, items: int, held_back: int
) -> argparse.ArgumentParser:
    """The options that all such benchmarks have.

    Args:
      name: of the module.
      text: its docstring.
      names: of the rows.
      items: to learn from, by default.
      held_back: items to be evaluated on, by default.
    """
    made = argparse.ArgumentParser(
        prog=f"python -m {name}",
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = made.add_argument
    add("--rows", type=report.names(names), default=tuple(names), help=",".join(names))
    add("--seeds", type=report.integers, default=(0, 1, 2))
    add("--items", type=int, default=items, help="to learn from")
    add("--held_back", type=int, default=held_back, help="items to be evaluated on")
    add("--workdir", type=pathlib.Path, help="default: below runs/")
    add("--out", type=pathlib.Path, help="JSON file to write")
    return made


def main(
    options: argparse.ArgumentParser,
    argv: Sequence[str] | None,
    prepare_fn: Callable[[argparse.Namespace, Sequence[str]], Comparison],
) -> int:
    """Trains what is missing, seed by seed, and tells of it; returns the exit code.

    Args:
      options: the command line, made by `parser`.
      argv: its arguments; None: those of the process. Those of the form
        --config.A.B=VALUE are changes for all runs.
      prepare_fn: makes the items and checks the config of every run; its errors
        (ValueError, OSError, RunError) end the command.
    """
    args, changes = options.parse_known_args(argv)
    try:
        comparison = prepare_fn(args, changes)
        runs = _runs(comparison, args)
    except (ValueError, OSError, RunError) as error:
        print(f"{options.prog.removeprefix('python -m ')}: {error}", file=sys.stderr)
        return getattr(error, "exit_code", 2)
    print(table(runs, comparison))
    if args.out is not None:
        values = {**comparison.about, "measure": comparison.measure}
        values["options"] = list(changes)
        values["runs"] = [dataclasses.asdict(run) for run in runs]
        args.out.write_text(json.dumps(values, indent=1) + "\n")
    return 0 if comparison.is_as_wanted(runs) else 1


def _runs(comparison: Comparison, args: argparse.Namespace) -> list[Run]:
    measure, runs = comparison.measure, []
    for seed in args.seeds:
        for row in args.rows:
            runs.append(comparison.run_fn(row, seed))
            score = runs[-1].scores[measure]
            print(f"{row}, seed {seed}: {measure} {score:.1f}", flush=True)
    return runs
