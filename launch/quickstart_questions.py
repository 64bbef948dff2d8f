"""The second half of the quickstart: one task, learned with structure and without.

The questions are invented, in WikiHop's official form: which of four persons taught
somebody? (`tasks.synthetic.teachers`.) Two small models start from the same random
parameters and see the same questions in the same order. One has the paper's structure,
the other one the flat form of the paper's ablation.

    FOLDER/train.json, dev.json     records in the official raw form
    FOLDER/shown.json               the first ones of dev.json
    FOLDER/train, dev               the same, ready for training
    FOLDER/structured, flat         the runs; `dev` in each: its evaluation
    FOLDER/answers.html             some answers, in their documents
"""

import dataclasses
import json
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from etc_jax import config as config_lib
from etc_jax.config import flat_items
from etc_jax.configs.quickstart import quickstart_wikihop
from etc_jax.data.array_folder import TOKENIZER
from etc_jax.data.windows.cache import FORMAT, WindowCache, WindowReader
from etc_jax.structure import Rules
from launch.quickstart_runs import LOG, Workdir, finish, say, train

CONFIG = "quickstart_wikihop"
# Name of a run -> variant of the config.
RUNS = {"structured": "", "flat": "flat"}
SHOWN = {"structured": "with structure", "flat": "flat"}
# Each record of training comes up once.
_TRAIN = quickstart_wikihop.get_config().train
COUNTS = {"train": _TRAIN.num_steps * _TRAIN.batch_size, "dev": 512, "shown": 5}
_SEEDS = {"train": 1, "dev": 2, "shown": 2}
_PREPARED = ("train", "dev")
_EVALUATION = "dev"
PAGE = "answers.html"


def fields() -> dict[str, Any]:
    """{dotted path: value} of the config."""
    return flat_items(quickstart_wikihop.get_config().to_dict())


@dataclasses.dataclass(frozen=True)
class Questions:
    """What is done in the second half, and where.

    Attributes:
      folder: for all that comes of it.
      pretraining: the run whose vocabulary is used, ended.
      overrides: further arguments of both training commands.
    """

    folder: pathlib.Path
    pretraining: Workdir
    overrides: Sequence[str] = ()

    def run(self) -> None:
        """Does what is not done yet.

        Raises:
          QuickstartError: if a command fails.
          KeyboardInterrupt: if the user stops it; the next call goes on from there.
        """
        self.folder.mkdir(exist_ok=True)
        for split in _SEEDS:
            if not self.raw(split).exists():
                self._finish(self._make_up(split), f"making up questions, {split}")
        for split in _PREPARED:
            if not FORMAT.is_at(self.cache(split)):
                self._finish(self._prepare(split), f"preparing questions, {split}")
        for name in RUNS:
            if self.scores(name) is not None:
                continue
            if not self.workdir(name).all_steps_saved():
                say(f"learning to answer questions, {name}")
                train(
                    self._train(name),
                    self.workdir(name),
                    name=f"questions, {name}",
                    log=self._log,
                )
            self._finish(self._evaluate(name), f"evaluating on new questions, {name}")
        if not self.page.exists():
            self._finish(self._predict(), f"writing {PAGE}")

    def raw(self, split: str) -> pathlib.Path:
        """File of the records of "train", "dev" or "shown"."""
        return self.folder / f"{split}.json"

    def cache(self, split: str) -> pathlib.Path:
        """The same, ready for training."""
        return self.folder / split

    def workdir(self, name: str) -> Workdir:
        """Of a run, by its name in `RUNS`."""
        return Workdir(self.folder / name)

    @property
    def page(self) -> pathlib.Path:
        """Answers of the model with structure, in their documents."""
        return self.folder / PAGE

    def records(self) -> list[dict[str, Any]]:
        """The questions that are on the page."""
        return json.loads(self.raw("shown").read_text("utf-8"))

    def scores(self, name: str) -> dict[str, Any] | None:
        """What the evaluation of a run found; None before its end."""
        return self._read(name, "scores.json")

    def accuracy(self, name: str) -> float:
        """The share of right answers of a run, by the official metric."""
        return self.scores(name)["metrics"]["accuracy"]

    def predictions(self, name: str) -> dict[str, str]:
        """What a run answers, by the id of a record."""
        return self._read(name, "predictions.json")

    def example(self, name: str) -> dict[str, Any]:
        """The first question for evaluation as a run's model gets it, batch of 1."""
        data = config_lib.from_config_dict(self.workdir(name).config()).data
        cache = WindowCache.open(self.cache("dev"))
        reader = WindowReader(
            [cache],
            lengths=cache.schema.lengths_of(data),
            batch_size=1,
            seed=0,
            evaluation=True,
            flat=data.flat,
        )
        return reader.batch_at(0)

    def rules(self, name: str) -> Rules:
        """By which a run's model reads structure."""
        return config_lib.from_config_dict(self.workdir(name).config()).model.rules

    def commands(self) -> list[list[str]]:
        """All commands of this half, in their order."""
        made = [self._make_up(split) for split in _SEEDS]
        made += [self._prepare(split) for split in _PREPARED]
        made += [f(name) for name in RUNS for f in (self._train, self._evaluate)]
        return [*made, self._predict()]

    def _read(self, name: str, file: str) -> dict[str, Any] | None:
        path = self.folder / name / _EVALUATION / file
        return json.loads(path.read_text("utf-8")) if path.exists() else None

    @property
    def _log(self) -> pathlib.Path:
        return self.folder / LOG

    def _finish(self, command: list[str], name: str) -> None:
        finish(command, name=name, log=self._log)

    def _make_up(self, split: str) -> list[str]:
        return [
            *_command("synthetic"),
            "--task=teachers",
            f"--count={COUNTS[split]}",
            f"--seed={_SEEDS[split]}",
            f"--out={self.raw(split)}",
        ]

    def _prepare(self, split: str) -> list[str]:
        data = quickstart_wikihop.get_config().data
        return [
            *_command("prepare"),
            "--task=wikihop",
            f"--tokenizer={self.pretraining.folder / TOKENIZER}",
            f"--out={self.cache(split)}",
            f"--long_length={data.long_length}",
            f"--global_length={data.global_length}",
            "--workers=0",
            str(self.raw(split)),
        ]

    def _train(self, name: str) -> list[str]:
        values = {
            "data.paths": (str(self.cache("train")),),
            "data.validation_paths": (str(self.cache("dev")),),
        }
        vocab_size = self.pretraining.config()["data"]["vocab_size"]
        if vocab_size != fields()["data.vocab_size"]:
            values |= {"data.vocab_size": vocab_size, "model.vocab_size": vocab_size}
        return [
            *_command("train"),
            f"--config={CONFIG}:{RUNS[name]}".removesuffix(":"),
            f"--workdir={self.folder / name}",
            *(f"--config.{path}={value}" for path, value in values.items()),
            *self.overrides,
        ]

    def _evaluate(self, name: str) -> list[str]:
        return [
            *_command("evaluate"),
            f"--model={self.folder / name}",
            f"--out={self.folder / name / _EVALUATION}",
            "--workers=0",
            str(self.raw("dev")),
        ]

    def _predict(self) -> list[str]:
        return [
            *_command("predict"),
            f"--model={self.folder / 'structured'}",
            f"--html={self.page}",
            str(self.raw("shown")),
        ]


def _command(name: str) -> list[str]:
    return [sys.executable, "-m", "etc_jax", name]
