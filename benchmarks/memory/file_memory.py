"""Memory of a command over a long file: does it grow with the file?

    python -m benchmarks file_memory --command=prepare --megabytes=2000 --workers=2
    python -m benchmarks file_memory --command=prepare --task=natural_questions \\
        --megabytes=2000 --gzip
    python -m benchmarks file_memory --command=evaluate --megabytes=500
    python -m benchmarks file_memory --command=evaluate --task=text_to_text \\
        --megabytes=80
    python -m benchmarks file_memory --command=predict --megabytes=100

A file of some size is made up (`data.long_files`) in the system's temporary folder,
which needs three times as much. What counts is the peak of all processes together
by the end of the work, divided by the peak by its first tenth. Commands:

    prepare    `etc-jax prepare`; what grows is the table of ids that shows which
               records are there twice
    evaluate   `etc-jax evaluate` with the smallest ETC there can be, whose parameters
               are random: inputs are as long as those of the paper, only the model is
               not. It reads all of the file before: that ids and gold answers are few
               bytes is to be seen by files of two sizes. Of text_to_text it is a LED
               that reads 16,384 tokens and writes 64, by a search with two beams
    predict    `etc-jax predict --json` with that model
"""

import argparse
import dataclasses
import itertools
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax

from benchmarks.data import long_files
from benchmarks.data.long_files import LongFile
from benchmarks.kit import memory, report
from benchmarks.kit.compiled import random_params
from benchmarks.kit.memory import MIB, Growth, Watched
from etc_jax import config as config_lib
from etc_jax.cli import prepare
from etc_jax.conversion.formats import native
from etc_jax.data.text.cache import TOKENIZER
from etc_jax.data.tokenizers.tokenizer import Tokenizer, open_tokenizer
from etc_jax.datasets import task as task_lib
from etc_jax.formats.text_to_text import TextToTextSizes, end_id
from etc_jax.objectives.learners import finetuning
from etc_jax.prediction import answer_parts
from etc_jax.prediction.model_files import CONFIG

# Command -> the task that it is measured on by default.
COMMANDS = {
    "prepare": "hotpotqa",
    "evaluate": "natural_questions",
    "predict": "natural_questions",
}
_SMALLEST = {"embed_dim": 8, "num_heads": 1, "mlp_dim": 8, "num_layers": 1}


def watch_prepare(
    args: argparse.Namespace, file: LongFile, folder: pathlib.Path
) -> tuple[Watched, int]:
    """(what was seen while this process prepared the file, its windows)."""
    growth = Growth()

    def note(seen: int, windows: int) -> None:
        growth.note(seen / file.records, memory.peaks())

    memory.clear_own_peak()
    start = time.monotonic()
    cache = prepare.prepare(
        task_lib.find_task(args.task),
        [file.path],
        open_tokenizer(file.tokenizer),
        folder / "cache",
        workers=args.workers,
        progress_fn=note,
    )
    return Watched(growth, time.monotonic() - start, 1.0), cache.num_windows


def random_model(task: str, tokenizer_file: str, out: pathlib.Path) -> None:
    """A model that was never trained, as `etc-jax convert --export` saves one."""
    tokenizer = open_tokenizer(tokenizer_file)
    if task == "text_to_text":
        values, sizes = _writer(tokenizer)
    else:
        values = config_lib.default_config(objective=task, source="windows")
        values.model.hard_g2l = True
        sizes = task_lib.find_task(task).sizes
    values.model.update(vocab_size=tokenizer.vocab_size, **_SMALLEST)
    values.data.update(
        paths=("train",),
        validation_paths=("dev",),
        vocab_size=tokenizer.vocab_size,
        **dataclasses.asdict(sizes),
    )
    config = config_lib.from_config_dict(values)
    init_fn = finetuning.of_config(config).init
    params = random_params(jax.eval_shape(init_fn, jax.random.key(0)))
    files = {
        CONFIG: f"{config_lib.to_json(config)}\n".encode(),
        TOKENIZER: pathlib.Path(tokenizer_file).read_bytes(),
    }
    about = {"made_from": {"run": "none", "step": 0}, "objective": task}
    native.save(out, params, config.model, about, files=files)


def _writer(tokenizer: Tokenizer) -> tuple[Any, TextToTextSizes]:
    """(the config of a LED but for its sizes, lengths of its texts)."""
    sizes = TextToTextSizes(input_length=16384, target_length=64)
    values = config_lib.default_config(
        "led", objective="text_to_text", source="windows"
    )
    values.model.update(
        num_decoder_layers=1,
        max_length=sizes.input_length,
        max_target_length=sizes.target_length,
        attention_window=(128,),
        pad_id=tokenizer.special_id("pad"),
        decoder_start_id=tokenizer.special_id("cls"),
        eos_id=end_id(tokenizer),
    )
    values.objective.generation.num_beams = 2
    values.data.input_options = ("measure=rouge",)
    return values, sizes


def count_windows(task: str, file: LongFile) -> int:
    """Inputs that the records of a long file make."""
    found, tokenizer = task_lib.find_task(task), open_tokenizer(file.tokenizer)
    different = itertools.islice(found.read([file.path], None), long_files.DIFFERENT)
    counts = [len(found.features(record, tokenizer)) for record in different]
    return sum(counts[i % len(counts)] for i in range(file.records))


class Answering:
    """A command line that answers a long file, and how far it is."""

    def __init__(self, name: str, folder: pathlib.Path, file: LongFile):
        self.out = folder / "out"
        self.line = [sys.executable, "-m", "etc_jax", name]
        self.line += [f"--model={folder / 'model'}"]
        is_evaluation = name == "evaluate"
        self.line.append(f"--out={self.out}" if is_evaluation else "--json")
        self.line.append(file.path)
        self.done_fn: Callable[[], float] = (
            self._parts if is_evaluation else self._lines
        )
        self._records, self._at, self._seen = file.records, 0, 0

    def _parts(self) -> float:
        parts = len(list(self.out.glob(f"{answer_parts.FOLDER}/*.jsonl")))
        return parts * answer_parts.RECORDS / self._records

    def _lines(self) -> float:
        with open(self.out, "rb") as printed:
            printed.seek(self._at)
            self._seen += printed.read().count(b"\n")
            self._at = printed.tell()
        return self._seen / self._records


def watch_answering(
    args: argparse.Namespace, file: LongFile, folder: pathlib.Path
) -> tuple[Watched, int]:
    """(what was seen while a command answered the file, its windows)."""
    random_model(args.task, file.tokenizer, folder / "model")
    windows = count_windows(args.task, file)
    work = Answering(args.command, folder, file)
    line = [*work.line, f"--batch_size={args.batch_size}"]
    if args.command == "evaluate":
        line.append(f"--workers={args.workers}")
    log = folder / ("log" if args.command == "evaluate" else "out")
    with open(log, "wb") as printed:
        seen = memory.watch(line, work.done_fn, cwd=memory.ROOT, stdout=printed)
    return seen, windows


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Does the work on a long file; what was seen, printed and ready for JSON."""
    watch_fn = watch_prepare if args.command == "prepare" else watch_answering
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        file = long_files.write_apart(
            args.task, folder, args.megabytes, packed=args.gzip
        )
        seen, windows = watch_fn(args, file, folder)
        num_bytes = os.stat(file.path).st_size
    growth, megabytes = seen.growth, file.text_bytes / 10**6
    amounts = {"records": file.records, "windows": windows, "MB": megabytes}
    rates = [
        f"{amount * seen.share / seen.secs:.1f} {unit}/s"
        for unit, amount in amounts.items()
    ]
    print(
        f"{args.command}, {args.task}, {args.workers} workers: {megabytes:.0f} MB, "
        f"{file.records} records, {windows} windows: {', '.join(rates)}; peak "
        f"{growth.by_a_tenth / MIB:.0f} MiB by a tenth, {growth.by_the_end / MIB:.0f} "
        f"MiB by the end, {growth.growth:+.1%}"
    )
    return {
        "task": args.task,
        "arguments": report.arguments(args),
        "bytes": num_bytes,
        "text_bytes": file.text_bytes,
        "records": file.records,
        "windows": windows,
        "secs": seen.secs,
        "share": seen.share,
        "peak_bytes_by_a_tenth": growth.early,
        "peak_bytes": growth.late,
        "growth": growth.growth,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the measurement; returns the exit code."""
    options = report.parser("file_memory", __doc__)
    add = options.add_argument
    add("--command", choices=tuple(COMMANDS), required=True)
    add("--task", choices=long_files.TASKS, help=f"by default: {COMMANDS}")
    add("--megabytes", type=float, default=100)
    add("--gzip", action="store_true", help="of a gzipped file")
    add("--workers", type=int, default=1, help="of prepare and evaluate")
    add("--batch_size", type=int, default=4, help="of evaluate and predict")
    args = options.parse_args(argv)
    args.task = args.task or COMMANDS[args.command]
    return report.run(options, args, lambda: (measure(args), 0))
