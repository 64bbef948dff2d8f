"""What looks and the loss are worth: keyphrases of invented pages, with and without.

    python -m benchmarks openkp_ablation --out=openkp.json
    python -m benchmarks openkp_ablation --rows=visual,no_visual --seeds=0

Rows of table 4 of the ETC paper on the pages of `tasks.synthetic.openkp`. A page says
every phrase three times: in an element of its own, and in two sentences that look as
all others do. The own elements of keyphrases are large, high up and in the middle
column, those of other phrases lack one or two of these; elements are in a random order.
So words, their number and their order tell nothing, and the marked occurrence of a
keyphrase is the first one in a third of the cases.

  visual              the best occurrence of a keyphrase is learnt, the "max loss"
  first               the first occurrence is
  no_visual           as visual, without the looks of elements
  no_visual_first     neither
  shared              as visual, with one attention projection for all pieces
  no_hard_g2l         as visual, but an element's global token sees all words

All rows have the same pages in the same order, and the same sizes, steps and seeds. The
scores are the official ones, on validation pages; the best that they can be is printed
first. Learning curves are of best guesses that are right by the row's own loss, so at
any occurrence or at the first one alone.
"""

from __future__ import annotations

import argparse
import json
import pathlib
from collections.abc import Sequence
from typing import Any

from benchmarks.kit import finetuning_runs, rows
from etc_jax.config import Config
from etc_jax.data.tokenizers import wordpiece_training
from etc_jax.data.windows.cache import WindowCache
from etc_jax.datasets.task import find_task
from etc_jax.formats.structured import StructuredSizes
from etc_jax.tasks.synthetic import openkp as invented
from etc_jax.tasks.synthetic.maker import write_records

TASK = find_task("openkp")

# What each row changes in the config.
ROWS: dict[str, dict[str, Any]] = {
    "visual": {},
    "first": {"objective.keyphrase_loss": "first"},
    "no_visual": {"objective.visual_features": False},
    "no_visual_first": {
        "objective.visual_features": False,
        "objective.keyphrase_loss": "first",
    },
    "shared": {"model.share_qkv": True, "model.share_out": True},
    "no_hard_g2l": {"model.hard_g2l": False},
}
PAIRS = (("visual", "first"), ("visual", "no_visual"))

# Of the vocabulary, the series of pages, and an input with room for all of them.
VOCAB_SIZE = 1000
TRAIN_SERIES, VALIDATION_SERIES = 1, 2
SIZES = StructuredSizes(long_length=256, global_length=32)
PAGES = invented.OpenkpSizes(keyphrases=(1, 2), others=3, mentions=2, words=0)

# The dense form is the quickest for inputs as short as these.
MODEL = rows.MODEL | {"attention": "dense"}
BASE = [
    "--config.objective.keyphrase_loss=best",
    "--config.optimizer.learning_rate=2e-3",
]


def make_caches(
    folder: pathlib.Path, count: int, validation: int
) -> tuple[WindowCache, WindowCache]:
    """Pages to learn from and to be evaluated on, made once.

    The records are `train.jsonl` and `validation.jsonl` in the folder.
    """
    pages = list(invented.records(count, seed=TRAIN_SERIES, sizes=PAGES))
    files = folder / "train.jsonl", folder / "validation.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    write_records(files[0], pages, lines=True)
    others = invented.records(validation, seed=VALIDATION_SERIES, sizes=PAGES)
    write_records(files[1], others, lines=True)
    texts = (page["text"] for page in pages)
    tokenizer = wordpiece_training.train(texts, vocab_size=VOCAB_SIZE)
    return finetuning_runs.make_caches(TASK, files, tokenizer, folder, SIZES)


def upper_bound(validation: WindowCache, file: pathlib.Path) -> dict[str, float]:
    """What gold labels would score, in percent."""
    got = TASK.upper_bound([file], validation.load_tokenizer(), SIZES)
    percent = {name: 100 * share for name, share in got.scores.metrics.items()}
    print(f"the best there can be: {json.dumps(percent)}", flush=True)
    return percent


def prepare(args: argparse.Namespace, changes: Sequence[str]) -> rows.Study:
    """Makes the pages.

    Raises:
      ValueError, OSError: if something given does not fit.
    """
    folder = args.workdir or pathlib.Path("runs/openkp_ablation")
    caches = make_caches(folder / "items", args.items, args.validation)
    validation = folder / "items" / "validation.jsonl"

    def config(row: str, seed: int) -> Config:
        own = {"model": MODEL, "seed": seed, "steps": args.steps}
        return rows.config(caches, ROWS[row], **own, changes=[*BASE, *changes])

    return rows.Study(
        folder,
        config,
        rows.official(validation),
        measure=TASK.metric,
        metric="accuracy",
        beside=("P@1", "R@3"),
        pairs=PAIRS,
        about={"task": TASK.name, "upper_bound": upper_bound(caches[1], validation)},
    )


main = rows.Command(
    __name__,
    __doc__,
    prepare,
    ROWS,
    {
        "items": (2560, "pages to learn from"),
        "validation": (200, "pages to be evaluated on"),
        "steps": (48, "of a run"),
    },
).main
