"""Table 4 of the Longformer paper: which layers look far, and whether heads skip bytes.

    python -m benchmarks.window_growth --file=text8 --out=window_growth.json
    python -m benchmarks.window_growth --file=text8 --size=stage1 --steps=150000 \\
        --seeds=0 --rows=increasing,dilation --out=window_growth.json

Trains `configs/longformer_charlm.py` with windows that narrow from the bottom layer to
the top one, are of one width, or widen, without dilation, and the last with two dilated
heads in the upper layers; prints bits a byte on the validation part of the file, beside
the paper's, which trains stage1 on text8 for 150,000 steps. --size=short, the default,
is 4 layers of 128 for a CPU, whose metrics compare with each other alone.

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

from benchmarks import finetuning_runs, report
from configs import longformer_charlm
from etc_jax import config as config_lib

# Bits a character of the paper on the validation part of text8.
PAPER = {"decreasing": 1.24, "fixed": 1.23, "increasing": 1.21, "dilation": 1.20}
ROWS = tuple(PAPER)
_VARIANTS = {
    "decreasing": "decreasing_window,no_dilation",
    "fixed": "fixed_window,no_dilation",
    "increasing": "no_dilation",
    "dilation": "",
}
SIZES = ("short", "stage1")


@dataclasses.dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
      row: of `ROWS`.
      seed: of parameters and order.
      windows: of its layers, bytes that one sees before it.
      bits: a byte, on the validation part, at the end.
      curve: (step, bits a byte) of all evaluations.
      spent: on it.
    """

    row: str
    seed: int
    windows: tuple[int, ...]
    bits: float
    curve: tuple[tuple[int, float], ...]
    spent: finetuning_runs.Spent


def config_of(
    row: str, seed: int, args: argparse.Namespace, changes: Sequence[str]
) -> config_lib.Config:
    """The checked config of a run.

    Args:
      row: of `ROWS`.
      seed: of parameters and order.
      args: of the command line.
      changes: see `finetuning_runs.changed`.

    Raises:
      ValueError: if something does not fit.
    """
    names = ",".join(filter(None, [args.size, _VARIANTS[row]]))
    made = longformer_charlm.get_config(names)
    made.data.paths = (str(args.file),)
    made.train.seed = seed
    if args.steps is not None:
        made.train.num_steps = args.steps
        made.schedule.warmup_steps = min(made.schedule.warmup_steps, args.steps // 10)
    steps = made.train.num_steps
    made.train.eval_every_steps = max(1, steps // 4)
    made.train.compile_cache_dir = str(args.workdir / "compile_cache")
    made.checkpoint.update(every_steps=max(1, steps // 2), keep=1)
    return finetuning_runs.changed(made, changes)


def run(row: str, seed: int, args: argparse.Namespace, changes: Sequence[str]) -> Run:
    """Trains, unless that was done before.

    Raises:
      ValueError: see `config_of`.
      RunError: see `finetuning_runs.train`.
    """
    config = config_of(row, seed, args, changes)
    folder = args.workdir / f"{row}_seed{seed}"
    spent = finetuning_runs.train(config, folder)
    curve = tuple(
        (line["step"], line["bits"]) for line in finetuning_runs.evaluations(folder)
    )
    windows = tuple(pattern.radius for pattern in config.model.patterns)
    return Run(row, seed, windows, curve[-1][1], curve, spent)


def table(runs: Sequence[Run]) -> str:
    """Mean ± standard deviation over seeds, beside the paper's metric."""
    head = ["row", "windows", "seeds", "bits a byte", "paper", "CPU min a run"]
    lines = []
    for row in dict.fromkeys(run.row for run in runs):
        mine = [run for run in runs if run.row == row]
        cpu = statistics.mean(run.spent.cpu_secs for run in mine) / 60
        windows = ",".join(map(str, mine[0].windows))
        bits = report.spread((run.bits for run in mine), ".3f")
        cells = [windows, str(len(mine)), bits, f"{PAPER[row]:.2f}", f"{cpu:.1f}"]
        lines.append([row, *cells])
    return report.table(head, lines)


def _parse(argv: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.window_growth",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--file", type=pathlib.Path, required=True, help="of bytes, such as text8")
    add("--size", choices=SIZES, default=SIZES[0], help="default: short")
    add("--steps", type=int, help="of a run; default: as many as its config has")
    add("--rows", type=report.names(ROWS), default=ROWS, help=",".join(ROWS))
    add("--seeds", type=report.integers, default=(0, 1, 2))
    add("--workdir", type=pathlib.Path, default=pathlib.Path("runs/window_growth"))
    add("--out", type=pathlib.Path, help="JSON file to write")
    return parser.parse_known_args(argv)


def _runs(args: argparse.Namespace, changes: Sequence[str]) -> Iterator[Run]:
    for row in args.rows:
        config_of(row, 0, args, changes)
    for seed in args.seeds:
        for row in args.rows:
            made = run(row, seed, args, changes)
            print(f"seed {seed}, {row}: {made.bits:.3f}", flush=True)
            yield made


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the comparison; returns the exit code."""
    args, changes = _parse(argv)
    about = {"file": str(args.file), "size": args.size, "steps": args.steps}
    about["options"] = list(changes)
    name = "benchmarks.window_growth"
    return report.collect(name, _runs(args, changes), table, about=about, out=args.out)


if __name__ == "__main__":
    sys.exit(main())
