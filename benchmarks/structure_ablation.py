"""What structure is worth: questions over documents, answered with and without it.

    python -m benchmarks.structure_ablation --task=wikihop --out=wikihop.json
    python -m benchmarks.structure_ablation --task=hotpotqa --seeds=0,1,2 \\
        --rows=structured,flat,no_hard_g2l --out=hotpotqa.json

The ablations of the ETC paper (section 4.2, table 3) on invented questions that a small
model learns from scratch in minutes; see `benchmarks.structure_items` for them. Rows
`pretrained` and `pretrained_no_cpc` first train a model of the same sizes and seed with
MLM + CPC, and with MLM alone, on the text of the training items.

All rows have the same items in the same order, and the same sizes, steps and seeds:
they differ in what `ROWS` and `PRETRAINED` say. The score is the task's official one,
on held-back items. Runs that are finished are not trained again, so that the command
can be interrupted, and rows or seeds added later. Arguments of the form
--config.A.B=VALUE go to every run, to pre-training those of the model alone. With rows
structured and flat, the exit code is 1 if structure is worth less with some seed than
`WANTED_POINTS` says.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import statistics
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks import finetuning_runs, report, structure_pretraining
from benchmarks.finetuning_runs import Spent
from benchmarks.structure_items import SETS, ItemSet
from etc_jax import config as config_lib
from etc_jax.data.windows import WindowCache
from etc_jax.training.errors import RunError

# What each row changes in the config.
ROWS: dict[str, dict[str, Any]] = {
    "structured": {},
    "flat": {"data.flat": True},
    "no_hard_g2l": {"model.hard_g2l": False},
    "flat_no_hard_g2l": {"data.flat": True, "model.hard_g2l": False},
    "shared": {"model.share_qkv": True, "model.share_out": True},
    "pretrained": {},
    "pretrained_no_cpc": {},
}
# Rows that start from a model that was pre-trained, and what they change in that.
PRETRAINED: dict[str, dict[str, Any]] = {
    "pretrained": {},
    "pretrained_no_cpc": structure_pretraining.NO_CPC,
}
# Points that the first is asked to be ahead of the second, by task.
COMPARED = ("structured", "flat")
WANTED_POINTS = {"wikihop": 10.0, "hotpotqa": 5.0}

MODEL = {
    "num_types": 16,
    "embed_dim": 64,
    "num_layers": 2,
    "num_heads": 2,
    "mlp_dim": 128,
    "radius": 16,
    "max_distance": 12,
    "num_labels": 32,
    "dropout_rate": 0.0,
    "attention_dropout_rate": 0.0,
    # That of BERT is for widths of 768: narrow layers would hardly begin to learn.
    "initializer_range": 0.1,
    "attention": "dense",  # the quickest for inputs as short as these
}


@dataclasses.dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
      row: of `ROWS`.
      seed: of parameters and order.
      scores: the official figures on the held-back items, in percent.
      curve: (step, the item set's figure on them in percent), to the end.
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
class Ablation:
    """What all runs share.

    Attributes:
      item_set: that they learn.
      caches: its inputs, to learn from and held back.
      folder: of everything.
      steps: of a run.
      pretraining_steps: of a run before it.
      changes: of the command line.
    """

    item_set: ItemSet
    caches: tuple[WindowCache, WindowCache]
    folder: pathlib.Path
    steps: int
    pretraining_steps: int
    changes: Sequence[str] = ()

    @property
    def items(self) -> pathlib.Path:
        """Where the item set lies."""
        return self.caches[0].path.parent

    def pretraining_folder(self, row: str, seed: int) -> pathlib.Path:
        """Where the run that a row starts from lives."""
        return self.folder / f"{row}_seed{seed}_before"

    def config(self, row: str, seed: int) -> config_lib.Config:
        """The config of one run."""
        config = finetuning_runs.small_config(*self.caches, MODEL)
        finetuning_runs.set_training(config, seed=seed, steps=self.steps)
        # Compiled once for all seeds.
        config.train.compile_cache_dir = str(self.items / "compile_cache")
        if row in PRETRAINED:
            before = self.pretraining_folder(row, seed).resolve()
            config.checkpoint.init_from = str(before)
            config.checkpoint.init_from_only = ("encoder",)
        return finetuning_runs.changed(
            config, [*self.changes, *finetuning_runs.as_changes(ROWS[row])]
        )

    def pretraining_config(self, row: str, seed: int) -> config_lib.Config:
        """The config of the run that a row starts from."""
        return structure_pretraining.config_before(
            self.config(row, seed),
            self.items,
            steps=self.pretraining_steps,
            row=PRETRAINED[row],
        )

    def run(self, row: str, seed: int) -> Run:
        """Trains and scores, unless that was done before.

        Raises:
          RunError: see `finetuning_runs.train` and `official_scores`.
        """
        before = None
        if row in PRETRAINED:
            before = finetuning_runs.train(
                self.pretraining_config(row, seed), self.pretraining_folder(row, seed)
            )
        folder = self.folder / f"{row}_seed{seed}"
        spent = finetuning_runs.train(self.config(row, seed), folder)
        scores = finetuning_runs.official_scores(
            folder,
            folder / "evaluation",
            self.items / "held_back.json",
            # The usual one, not the best for the items that are scored.
            threshold=self.item_set.task.setting,
        )
        curve = tuple(
            (line["step"], 100 * line[self.item_set.figure])
            for line in finetuning_runs.evaluations(folder)
        )
        percent = {name: 100 * share for name, share in scores.items()}
        return Run(row, seed, percent, curve, spent, before)


# --- table ----------------------------------------------------------------------------


def table(runs: Sequence[Run], item_set: ItemSet) -> str:
    """Each row's score: mean and standard deviation over seeds, and each seed.

    Beside it, the mean learning curve, in which rows that end alike may still differ.
    """
    measure, figure = item_set.task.measure, item_set.figure
    seeds = sorted({run.seed for run in runs})
    steps = " / ".join(str(step) for step, _ in runs[0].curve)
    head = ["row", measure, *(f"seed {seed}" for seed in seeds)]
    head += [f"{figure} at {steps}", "CPU min a run"]
    lines = []
    for row in dict.fromkeys(run.row for run in runs):
        mine = {run.seed: run for run in runs if run.row == row}
        score = {seed: run.scores[measure] for seed, run in mine.items()}
        each = [f"{score[s]:.1f}" if s in score else "-" for s in seeds]
        points = zip(*(run.curve for run in mine.values()), strict=True)
        means = [statistics.mean(y for _, y in point) for point in points]
        curve = " / ".join(f"{mean:.1f}" for mean in means)
        cpu = statistics.mean(run.spent.cpu_secs for run in mine.values()) / 60
        lines.append([row, _spread(score.values()), *each, curve, f"{cpu:.1f}"])
    if ahead := lead(runs, measure):
        each = [f"{ahead[s]:+.1f}" if s in ahead else "-" for s in seeds]
        difference = " - ".join(COMPARED)
        lines.append([difference, _spread(ahead.values()), *each, "", ""])
    return report.table(head, lines)


def lead(runs: Sequence[Run], measure: str) -> dict[int, float]:
    """Points between the rows that are compared, by seeds that both have."""
    first, second = (
        {run.seed: run.scores[measure] for run in runs if run.row == row}
        for row in COMPARED
    )
    return {seed: first[seed] - second[seed] for seed in first if seed in second}


def _spread(values: Iterable[float]) -> str:
    values = list(values)
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.1f} ± {spread:.1f}"


# --- command line ---------------------------------------------------------------------


def prepare(args: argparse.Namespace, changes: Sequence[str]) -> Ablation:
    """Makes the items and checks the config of every run.

    Raises:
      ValueError, OSError: if something given does not fit.
    """
    item_set = SETS[args.task]
    folder = args.workdir or pathlib.Path("runs/structure_ablation") / args.task
    caches = item_set.make_caches(folder / "items", args.items, args.held_back)
    steps = args.steps or item_set.steps
    ablation = Ablation(
        item_set, caches, folder, steps, args.pretraining_steps, changes
    )
    for row in args.rows:
        ablation.config(row, args.seeds[0])
        if row in PRETRAINED:
            structure_pretraining.write_texts(item_set, ablation.items)
            ablation.pretraining_config(row, args.seeds[0])
    return ablation


def compare(args: argparse.Namespace, changes: Sequence[str]) -> list[Run]:
    """Trains what is missing, seed by seed.

    Raises:
      ValueError, OSError, RunError: if something given does not fit.
    """
    ablation = prepare(args, changes)
    measure = ablation.item_set.task.measure
    runs = []
    for seed in args.seeds:
        for row in args.rows:
            runs.append(ablation.run(row, seed))
            score = runs[-1].scores[measure]
            print(f"{row}, seed {seed}: {measure} {score:.1f}", flush=True)
    return runs


def _parse(argv: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.structure_ablation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--task", choices=sorted(SETS), default="wikihop")
    add("--rows", type=report.names(ROWS), default=tuple(ROWS), help=",".join(ROWS))
    add("--seeds", type=report.integers, default=(0, 1, 2))
    add("--items", type=int, default=10_000, help="to learn from")
    add("--held_back", type=int, default=512, help="items to be evaluated on")
    add("--steps", type=int, help="of a run; default: see the items")
    add("--pretraining_steps", type=int, default=200, help="of a run before it")
    add("--workdir", type=pathlib.Path, help="default: runs/structure_ablation/TASK")
    add("--out", type=pathlib.Path, help="JSON file to write")
    return parser.parse_known_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the comparison; returns the exit code."""
    args, changes = _parse(argv)
    try:
        runs = compare(args, changes)
    except (ValueError, OSError, RunError) as error:
        print(f"benchmarks.structure_ablation: {error}", file=sys.stderr)
        return getattr(error, "exit_code", 2)
    item_set = SETS[args.task]
    measure = item_set.task.measure
    print(table(runs, item_set))
    if args.out is not None:
        values = {"task": args.task, "measure": measure, "options": list(changes)}
        values["runs"] = [dataclasses.asdict(run) for run in runs]
        args.out.write_text(json.dumps(values, indent=1) + "\n")
    ahead = lead(runs, measure).values()
    return 1 if any(points < WANTED_POINTS[args.task] for points in ahead) else 0


if __name__ == "__main__":
    sys.exit(main())
