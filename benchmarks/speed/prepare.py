"""Making inputs of tasks from raw files: speed beside the tokenizer alone.

    python -m benchmarks prepare --out=prepare.json
    python -m benchmarks prepare --task=wikihop --tokenizer=vocab.txt train.json

One process, one thread; the clock counts CPU time of the process, so that others on the
machine weigh little. The sides:

    package    `encode_batch` of the tokenizers package, on the texts of the records,
               in the batches in which the features ask for them
    features   records -> windows
    given      the same with sentences split beforehand, for tasks that split text
    prepare    raw files -> finished cache: reading, features, writing

Without files, records and a vocabulary are made up. A busy machine is refused (exit
code 3).
"""

import argparse
import functools
import os
import pathlib
import tempfile
import time
from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np
import tokenizers

from benchmarks.kit import harness, report
from etc_jax.cli import prepare
from etc_jax.data.text.sentences import split_sentences
from etc_jax.data.tokenizers.tokenizer import Tokenizer, open_tokenizer, train
from etc_jax.datasets import task as task_lib
from etc_jax.datasets.records import Problems
from etc_jax.datasets.task import Task
from etc_jax.tasks.synthetic import hotpotqa, wikihop
from etc_jax.tasks.synthetic.maker import write_records

REFERENCE = "package"
SYNTHETIC = {"hotpotqa": hotpotqa, "wikihop": wikihop}
# Tasks whose features split text into sentences.
_SPLITTING = ("wikihop",)


class _Work:
    """The records of some files, and the sides that work on them."""

    def __init__(
        self, task: Task, files: Sequence[str], tokenizer: Tokenizer, folder: str
    ):
        self.task, self.files, self.tokenizer = task, files, tokenizer
        self.folder = pathlib.Path(folder)
        self.records = list(task.read(files, Problems()))
        self.batches = self._texts()
        saved = self.folder / "tokenizer.json"
        tokenizer.save(saved)
        self._package = tokenizers.Tokenizer.from_file(os.fspath(saved))
        self._rounds = 0

    def _texts(self) -> list[list[str]]:
        """The texts that the features have tokenised, in their batches."""
        found, encode = [], self.tokenizer.encode_with_offsets

        def noting(texts):
            found.append(list(texts))
            return encode(texts)

        with mock.patch.object(self.tokenizer, "encode_with_offsets", noting):
            self.features()
        return found

    def package(self) -> list[Any]:
        return [
            self._package.encode_batch(texts, add_special_tokens=False)
            for texts in self.batches
        ]

    def features(self, **options) -> list[Any]:
        features = functools.partial(self.task.features, **options)
        return [w for record in self.records for w in features(record, self.tokenizer)]

    @functools.cached_property  # made by the untimed call of the check
    def _sentences(self) -> dict[str, list[str]]:
        documents = (d for record in self.records for d in record.documents)
        return {d: split_sentences([d]) for d in documents}

    def given(self) -> list[Any]:
        return self.features(split_fn=self._sentences.__getitem__)

    def prepare(self) -> Any:
        self._rounds += 1
        out = self.folder / f"cache-{self._rounds}"
        return prepare.prepare(self.task, self.files, self.tokenizer, out)

    def sides(self) -> list[harness.Side]:
        """In the order of a round."""
        sides = [
            harness.Side(REFERENCE, self.package, _encodings),
            harness.Side("features", self.features, _windows),
            harness.Side("given", self.given, _windows),
            harness.Side("prepare", self.prepare, _cache),
        ]
        splits = self.task.name in _SPLITTING
        return [side for side in sides if splits or side.name != "given"]


def _encodings(batches) -> dict[str, np.ndarray]:
    return {"ids": np.array([i for batch in batches for e in batch for i in e.ids])}


def _windows(windows) -> dict[str, np.ndarray]:
    return {"ids": np.concatenate([w.tokens.long for w in windows])}


def _cache(cache) -> dict[str, np.ndarray]:
    return {"ids": np.asarray(cache.arrays["long_tokens"])}


def measure_speed(work: _Work, rounds: int) -> dict[str, Any]:
    """Times of every side, printed and ready for JSON."""
    chars = sum(len(text) for batch in work.batches for text in batch)
    tokens = len(_encodings(work.package())["ids"])
    records = len(work.records)
    timings = report.compared(
        f"{work.task.name}: {records} records, {chars} chars, {tokens} tokens",
        work.sides(),
        reference=REFERENCE,
        rounds=rounds,
        tolerance=0.0,
        clock=time.process_time,
        pause_secs=0.0,
    )
    return {
        "task": work.task.name,
        "records": records,
        "chars": chars,
        "tokens": tokens,
        "rows": report.timing_rows(timings),
    }


def made_up_file(name: str, folder: pathlib.Path, count: int) -> pathlib.Path:
    """A file of invented records of a task."""
    file = folder / f"{name}.json"
    write_records(file, SYNTHETIC[name].records(count, seed=0))
    return file


def made_up_vocabulary(file: pathlib.Path) -> Tokenizer:
    """A small WordPiece vocabulary of the words of a file."""
    text = file.read_text(encoding="utf-8")
    return train(text.split("\n"), vocab_size=600, min_char_count=1)


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Speeds of each task, ready for JSON."""
    # Before the package is used: later it would not be heard.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    found = []
    with tempfile.TemporaryDirectory() as name:
        for task in args.task:
            folder = pathlib.Path(name) / task
            folder.mkdir()
            files = args.files or [made_up_file(task, folder, args.records)]
            tokenizer = (
                open_tokenizer(args.tokenizer)
                if args.tokenizer
                else made_up_vocabulary(files[0])
            )
            work = _Work(task_lib.find_task(task), files, tokenizer, folder)
            found.append(measure_speed(work, args.rounds))
    return {"reference": REFERENCE, "tasks": found}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark; returns the exit code."""
    options = report.timing_parser("prepare", __doc__, rounds=15)
    add, names = options.add_argument, tuple(SYNTHETIC)
    add("--task", type=report.names(names), default=names)
    add("--tokenizer", help="vocabulary; default: a made-up one")
    add("--records", type=int, default=200, help="to make up")
    add("files", nargs="*", help="raw files, of one task")
    args = options.parse_args(argv)
    if args.files and len(args.task) > 1:
        options.error("files are of one task: say which with --task")
    if args.files and args.tokenizer is None:
        options.error("files need their vocabulary: --tokenizer")
    return report.run_quiet(options, args, lambda: (measure(args), ()), dtype="int32")
