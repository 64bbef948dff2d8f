"""Memory of predicting over a long file: does it grow with the file?

    python -m benchmarks.predict_memory --command=evaluate --megabytes=500
    python -m benchmarks.predict_memory --command=predict --megabytes=100

A file of that size is made up (`benchmarks.long_files`), and `etc_jax.evaluate` or
`etc_jax.predict --json` answers it with the smallest ETC there can be, whose parameters
are random: inputs are as long as those of the paper, only the model is not. The metric
is the peak memory of all processes together by the end, divided by the peak by the
first tenth of the records. Evaluation reads all of the file before: that ids and gold
answers are few bytes is to be seen by files of two sizes.
"""

import argparse
import itertools
import os
import pathlib
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from benchmarks import long_files, machine, process_memory, report
from benchmarks.long_files import LongFile
from benchmarks.memory import MIB
from etc_jax import config as config_lib
from etc_jax.conversion.formats import native
from etc_jax.data.text.cache import TOKENIZER
from etc_jax.data.tokenizers.tokenizer import open_tokenizer
from etc_jax.datasets import task as task_lib
from etc_jax.objectives.learners import finetuning
from etc_jax.prediction import answer_parts
from etc_jax.prediction.model_files import CONFIG

_ROOT = pathlib.Path(__file__).resolve().parent.parent
_ENCODER = {
    "embed_dim": 8,
    "num_heads": 1,
    "mlp_dim": 8,
    "num_layers": 1,
    "hard_g2l": True,
}


def random_model(task: str, tokenizer_file: str, out: pathlib.Path) -> None:
    """A model that was never trained, as `etc_jax.convert --export` saves one."""
    sizes = task_lib.find_task(task).sizes
    vocab_size = open_tokenizer(tokenizer_file).vocab_size
    values = config_lib.default_config()
    values.model.update(vocab_size=vocab_size, **_ENCODER)
    values.objective.name = task
    values.data.update(
        source="windows",
        paths=("train",),
        held_back_paths=("dev",),
        vocab_size=vocab_size,
        long_length=sizes.long_length,
        global_length=sizes.global_length,
    )
    config = config_lib.from_config_dict(values)
    init_fn = finetuning.of_config(config).init
    rng = np.random.default_rng(0)
    params = jax.tree.map(
        lambda a: rng.normal(size=a.shape).astype(a.dtype),
        jax.eval_shape(init_fn, jax.random.key(0)),
    )
    files = {
        CONFIG: f"{config_lib.to_json(config)}\n".encode(),
        TOKENIZER: pathlib.Path(tokenizer_file).read_bytes(),
    }
    about = {"made_from": {"run": "none", "step": 0}, "objective": task}
    native.save(out, params, config.model, about, files=files)


def count_windows(task: str, file: LongFile) -> int:
    """Inputs that the records of a long file make."""
    found, tokenizer = task_lib.find_task(task), open_tokenizer(file.tokenizer)
    different = itertools.islice(found.read([file.path], None), long_files.DIFFERENT)
    counts = [len(found.features(record, tokenizer)) for record in different]
    return sum(counts[i % len(counts)] for i in range(file.records))


class Command:
    """A command line over a long file, and how far it is."""

    def __init__(self, name: str, folder: pathlib.Path, file: LongFile):
        self.out = folder / "out"
        self.line = [sys.executable, "-m", f"etc_jax.{name}"]
        self.line += [f"--model={folder / 'model'}"]
        self.done_fn: Callable[[], float] = self._parts
        if name == "evaluate":
            self.line.append(f"--out={self.out}")
        else:
            self.line.append("--json")
            self.done_fn = self._lines
        self.line.append(file.path)
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


def measure(
    task: str, command: str, folder: pathlib.Path, megabytes: float, more: Sequence[str]
) -> dict[str, Any]:
    """Peaks by a tenth of the records and by the end, printed and ready for JSON.

    Args:
      task: one of `long_files.TASKS`.
      command: "evaluate" or "predict".
      folder: for all files.
      megabytes: of the file.
      more: arguments of the command.
    """
    file = long_files.write_apart(task, folder, megabytes)
    random_model(task, file.tokenizer, folder / "model")
    windows = count_windows(task, file)
    work = Command(command, folder, file)
    with open(folder / ("log" if command == "evaluate" else "out"), "wb") as printed:
        seen = process_memory.watch(
            [*work.line, *more], work.done_fn, cwd=_ROOT, stdout=printed
        )
    share, found = seen.share / seen.secs, seen.growth
    print(
        f"{command}, {task}: {file.text_bytes / 10**6:.0f} MB, {file.records} records, "
        f"{windows} windows: {file.records * share:.2f} records/s, "
        f"{windows * share:.1f} windows/s; peak {found.by_a_tenth / MIB:.0f} MiB by a "
        f"tenth, {found.by_the_end / MIB:.0f} MiB by the end, {found.growth:+.1%}"
    )
    return {
        "task": task,
        "command": command,
        "arguments": list(more),
        "bytes": os.stat(file.path).st_size,
        "records": file.records,
        "windows": windows,
        "secs": seen.secs,
        "share": seen.share,
        "peak_bytes_by_a_tenth": found.early,
        "peak_bytes": found.late,
        "growth": found.growth,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the measurement; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", choices=long_files.TASKS, default="natural_questions")
    parser.add_argument("--command", choices=("evaluate", "predict"), required=True)
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--batch_size", type=int, default=4)
    parser.add_argument("--workers", type=int, default=1, help="of evaluate")
    parser.add_argument("--out", help="JSON file to write")
    args = parser.parse_args(argv)
    more = [f"--batch_size={args.batch_size}"]
    if args.command == "evaluate":
        more.append(f"--workers={args.workers}")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        found = measure(args.task, args.command, folder, args.megabytes, more)
    found |= {"benchmark": "predict_memory", "machine": machine.describe()}
    report.write(args.out, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
