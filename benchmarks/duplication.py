"""Table 2 of the Reformer paper: one attention in training, others in evaluation.

    python -m benchmarks.duplication --short --out=duplication.json
    python -m benchmarks.duplication --seeds=0 --rows=lsh4 --out=duplication.json

Trains `configs/reformer_duplication.py` with full attention and with 4, 2 and 1 rounds
of hashing, and counts with each trained model the symbols of the second half that it
predicts, with full attention and with 8, 4, 2 and 1 rounds; beside it the metrics of
the paper, which trains 150,000 steps on 1,024 symbols. --short: 256 symbols, for a CPU.

Runs that are finished are not trained again, so that the command can be interrupted,
and rows or seeds added later. Arguments of the form --config.A.B=VALUE go to all runs.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import statistics
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from benchmarks import finetuning_runs, report
from configs import reformer_duplication
from etc_jax import config as config_lib
from etc_jax.data.bytes.duplication import DuplicationReader
from etc_jax.models.reformer import ReformerLm
from etc_jax.models.reformer_config import ReformerConfig
from etc_jax.training.checkpoints.saved_params import read_params

# Of the paper, in percent: trained -> evaluated.
PAPER = {
    "full": {"full": 100.0, "8": 94.8, "4": 92.5, "2": 76.9, "1": 52.5},
    "lsh4": {"full": 0.8, "8": 100.0, "4": 99.9, "2": 99.4, "1": 91.9},
    "lsh2": {"full": 0.8, "8": 100.0, "4": 99.9, "2": 98.1, "1": 86.8},
    "lsh1": {"full": 0.8, "8": 99.9, "4": 99.6, "2": 94.8, "1": 77.9},
}
ROWS = tuple(PAPER)
COLUMNS = tuple(PAPER["full"])
_BATCH, _BATCHES = 32, 16


@dataclasses.dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
      row: the attention that it was trained with.
      seed: of everything.
      accuracy: by the attention of evaluation, in percent.
      curve: (step, accuracy in percent with its own attention).
      spent: on training.
    """

    row: str
    seed: int
    accuracy: dict[str, float]
    curve: tuple[tuple[int, float], ...]
    spent: finetuning_runs.Spent


def config_of(
    row: str, seed: int, *, short: bool, changes: Sequence[str]
) -> config_lib.Config:
    """The checked config of a run.

    Raises:
      ValueError: if a change does not fit.
    """
    made = reformer_duplication.get_config(f"{row},short" if short else row)
    made.train.seed = seed
    # Another draw of rotations in evaluation for each seed.
    made.model.hash_seed = seed
    return finetuning_runs.changed(made, changes)


def model_for(column: str, trained: config_lib.Config, buckets: ReformerConfig):
    """The model of a run with the attention of a column.

    Args:
      column: of `COLUMNS`.
      trained: config of the run.
      buckets: the model that says how many there are, and how long chunks.
    """
    changes: dict[str, Any] = {"lsh_chunk_length": trained.model.max_length}
    if column != "full":
        changes = {
            "num_hashes": int(column),
            "num_buckets": buckets.num_buckets,
            "lsh_chunk_length": buckets.lsh_chunk_length,
        }
    return dataclasses.replace(trained.model, **changes)


def accuracy(params: Any, model: ReformerConfig, trained: config_lib.Config) -> float:
    """Percent of the symbols of the second half that are predicted.

    Args:
      params: of `ReformerLm`.
      model: config, which may have another attention than that of training.
      trained: config of the run.
    """
    reader = DuplicationReader(
        length=trained.data.input_length,
        num_symbols=trained.data.vocab_size,
        batch_size=_BATCH,
        seed=trained.train.seed,
        evaluation=True,
    )
    lm = ReformerLm(model)

    @jax.jit
    def hits(params, batch):
        args = batch["tokens"], batch["targets"]
        _, right = lm.apply({"params": params}, *args, method=lm.losses)
        return (right * batch["target_weights"]).sum()

    batches = [reader.batch_at(step) for step in range(_BATCHES)]
    found = sum(float(hits(params, batch)) for batch in batches)
    return 100 * found / sum(float(batch["target_weights"].sum()) for batch in batches)


def run(
    row: str, seed: int, folder: pathlib.Path, args: argparse.Namespace, changes
) -> Run:
    """Trains, unless that was done before, and evaluates with every attention.

    Raises:
      RunError: see `finetuning_runs.train`.
    """
    config = config_of(row, seed, short=args.short, changes=changes)
    buckets = config_of(ROWS[1], seed, short=args.short, changes=changes).model
    spent = finetuning_runs.train(config, folder)
    params = jax.tree.map(np.asarray, read_params(folder).params)
    found = {
        c: accuracy(params, model_for(c, config, buckets), config) for c in COLUMNS
    }
    curve = tuple(
        (line["step"], 100 * line["accuracy"])
        for line in finetuning_runs.evaluations(folder)
    )
    return Run(row, seed, found, curve, spent)


def table(runs: Sequence[Run]) -> str:
    """Mean ± standard deviation over seeds; the paper's value in brackets."""
    head = ["trained with", "seeds", *(_title(column) for column in COLUMNS)]
    head.append("CPU min a run")
    lines = []
    for row in dict.fromkeys(run.row for run in runs):
        mine = [run for run in runs if run.row == row]
        cells = [
            f"{report.spread(r.accuracy[c] for r in mine)} ({PAPER[row][c]:.1f})"
            for c in COLUMNS
        ]
        cpu = statistics.mean(r.spent.cpu_secs for r in mine) / 60
        lines.append([_title(row), str(len(mine)), *cells, f"{cpu:.1f}"])
    return report.table(head, lines)


def _title(name: str) -> str:
    return "full" if name == "full" else f"LSH-{name.removeprefix('lsh')}"


def _parse(argv: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.duplication",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--rows", type=report.names(ROWS), default=ROWS, help=",".join(ROWS))
    add("--seeds", type=report.integers, default=(0, 1, 2))
    add("--short", action="store_true", help="256 symbols")
    add("--workdir", type=pathlib.Path, default=pathlib.Path("runs/duplication"))
    add("--out", type=pathlib.Path, help="JSON file to write")
    return parser.parse_known_args(argv)


def _runs(args: argparse.Namespace, changes: Sequence[str]) -> Iterator[Run]:
    for row in args.rows:
        config_of(row, 0, short=args.short, changes=changes)
    for seed in args.seeds:
        for row in args.rows:
            folder = args.workdir / f"{row}_seed{seed}"
            made = run(row, seed, folder, args, changes)
            print(f"seed {seed}, {row}: {made.accuracy}", flush=True)
            yield made


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the comparison; returns the exit code."""
    args, changes = _parse(argv)
    about = {"short": args.short, "options": list(changes)}
    name = "benchmarks.duplication"
    return report.collect(name, _runs(args, changes), table, about=about, out=args.out)


if __name__ == "__main__":
    sys.exit(main())
