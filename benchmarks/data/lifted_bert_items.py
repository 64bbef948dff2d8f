"""The questions of `benchmarks lifted_bert`: several steps over long documents.

Records of `tasks.synthetic` in their full wording: invented names, four ways to say a
thing, pronouns, and sentences beside the point until a record is some 3000 to 3700
pieces of BERT's uncased vocabulary long. The same records are made into long inputs,
which hold all of them, and into short ones, which hold what the features of the task
leave of them.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.data.structure_items import TRAIN_SERIES, VALIDATION_SERIES, Record
from benchmarks.kit.finetuning_runs import make_caches
from etc_jax.base.whole_files import write_whole
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.data.windows.cache import WindowCache
from etc_jax.datasets.task import Task
from etc_jax.formats.structured import StructuredSizes
from etc_jax.tasks import hotpotqa, wikihop
from etc_jax.tasks.synthetic import (
    hotpotqa as invented_hotpotqa,
    wikihop as invented_wikihop,
)
from etc_jax.tasks.synthetic.maker import write_records

HOTPOTQA_TASK = hotpotqa.DATA_SET.in_format()
WIKIHOP_TASK = wikihop.DATA_SET.in_format()

# Enough for the sentences of 4096 tokens; a run is as long as its longest input.
_GLOBAL = 430


@dataclasses.dataclass(frozen=True)
class ItemSet:
    """Invented questions of one task.

    Attributes:
      task: whose official form they have.
      sizes: class of how large an item is.
      records: as those of `etc_jax.tasks.synthetic`.
      metric: of the evaluations during training, what a learning curve shows.
      beside: official metrics beside the one that counts.
    """

    task: Task
    sizes: Callable[..., Any]
    records: Callable[..., Iterator[Record]]
    metric: str
    beside: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Items:
    """Files of questions, which inputs of several lengths are made of.

    Attributes:
      item_set: that they are of.
      folder: of everything that is made of them.
      train: official records to learn from.
      validation: those to be evaluated on.
    """

    item_set: ItemSet
    folder: pathlib.Path
    train: pathlib.Path
    validation: pathlib.Path

    def make_caches(
        self, tokenizer: Tokenizer, length: int, *, workers: int = 0
    ) -> tuple[WindowCache, WindowCache]:
        """Inputs of `length` tokens to learn from and to validate on, made once."""
        return make_caches(
            self.item_set.task,
            (self.train, self.validation),
            tokenizer,
            self.folder / str(length),
            StructuredSizes(length, _GLOBAL),
            workers=workers,
        )

    def upper_bound(self, tokenizer: Tokenizer, length: int) -> dict[str, float]:
        """What gold labels would score on validation items, in percent, found once."""
        known = self.folder / str(length) / "upper_bound.json"
        if not known.exists():
            sizes, files = StructuredSizes(length, _GLOBAL), [self.validation]
            best = self.item_set.task.upper_bound(files, tokenizer, sizes)
            shares = best.scores.metrics.items()
            write_whole(known, json.dumps({name: 100 * x for name, x in shares}))
        return json.loads(known.read_text())


def write_items(
    item_set: ItemSet,
    folder: pathlib.Path,
    *,
    items: int,
    validation: int,
    contexts: int,
    hops: int,
    words: int,
) -> Items:
    """Makes the files of the questions, once.

    Args:
      item_set: that they are of.
      folder: in which those of such an amount have their own.
      items: to learn from.
      validation: to be evaluated on.
      contexts: documents of an item.
      hops: steps to an answer.
      words: that an item has at least.

    Raises:
      ValueError: if there are no questions of that size.
    """
    numbers = f"contexts{contexts}_hops{hops}_words{words}"
    here = folder / f"items{items}_validation{validation}_{numbers}"
    sizes = item_set.sizes(contexts=contexts, hops=(hops, hops), words=words)
    here.mkdir(parents=True, exist_ok=True)
    made = Items(item_set, here, here / "train.json", here / "validation.json")
    for file, series, count in (
        (made.train, TRAIN_SERIES, items),
        (made.validation, VALIDATION_SERIES, validation),
    ):
        if not file.exists():
            write_records(file, item_set.records(count, seed=series, sizes=sizes))
    return made


def _wikihop(count: int, *, seed: int, sizes: Any) -> Iterator[Record]:
    """Sentences twice as long: those after the 200th would be left out."""
    for record in invented_wikihop.records(count, seed=seed, sizes=sizes):
        yield {**record, "supports": [in_pairs(x) for x in record["supports"]]}


def in_pairs(text: str) -> str:
    """Every other full stop between sentences becomes a semicolon."""
    sentences = text.split(". ")
    pairs = ["; ".join(sentences[i : i + 2]) for i in range(0, len(sentences), 2)]
    return ". ".join(pairs)


SETS = {
    "hotpotqa": ItemSet(
        HOTPOTQA_TASK,
        invented_hotpotqa.HotpotQaSizes,
        invented_hotpotqa.records,
        metric="span_accuracy",
        beside=("f1", "sp_f1"),
    ),
    "wikihop": ItemSet(
        WIKIHOP_TASK,
        invented_wikihop.WikiHopSizes,
        _wikihop,
        metric="accuracy",
    ),
}
