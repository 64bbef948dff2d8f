"""The second half of the quickstart: questions over documents, invented for it.

The pre-trained model is fine-tuned on them, and so is one without pre-training. Both
are evaluated with the official measure of HotpotQA, as is the best constant guess.

    FOLDER/train_1920.json, dev_512.json    records in the official raw format
    FOLDER/train_1920, dev_512              the same, ready for training
    FOLDER/pretrained, from_scratch         the runs; `dev` in each: its evaluation
"""

import dataclasses
import functools
import itertools
import json
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from configs import quickstart_hotpotqa
from etc_jax.config import flat_items
from etc_jax.data.array_folder import TOKENIZER
from etc_jax.data.tokenizer import Tokenizer, open_tokenizer
from etc_jax.data.windows import FORMAT
from launch.quickstart_record import Workdir
from launch.quickstart_runs import QuickstartError, finish, say, train
from tasks.synthetic import hotpotqa as synthetic
from tasks.synthetic.__main__ import write_records

CONFIG = "configs/quickstart_hotpotqa.py"
# One question of many: a small model takes long to tell relations apart.
QUESTION = "What is the capital of the ally of "
DIFFICULTY = synthetic.HotpotQaSizes(
    contexts=3,
    facts=2,
    hops=(2, 2),
    kinds=("region",),
    wordings=1,
    pronouns=0.0,
    comparisons=0.0,
)
TRAIN_RECORDS, DEV_RECORDS = 1920, 512
# Names are words that the vocabulary has whole: in pieces, they take longer to learn.
_NAMES = 300
_LEAST_NAMES = 30  # an item has up to nine, none of which may contain another
# Name of a run -> variant of the config.
RUNS = {"pretrained": "", "from_scratch": "from_scratch"}
_SEEDS = {"train": 0, "dev": 1}
_EVALUATION = "dev"


def made_up(
    count: int, *, seed: int, words: Sequence[str] = ()
) -> Iterator[dict[str, Any]]:
    """Records in the official raw format, with two supporting documents of three.

    Args:
      count: how many.
      seed: of the series.
      words: what regions and towns are called; (): their names are invented.
    """
    sizes = dataclasses.replace(DIFFICULTY, names=tuple(words))
    every = synthetic.records(sys.maxsize, seed=seed, sizes=sizes)
    chosen = (record for record in every if record["question"].startswith(QUESTION))
    return itertools.islice(chosen, count)


def whole_words(tokenizer: Tokenizer) -> tuple[str, ...]:
    """Words to name things with that are one token each.

    Raises:
      QuickstartError: if the vocabulary has too few.
    """
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    words = [p for p in pieces if p.isascii() and p.isalpha() and 5 <= len(p) <= 9]
    if len(words) < _LEAST_NAMES:
        raise QuickstartError(
            f"the vocabulary has {len(words)} tokens that are words of 5 to 9 letters, "
            f"expected at least {_LEAST_NAMES} to make questions of; pre-train with a "
            "larger WordPiece vocabulary, or with --pretrain_only"
        )
    return tuple(words[:_NAMES])


def fields() -> dict[str, Any]:
    """{dotted path: value} of the config."""
    return flat_items(quickstart_hotpotqa.get_config().to_dict())


@dataclasses.dataclass(frozen=True)
class Finetuning:
    """What is done in the second half, and where.

    Attributes:
      folder: for all that comes of it.
      pretrained: the run to start from, ended.
      overrides: further arguments of both training commands.
      records: how many are made up for training.
      dev_records: how many for evaluation.
    """

    folder: pathlib.Path
    pretrained: Workdir
    overrides: Sequence[str] = ()
    records: int = TRAIN_RECORDS
    dev_records: int = DEV_RECORDS

    def run(self) -> None:
        """Does what is not done yet.

        Raises:
          QuickstartError: if a command fails.
          KeyboardInterrupt: if the user stops it; the next call goes on from there.
        """
        self.folder.mkdir(exist_ok=True)
        for split in _SEEDS:
            if not self.raw(split).exists():
                self._make_up(split)
            if not FORMAT.is_at(self._cache(split)):
                finish(self._prepare(split))
        for name in RUNS:
            if self.scores(name) is not None:
                continue
            if not self.workdir(name).all_steps_saved():
                say(f"fine-tuning, {name.replace('_', ' ')}")
                train(self._train(name), self.workdir(name))
            finish(self._evaluate(name))

    def raw(self, split: str) -> pathlib.Path:
        """File of the records of "train" or "dev"."""
        return self._cache(split).with_suffix(".json")

    def workdir(self, name: str) -> Workdir:
        """Of a run, by its name in `RUNS`."""
        return Workdir(self.folder / name)

    def scores(self, name: str) -> dict[str, Any] | None:
        """What the evaluation of a run found; None before its end."""
        return self._read(name, "scores.json")

    def predictions(self, name: str) -> dict[str, Any]:
        """What a run answers, in the official form."""
        return self._read(name, "predictions.json")

    def _read(self, name: str, file: str) -> dict[str, Any] | None:
        path = self.folder / name / _EVALUATION / file
        return json.loads(path.read_text("utf-8")) if path.exists() else None

    def _cache(self, split: str) -> pathlib.Path:
        count = self.records if split == "train" else self.dev_records
        return self.folder / f"{split}_{count}"

    def _make_up(self, split: str) -> None:
        count = self.records if split == "train" else self.dev_records
        say(f"making up {count} questions, {split}")
        found = made_up(count, seed=_SEEDS[split], words=self._words)
        write_records(self.raw(split), found)

    @functools.cached_property
    def _words(self) -> tuple[str, ...]:
        return whole_words(open_tokenizer(self.pretrained.folder / TOKENIZER))

    def _prepare(self, split: str) -> list[str]:
        data = quickstart_hotpotqa.get_config().data
        return [
            *_command("tasks.prepare"),
            "--task=hotpotqa",
            f"--tokenizer={self.pretrained.folder / TOKENIZER}",
            f"--out={self._cache(split)}",
            f"--long_length={data.long_length}",
            f"--global_length={data.global_length}",
            "--workers=0",
            str(self.raw(split)),
        ]

    def _train(self, name: str) -> list[str]:
        values = {
            "data.paths": (str(self._cache("train")),),
            "data.held_back_paths": (str(self._cache("dev")),),
            # Both runs compile the same functions.
            "train.compile_cache_dir": self.folder / "compile_cache",
            **self._model(),
        }
        if name == "pretrained":
            values["checkpoint.init_from"] = self.pretrained.folder
        return [
            *_command("etc_jax.train"),
            f"--config={CONFIG}:{RUNS[name]}".removesuffix(":"),
            f"--workdir={self.folder / name}",
            *(f"--config.{path}={value}" for path, value in values.items()),
            *self.overrides,
        ]

    def _model(self) -> dict[str, Any]:
        """What of the pre-trained model is not as this config has it."""
        given = self.pretrained.config()
        vocabulary = {"vocab_size": given["data"]["vocab_size"]}
        wanted = flat_items({"model": given["model"], "data": vocabulary})
        own = fields()
        return {path: value for path, value in wanted.items() if own[path] != value}

    def _evaluate(self, name: str) -> list[str]:
        return [
            *_command("etc_jax.evaluate"),
            f"--model={self.folder / name}",
            f"--out={self.folder / name / _EVALUATION}",
            "--workers=0",
            str(self.raw("dev")),
        ]


def _command(module: str) -> list[str]:
    return [sys.executable, "-m", module]
