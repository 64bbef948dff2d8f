"""Pre-training on the documents of invented questions, for `structure_ablation`.

The texts of an item's documents are one document, questions and answers left out, so
that what is learnt is how such texts go on: sentences, not tasks.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from benchmarks.data.structure_items import ItemSet, Record
from benchmarks.kit import finetuning_runs
from etc_jax import config as config_lib
from etc_jax.config import Config
from etc_jax.data.array_folder import TOKENIZER

NO_CPC = {"objective.mlm_weight": 1.0, "objective.cpc_weight": 0.0}

# The items' sentences are shorter; room for those that CPC masks is made accordingly.
_SENTENCE_TOKENS = 32


def write_texts(item_set: ItemSet, items: pathlib.Path) -> None:
    """Makes `train.jsonl` and `held_back.jsonl` of the records that lie there."""
    for name in ("train", "held_back"):
        records = json.loads((items / f"{name}.json").read_text(encoding="utf-8"))
        text = "".join(_lines(item_set, records))
        (items / f"{name}.jsonl").write_text(text, encoding="utf-8")


def _lines(item_set: ItemSet, records: Iterable[Record]) -> Iterator[str]:
    for record in records:
        # A blank line between paragraphs.
        text = "\n\n".join(item_set.documents(record))
        yield json.dumps({"text": text}) + "\n"


def config_before(
    run: Config, items: pathlib.Path, *, steps: int, row: Mapping[str, Any]
) -> Config:
    """The config of pre-training what a run starts from.

    Args:
      run: on `items/train`. Model, seed, vocabulary and lengths are taken from it, so
        that all its encoder's parameters can be.
      items: folder with what `write_texts` made.
      steps: of pre-training, with MLM + CPC.
      row: {dotted path: value} to be different, such as `NO_CPC`.
    """
    config = config_lib.default_config()
    config.model.update(config_lib.to_dict(run)["model"])
    config.data.update(
        source="jsonl",
        paths=(str(items / "train.jsonl"),),
        held_back_paths=(str(items / "held_back.jsonl"),),
        tokenizer=str(items / "train" / TOKENIZER),
        vocab_size=run.data.vocab_size,
        cache_dir=str(items / "texts"),
        long_length=run.data.long_length,
        global_length=run.data.global_length,
        max_sentence_tokens=_SENTENCE_TOKENS,
    )
    finetuning_runs.set_training(config, seed=run.train.seed, steps=steps)
    config.train.compile_cache_dir = run.train.compile_cache_dir
    return finetuning_runs.changed(config, finetuning_runs.as_changes(row))
