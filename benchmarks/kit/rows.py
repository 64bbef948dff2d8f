"""Rows of a table, each a small model that is trained and scored with some seeds.

What the benchmarks share that compare models by what they learn. A benchmark is its
rows, a function that makes a row's config, and what is measured of a finished run. Its
runs, seeds, table, file of results and command line are here. Finished runs are not
trained again: a command can be interrupted, and rows or seeds added later.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from benchmarks.kit import finetuning_runs, report
from benchmarks.kit.finetuning_runs import Spent
from etc_jax.cli import evaluate
from etc_jax.config import Config
from etc_jax.configs.quickstart import quickstart_wikihop
from etc_jax.training.errors import RunError
from etc_jax.training.reporting import metrics

MODEL = quickstart_wikihop.MODEL

# What ends the help of each study.
HELP = """
Finished runs are not trained again: a command that was stopped goes on where it stood,
and rows or seeds can be added. Arguments of the form --config.A.B=VALUE go to every
run.
"""

# A finished run's config and folder to its scores.
ScoreFn = Callable[[Config, pathlib.Path], Mapping[str, float]]


@dataclasses.dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
      row: its name.
      seed: of parameters and order.
      scores: what was measured at the end, such as official metrics in percent.
      curve: (step, a metric of the evaluations during training), to the end.
      spent: on it, but not on pre-training.
      pretraining: spent on that; None without it.
    """

    row: str
    seed: int
    scores: Mapping[str, Any]
    curve: tuple[tuple[int, float], ...]
    spent: Spent
    pretraining: Spent | None = None


@dataclasses.dataclass(frozen=True)
class Study:
    """Rows to be compared.

    Attributes:
      folder: of all runs.
      config_fn: the checked config of (row, seed).
      score_fn: see `ScoreFn`.
      measure: the score that counts.
      metric: of the evaluations during training, what a learning curve shows.
      before_fn: makes what (row, seed) starts from, and says what that took.
      scale: of a learning curve; 100 makes shares percent.
      form: of scores in the table.
      beside: further scores in the table.
      notes: {title: a cell from the first run of a row} in the table.
      paper: {row: {score: what the paper reports}}, in brackets.
      pairs: rows (one, other) between which the difference is reported.
      wanted_points: that each is asked to be ahead with every seed; None: any lead.
      least: {score: what it is asked to be at least in every run}.
      about: what the file of results says first.
    """

    folder: pathlib.Path
    config_fn: Callable[[str, int], Config]
    score_fn: ScoreFn
    measure: str
    metric: str
    before_fn: Callable[[str, int], Spent | None] = lambda row, seed: None
    scale: float = 100.0
    form: str = ".1f"
    beside: tuple[str, ...] = ()
    notes: Mapping[str, Callable[[Run], str]] = dataclasses.field(default_factory=dict)
    paper: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)
    pairs: tuple[tuple[str, str], ...] = ()
    wanted_points: float | None = None
    least: Mapping[str, float] = dataclasses.field(default_factory=dict)
    about: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def run(self, row: str, seed: int) -> Run:
        """Trains and scores, unless that was done before.

        Raises:
          ValueError, RunError: see `finetuning_runs.train` and the functions above.
        """
        before, config = self.before_fn(row, seed), self.config_fn(row, seed)
        folder = self.folder / f"{row}_seed{seed}"
        spent = finetuning_runs.train(config, folder)
        curve = tuple(
            (line["step"], self.scale * line[self.metric])
            for line in metrics.evaluations(folder)
        )
        scores = self.score_fn(config, folder)
        return Run(row, seed, scores, curve, spent, before)

    def summary(self, run: Run) -> str:
        """One finished run in a line."""
        score = f"{run.scores[self.measure]:{self.form}}"
        return f"{run.row}, seed {run.seed}: {self.measure} {score}"

    def is_as_wanted(self, runs: Sequence[Run]) -> bool:
        """Whether scores, and the leads of pairs, are as large as is asked for."""
        if any(r.scores[name] < x for r in runs for name, x in self.least.items()):
            return False
        if self.wanted_points is None:
            return True
        leads = (lead(runs, self.measure, pair).values() for pair in self.pairs)
        return all(x >= self.wanted_points for points in leads for x in points)

    def values(self, runs: Sequence[Run]) -> dict[str, Any]:
        """What the file of results says, but for the changes of the command line."""
        found = {**self.about, "measure": self.measure}
        return found | {"runs": [dataclasses.asdict(run) for run in runs]}

    def table(self, runs: Sequence[Run]) -> str:
        """Each row's scores: mean and standard deviation over seeds, and each seed.

        Beside them the mean learning curve, in which rows that end alike may still
        differ. Rows that are evaluated at other steps have these in their curve.
        """
        seeds = sorted({run.seed for run in runs})
        steps = _steps(runs[0])
        head = ["row", self.measure, *(f"seed {seed}" for seed in seeds)]
        head += [*self.beside, *self.notes, f"{self.metric} at {steps}"]
        head.append("CPU min a run")
        lines = [
            self._line([run for run in runs if run.row == row], seeds, steps)
            for row in dict.fromkeys(run.row for run in runs)
        ]
        for pair in self.pairs:
            if ahead := lead(runs, self.measure, pair):
                each = [
                    f"{ahead[s]:+{self.form}}" if s in ahead else "-" for s in seeds
                ]
                mean = report.spread(ahead.values(), self.form)
                line = [" - ".join(pair), mean, *each]
                lines.append(line + [""] * (len(head) - len(line)))
        return report.table(head, lines)

    def _line(self, runs: Sequence[Run], seeds: Sequence[int], steps: str) -> list[str]:
        row = runs[0].row
        score = {run.seed: run.scores[self.measure] for run in runs}
        known = self.paper.get(row, {})
        main, *beside = (
            report.spread((run.scores[name] for run in runs), self.form)
            + (f" ({known[name]})" if name in known else "")
            for name in (self.measure, *self.beside)
        )
        each = [f"{score[s]:{self.form}}" if s in score else "-" for s in seeds]
        notes = [note_fn(runs[0]) for note_fn in self.notes.values()]
        cpu = statistics.mean(run.spent.cpu_secs for run in runs) / 60
        curve = _mean_curve(runs, steps, self.form)
        return [row, main, *each, *beside, *notes, curve, f"{cpu:.1f}"]


def lead(runs: Sequence[Run], measure: str, pair: tuple[str, str]) -> dict[int, float]:
    """Points between two rows, by seeds that both have."""
    first, second = (
        {run.seed: run.scores[measure] for run in runs if run.row == row}
        for row in pair
    )
    return {seed: first[seed] - second[seed] for seed in first if seed in second}


def _steps(run: Run) -> str:
    return " / ".join(str(step) for step, _ in run.curve)


def _mean_curve(runs: Sequence[Run], steps: str, form: str) -> str:
    points = zip(*(run.curve for run in runs), strict=True)
    means = [statistics.mean(y for _, y in point) for point in points]
    curve = " / ".join(f"{mean:{form}}" for mean in means)
    own = _steps(runs[0])
    return curve if own == steps else f"{curve} at {own}"


# --- scores ---------------------------------------------------------------------------


def official(*records: str | pathlib.Path, threshold: float | None = None) -> ScoreFn:
    """Scores a run by the official metrics, in percent, as the command line finds them.

    What was evaluated before is not evaluated again.

    Args:
      *records: files of official ones, for validation.
      threshold: of decoding; None: the best one, where there is a choice.

    Raises:
      RunError: when a run is scored, if `etc-jax evaluate` refuses, which says why.
    """

    def scores(_: Config, folder: pathlib.Path) -> dict[str, float]:
        out = folder / "evaluation"
        argv = [f"--model={folder}", f"--out={out}", *map(str, records)]
        if threshold is not None:
            argv.append(f"--threshold={threshold}")
        if code := evaluate.main(argv):
            raise RunError(
                f"etc_jax.cli.evaluate of {folder} ended with {code}; see above"
            )
        found = json.loads((out / evaluate.SCORES).read_text())["metrics"]
        return {name: 100 * share for name, share in found.items()}

    return scores


# --- command line ---------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Command:
    """The command line of a study.

    Attributes:
      module: of the study; the last part of its name is that of the command.
      text: its docstring.
      prepare_fn: makes the items and what else is needed, from the arguments and the
        changes of configs; its errors (ValueError, OSError, RunError) end the command.
      names: of the rows.
      numbers: {option: (default, help)} of further whole numbers.
      add_fn: adds further options, by the `add_argument` that it is given.
      seeds: by default.
    """

    module: str
    text: str
    prepare_fn: Callable[[argparse.Namespace, Sequence[str]], Study]
    names: Collection[str]
    numbers: Mapping[str, tuple[int | None, str]] = dataclasses.field(
        default_factory=dict
    )
    add_fn: Callable[[Callable], Any] = lambda add: None
    seeds: tuple[int, ...] = (0, 1, 2)

    def options(self) -> argparse.ArgumentParser:
        """The options."""
        name = self.module.rpartition(".")[2]
        made = report.parser(name, self.text + HELP)
        add = made.add_argument
        rows = tuple(self.names)
        add("--rows", type=report.names(rows), default=rows, help=",".join(rows))
        add("--seeds", type=report.integers, default=self.seeds)
        for name, (default, says) in self.numbers.items():
            add(f"--{name}", type=int, default=default, help=f"{says}; {default}")
        add("--workdir", type=pathlib.Path, help="default: below runs/")
        self.add_fn(add)
        return made

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Trains what is missing, seed by seed, and reports it; returns the exit code.

        The config of every row is checked before. Arguments of the form
        --config.A.B=VALUE are changes for all runs.
        """
        options = self.options()
        args, changes = options.parse_known_args(argv)

        def work() -> tuple[dict[str, Any], int]:
            study = self.prepare_fn(args, changes)
            for row in args.rows:
                study.config_fn(row, args.seeds[0])
            runs = []
            for seed in args.seeds:
                for row in args.rows:
                    runs.append(study.run(row, seed))
                    print(study.summary(runs[-1]), flush=True)
            print(study.table(runs))
            values = {**study.values(runs), "options": list(changes)}
            return values, 0 if study.is_as_wanted(runs) else 1

        return report.run(options, args, work)
