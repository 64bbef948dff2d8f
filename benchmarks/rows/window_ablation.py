"""What one long window is worth: questions over articles that short windows cover.

    python -m benchmarks window_ablation --kind=unnamed --out=unnamed.json
    python -m benchmarks window_ablation --kind=named --window=128 --seeds=0 \\
        --rows=etc,bert_windows --out=named.json

Rows of table 2 of the ETC paper, from scratch, on invented articles:

  etc            ETC that sees an article in one window, four times as long as --window
  etc_windows    the same model over windows of --window tokens, a quarter of that apart
  bert_windows   the sliding-window baseline, as in --config=bert_base_nq: every token
                 of a window sees every other, positions are absolute, there are no
                 labels, no global token but [CLS], and one projection for everything

See `benchmarks.data.window_items` for the two kinds of questions: "unnamed" ones are
answered by what stands further apart than a short window is long, "named" ones from one
sentence.

All rows see the same questions, each once. A question is some 12 short windows; of
those without an answer a share is trained on (`NULL_SHARE`). So rows with short windows
take more steps, each of as many tokens as one of the first row. The scores are the
official ones on validation questions, at the best thresholds.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.data import window_items
from benchmarks.data.window_items import LONG_WINDOWS
from benchmarks.kit import finetuning_runs, rows
from etc_jax.config import Config
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.data.windows.cache import WindowCache
from etc_jax.datasets.task import find_task
from etc_jax.formats.structured import StructuredSizes

TASK = find_task("natural_questions")

NAMES = ("etc", "etc_windows", "bert_windows")
PAIRS = (("etc", "etc_windows"), ("etc", "bert_windows"))
# Of the windows without an answer, those that are trained on.
NULL_SHARE = 0.25

BASE = ["--config.optimizer.learning_rate=2e-3"]
_TOKENS = 8192  # of a step
_GLOBAL = 40


@dataclasses.dataclass(frozen=True)
class Row:
    """How a model sees an article.

    Attributes:
      sizes: of an input.
      model: fields of `EtcConfig` that differ from the first row.
      options: of `etc-jax prepare`, for all records.
      drawn: of `etc-jax prepare`, for the records that are trained on.
    """

    sizes: StructuredSizes
    model: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    drawn: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def batch_size(self) -> int:
        """Inputs of a step: as many tokens in every row."""
        return max(1, _TOKENS // self.sizes.long_length)


def row_of(name: str, window: int) -> Row:
    """A row, with short windows of some length."""
    if name == "etc":
        return Row(StructuredSizes(LONG_WINDOWS * window, _GLOBAL))
    drawn = {"null_share": NULL_SHARE, "unanswerable_share": NULL_SHARE}
    if name == "etc_windows":
        return Row(StructuredSizes(window, _GLOBAL), drawn=drawn)
    bert = {
        "share_qkv": True,
        "share_out": True,
        "radius": window,
        "max_distance": 0,
        "num_labels": None,
        "max_positions": window,
        "hard_l2g": True,
        "attention": "dense",  # the quickest, where all see all
    }
    return Row(StructuredSizes(window, 1), bert, {"flat": True}, drawn)


def make_caches(
    row: Row,
    folder: pathlib.Path,
    tokenizer: Tokenizer,
    train: pathlib.Path,
    validation: pathlib.Path,
) -> tuple[WindowCache, WindowCache]:
    """A row's inputs from training and validation records, made once."""
    task, files = TASK.with_options(row.options), (train, validation)
    return finetuning_runs.make_caches(
        task, files, tokenizer, folder, row.sizes, drawn=row.drawn
    )


def config(
    row: Row,
    caches: tuple[WindowCache, WindowCache],
    seed: int,
    changes: Sequence[str] = (),
) -> Config:
    """The config of a run: each input once.

    Raises:
      ValueError: if a change does not fit.
    """
    steps = max(1, caches[0].num_windows // row.batch_size)
    return rows.config(
        caches,
        {
            # As prepared: with other lengths, windows would be other ones.
            "data.long_length": row.sizes.long_length,
            "data.global_length": row.sizes.global_length,
            "train.batch_size": row.batch_size,
            # Validation articles are many windows too.
            "train.eval_every_steps": max(1, steps // 2),
        },
        model={**rows.MODEL, **row.model},
        seed=seed,
        steps=steps,
        changes=[*BASE, *changes],
    )


def prepare(args: argparse.Namespace, changes: Sequence[str]) -> rows.Study:
    """Makes the inputs.

    Raises:
      ValueError, OSError: if something given does not fit.
    """
    name = f"{args.kind}_{args.window}"
    folder = args.workdir or pathlib.Path("runs/window_ablation") / name
    items = folder / "items"
    *files, tokenizer = window_items.write_files(
        args.kind, items, args.items, args.validation, window=args.window
    )
    amount = f"{args.items}_{args.validation}"
    found = {name: row_of(name, args.window) for name in args.rows}
    caches = {
        name: make_caches(row, items / f"{name}_{amount}", tokenizer, *files)
        for name, row in found.items()
    }
    return rows.Study(
        folder,
        lambda name, seed: config(found[name], caches[name], seed, changes),
        rows.official(files[1]),
        measure=TASK.metric,
        metric="short_accuracy",
        beside=("long-best-threshold-f1", "short-best-threshold-f1"),
        pairs=PAIRS,
        about={
            "task": TASK.name,
            "kind": args.kind,
            "window": args.window,
            "inputs": {name: train.num_windows for name, (train, _) in caches.items()},
        },
    )


def _add(add) -> None:
    kinds = tuple(window_items.PRONOUNS)
    add("--kind", choices=kinds, default=kinds[0])


main = rows.Command(
    __name__,
    __doc__,
    prepare,
    NAMES,
    {
        "items": (4000, "to learn from"),
        "validation": (200, "items to be evaluated on"),
        "window": (512, "tokens of the short ones"),
    },
    _add,
).main
