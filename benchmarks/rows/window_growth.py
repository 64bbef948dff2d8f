"""Table 4 of the Longformer paper: which layers look far, and whether heads skip bytes.

    python -m benchmarks window_growth --file=text8 --out=window_growth.json
    python -m benchmarks window_growth --file=text8 --size=stage1 --steps=150000 \\
        --seeds=0 --rows=increasing,dilation --out=window_growth.json

Trains `--config=longformer_charlm` with windows that narrow from the bottom layer to
the top one, are of one width, or widen, without dilation, and the last with two dilated
heads in the upper layers; prints bits a byte on the validation part of the file, beside
the paper's, which trains stage1 on text8 for 150,000 steps. --size=short, the default,
is 4 layers of 128 for a CPU, whose metrics compare with each other alone.
"""

from __future__ import annotations

import argparse
import functools
import pathlib
from collections.abc import Sequence
from typing import Any

from benchmarks.kit import finetuning_runs, rows
from etc_jax.config import Config
from etc_jax.configs.longformer import longformer_charlm

# Bits a character of the paper on the validation part of text8.
PAPER = {"decreasing": 1.24, "fixed": 1.23, "increasing": 1.21, "dilation": 1.20}
_VARIANTS = {
    "decreasing": "decreasing_window,no_dilation",
    "fixed": "fixed_window,no_dilation",
    "increasing": "no_dilation",
    "dilation": "",
}
SIZES = ("short", "stage1")


def config_of(
    row: str, seed: int, args: argparse.Namespace, changes: Sequence[str]
) -> Config:
    """The checked config of a run.

    Args:
      row: of `PAPER`.
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


def scores(config: Config, folder: pathlib.Path) -> dict[str, Any]:
    """Bits a byte on the validation part, and bytes that each layer sees before one."""
    windows = tuple(pattern.radius for pattern in config.model.patterns)
    last = finetuning_runs.evaluations(folder)[-1]
    return {"windows": windows, "bits": last["bits"]}


def prepare(args: argparse.Namespace, changes: Sequence[str]) -> rows.Study:
    """What is to be trained."""
    args.workdir = args.workdir or pathlib.Path("runs/window_growth")
    return rows.Study(
        args.workdir,
        functools.partial(config_of, args=args, changes=changes),
        scores,
        measure="bits",
        metric="bits",
        scale=1.0,
        form=".3f",
        notes={"windows": lambda run: ",".join(map(str, run.scores["windows"]))},
        paper={row: {"bits": bits} for row, bits in PAPER.items()},
        about={"file": str(args.file), "size": args.size, "steps": args.steps},
    )


def _add(add) -> None:
    add("--file", type=pathlib.Path, required=True, help="of bytes, such as text8")
    add("--size", choices=SIZES, default=SIZES[0], help="default: short")


main = rows.Command(
    __name__,
    __doc__,
    prepare,
    PAPER,
    {"steps": (None, "of a run; by default as many as its config has")},
    _add,
).main
