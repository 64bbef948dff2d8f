"""What structure is worth: questions over documents, answered with and without it.

    python -m benchmarks structure_ablation --task=wikihop --out=wikihop.json
    python -m benchmarks structure_ablation --task=hotpotqa --seeds=0,1,2 \\
        --rows=structured,flat,no_hard_g2l --out=hotpotqa.json

The ablations of the ETC paper (section 4.2, table 3) on invented questions that a small
model learns from scratch in minutes; see `data.structure_items` for them. Rows
`pretrained` and `pretrained_no_cpc` first train a model of the same sizes and seed with
MLM + CPC, and with MLM alone, on the text of the training items.

All rows have the same items in the same order, and the same sizes, steps and seeds:
they differ in what `ROWS` and `PRETRAINED` say. The score is the task's official one,
on validation items. Of --config.A.B=VALUE those of the model go to pre-training too.
With rows structured and flat, the exit code is 1 if structure is worth less with some
seed than `WANTED_POINTS` says.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
from collections.abc import Sequence
from typing import Any

from benchmarks.data.structure_items import SETS, ItemSet
from benchmarks.kit import finetuning_runs, rows
from benchmarks.kit.finetuning_runs import Spent
from etc_jax import config as config_lib
from etc_jax.config import Config
from etc_jax.data.array_folder import TOKENIZER
from etc_jax.data.windows.cache import WindowCache
from etc_jax.tasks.synthetic.maker import write_records

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
    "pretrained_no_cpc": {"objective.mlm_weight": 1.0, "objective.cpc_weight": 0.0},
}
# Points that the first is asked to be ahead of the second, by task.
COMPARED = ("structured", "flat")
WANTED_POINTS = {"wikihop": 10.0, "hotpotqa": 5.0}

# The dense form is the quickest for inputs as short as these.
MODEL = rows.MODEL | {"attention": "dense"}
# The items' sentences are shorter; room for those that CPC masks is made accordingly.
_SENTENCE_TOKENS = 32


def write_texts(item_set: ItemSet, items: pathlib.Path) -> None:
    """Makes `train.jsonl` and `validation.jsonl` of the records that lie there.

    The texts of an item's documents are one document, questions and answers left out,
    so that what is learnt is how such texts go on: sentences, not tasks.
    """
    for name in ("train", "validation"):
        records = json.loads((items / f"{name}.json").read_text(encoding="utf-8"))
        # A blank line between paragraphs.
        texts = ("\n\n".join(item_set.documents(record)) for record in records)
        documents = ({"text": text} for text in texts)
        write_records(items / f"{name}.jsonl", documents, lines=True)


@dataclasses.dataclass(frozen=True)
class Ablation:
    """What all runs share.

    Attributes:
      item_set: that they learn.
      caches: its inputs, to learn from and to validate on.
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

    def config(self, row: str, seed: int) -> Config:
        """The config of one run."""
        start = {}
        if row in PRETRAINED:
            before = self.pretraining_folder(row, seed).resolve()
            start = {"init_from": str(before), "init_from_only": ("encoder",)}
        return rows.config(
            self.caches,
            ROWS[row],
            model=MODEL,
            seed=seed,
            steps=self.steps,
            changes=self.changes,
            start=start,
        )

    def pretraining_config(self, row: str, seed: int) -> Config:
        """The config of the run that a row starts from, on what `write_texts` made.

        Model, seed, vocabulary and lengths are those of the row's own run, so that all
        parameters of its encoder can be taken from this one.
        """
        run, made = self.config(row, seed), config_lib.default_config()
        made.model.update(config_lib.to_dict(run)["model"])
        made.data.update(
            source="jsonl",
            paths=(str(self.items / "train.jsonl"),),
            validation_paths=(str(self.items / "validation.jsonl"),),
            tokenizer=str(self.items / "train" / TOKENIZER),
            vocab_size=run.data.vocab_size,
            cache_dir=str(self.items / "texts"),
            long_length=run.data.long_length,
            global_length=run.data.global_length,
            max_sentence_tokens=_SENTENCE_TOKENS,
        )
        steps = self.pretraining_steps
        finetuning_runs.set_training(made, seed=run.train.seed, steps=steps)
        made.train.compile_cache_dir = run.train.compile_cache_dir
        return finetuning_runs.changed(made, (), PRETRAINED[row])

    def before(self, row: str, seed: int) -> Spent | None:
        """Trains what a row starts from, unless that was done before.

        Raises:
          RunError: see `finetuning_runs.train`.
        """
        if row not in PRETRAINED:
            return None
        return finetuning_runs.train(
            self.pretraining_config(row, seed), self.pretraining_folder(row, seed)
        )

    @property
    def study(self) -> rows.Study:
        """The table that is to be made."""
        task = self.item_set.task
        return rows.Study(
            self.folder,
            self.config,
            # The usual threshold, not the best for the items that are scored.
            rows.official(self.items / "validation.json", threshold=task.setting),
            measure=task.metric,
            metric=self.item_set.metric,
            before_fn=self.before,
            pairs=(COMPARED,),
            wanted_points=WANTED_POINTS[task.name],
            about={"task": task.name},
        )


def prepare(args: argparse.Namespace, changes: Sequence[str]) -> rows.Study:
    """Makes the items, and checks the configs of pre-training.

    Raises:
      ValueError, OSError: if something given does not fit.
    """
    item_set = SETS[args.task]
    folder = args.workdir or pathlib.Path("runs/structure_ablation") / args.task
    caches = item_set.make_caches(folder / "items", args.items, args.validation)
    steps = args.steps or item_set.steps
    ablation = Ablation(
        item_set, caches, folder, steps, args.pretraining_steps, changes
    )
    for row in set(args.rows).intersection(PRETRAINED):
        write_texts(item_set, ablation.items)
        ablation.pretraining_config(row, args.seeds[0])
    return ablation.study


main = rows.Command(
    __name__,
    __doc__,
    prepare,
    ROWS,
    {
        "items": (10_000, "to learn from"),
        "validation": (512, "items to be evaluated on"),
        "steps": (None, "of a run; by default as the items have it"),
        "pretraining_steps": (200, "of a run before it"),
    },
    lambda add: add("--task", choices=sorted(SETS), default="wikihop"),
).main
