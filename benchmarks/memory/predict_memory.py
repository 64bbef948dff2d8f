"""Memory of predicting over a long file: does it grow with the file?

    python -m benchmarks predict_memory --command=evaluate --megabytes=500
    python -m benchmarks predict_memory --command=predict --megabytes=100

See `file_memory`. `etc-jax evaluate` or `etc-jax predict --json` answers the
file with the smallest ETC there can be, whose parameters are random: inputs are as long
as those of the paper, only the model is not. Evaluation reads all of the file before:
that ids and gold answers are few bytes is to be seen by files of two sizes.
"""

import argparse
import functools
import itertools
import pathlib
import sys
from collections.abc import Callable, Sequence

import jax
import numpy as np

from benchmarks.data import long_files
from benchmarks.data.long_files import LongFile
from benchmarks.kit import memory
from benchmarks.kit.memory import Watched
from benchmarks.memory import file_memory
from etc_jax import config as config_lib
from etc_jax.conversion.formats import native
from etc_jax.data.text.cache import TOKENIZER
from etc_jax.data.tokenizers.tokenizer import open_tokenizer
from etc_jax.datasets import task as task_lib
from etc_jax.objectives.learners import finetuning
from etc_jax.prediction import answer_parts
from etc_jax.prediction.model_files import CONFIG

_ENCODER = {
    "embed_dim": 8,
    "num_heads": 1,
    "mlp_dim": 8,
    "num_layers": 1,
    "hard_g2l": True,
}


def random_model(task: str, tokenizer_file: str, out: pathlib.Path) -> None:
    """A model that was never trained, as `etc-jax convert --export` saves one."""
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
    args: argparse.Namespace, more: Sequence[str], file: LongFile, folder: pathlib.Path
) -> tuple[Watched, int]:
    """(what was seen while the command answered the file, its windows).

    Args:
      args: of the command line.
      more: arguments of the command.
      file: to be answered.
      folder: for all other files.
    """
    random_model(args.task, file.tokenizer, folder / "model")
    windows = count_windows(args.task, file)
    work = Command(args.command, folder, file)
    log = folder / ("log" if args.command == "evaluate" else "out")
    with open(log, "wb") as printed:
        line = [*work.line, *more]
        seen = memory.watch(line, work.done_fn, cwd=memory.ROOT, stdout=printed)
    return seen, windows


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the measurement; returns the exit code."""
    options = file_memory.parser("predict_memory", __doc__, task="natural_questions")
    add = options.add_argument
    add("--command", choices=("evaluate", "predict"), required=True)
    add("--batch_size", type=int, default=4)
    add("--workers", type=int, default=1, help="of evaluate")
    args = options.parse_args(argv)
    more = [f"--batch_size={args.batch_size}"]
    if args.command == "evaluate":
        more.append(f"--workers={args.workers}")
    work_fn = functools.partial(measure, args, more)
    return file_memory.run(options, args, work_fn, command=args.command, arguments=more)
