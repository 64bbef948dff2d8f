"""A real BERT made long and fine-tuned on files: what such studies share."""

from __future__ import annotations

import argparse
import dataclasses
import glob
import pathlib
from collections.abc import Callable, Collection, Sequence
from typing import Any

import ml_collections

from benchmarks.kit import finetuning_runs, report, rows
from etc_jax.cli import prepare as windows
from etc_jax.config import Config
from etc_jax.conversion.formats import native
from etc_jax.data.tokenizers.tokenizer import open_tokenizer
from etc_jax.data.windows.cache import WindowCache
from etc_jax.datasets.task import Task
from etc_jax.formats.sequence import SequenceSizes


@dataclasses.dataclass(frozen=True)
class BertRuns:
    """What all runs share.

    Attributes:
      args: of the command line.
      changes: see `finetuning_runs.changed`.
      folder: of everything.
    """

    args: argparse.Namespace
    changes: Sequence[str]
    folder: pathlib.Path

    def files(self, part: str) -> list[str]:
        """The files of a part: "train" or "validation"."""
        return [
            file
            for pattern in getattr(self.args, part)
            for file in sorted(glob.glob(pattern)) or [pattern]
        ]

    def converted(self, name: str, *argv: str) -> pathlib.Path:
        """The folder of a model, which `etc-jax convert` makes if it is not there.

        Raises:
          RunError: see `finetuning_runs.convert`.
        """
        out = self.folder / name
        if not native.exists(out):
            finetuning_runs.convert(*argv, f"--out={out}")
        return out

    def made_long(self, name: str, max_length: int) -> pathlib.Path:
        """The folder of the BERT as a Longformer, which was not trained in between."""
        argv = ["extend", f"--from={self.args.bert}", "--to=longformer"]
        argv += [f"--max_length={max_length}", f"--window={self.args.window}"]
        return self.converted(name, *argv, "--format=native")

    def inputs(
        self, task: Task, part: str, name: str, sizes: SequenceSizes
    ) -> WindowCache:
        """A cache of the inputs of a part, made once."""
        tokenizer = open_tokenizer(self.args.bert)
        out = self.folder / name
        return windows.prepare(task, self.files(part), tokenizer, out, sizes=sizes)

    def checked(
        self, made: ml_collections.ConfigDict, rate: float | None = None
    ) -> Config:
        """The config of a run, after the changes of the command line.

        Args:
          made: what is learnt, by which model, in how many steps.
          rate: of learning; None: that of the command line.

        Raises:
          ValueError: if something does not fit.
        """
        made.optimizer.learning_rate = rate or self.args.learning_rate
        made.train.batch_size = self.args.batch_size
        made.train.compile_cache_dir = str(self.folder / "compile_cache")
        return finetuning_runs.changed(made, self.changes)

    def study(self, config_fn, task: Task, **fields: Any) -> rows.Study:
        """Official scores on the validation files; other fields are `rows.Study`'s."""
        about = {"arguments": report.arguments(self.args)} | fields.pop("about", {})
        return rows.Study(
            self.folder,
            config_fn,
            rows.official(*self.files("validation")),
            measure=task.metric,
            about=about,
            **fields,
        )


def folder_of(args: argparse.Namespace, name: str) -> pathlib.Path:
    """Of everything, by default one for each task."""
    return (args.workdir or pathlib.Path("runs") / f"{name}_{args.task}").absolute()


def add_options(tasks: Collection[str], add: Callable) -> None:
    """The options of files, beside those of `NUMBERS` and of each study.

    Args:
      tasks: that a study knows.
      add: see `rows.Command.add_fn`.
    """
    add("--task", choices=sorted(tasks), required=True)
    add("--bert", type=pathlib.Path, required=True, help="folder of Hugging Face")
    add("--train", nargs="+", required=True, help="files to learn from, or globs")
    add("--validation", nargs="+", required=True, help="files to be scored on")
    add("--learning_rate", type=float, default=1e-4)


NUMBERS = {"batch_size": (16, "of a run")}
