"""What the command lines are told about a data set."""

from __future__ import annotations

import dataclasses
import importlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from etc_jax.scoring.result import Scores
from tasks.explained import Explained
from tasks.multihop import Sizes, Window
from tasks.records import Note, Problems

NAMES = ("hotpotqa", "wikihop")

# What a model says about a record, as JSON takes it; of which form, the task knows.
Prediction = Any
# What decoding can be set to: a threshold, or None where there is nothing to choose.
Setting = float | None


@dataclasses.dataclass(frozen=True)
class Task:
    """A data set: `tasks.NAME.TASK`.

    Outputs are those of the model of this name in `etc_jax.objectives.finetuning`, as
    numpy arrays with a row for each window.

    Attributes:
      name: of the data set, and of its objective in a config.
      sizes: lengths of the paper's inputs.
      read: (paths, problems) -> records of official files; see `records.read_records`.
      parse: (JSON value, note) -> one record.
      features: (record, tokenizer, sizes, official_quirks=False) -> its windows.
      inputs: windows -> the batch that a model takes.
      settings: of decoding, to be tried where there are gold answers.
      setting: the one to take where there are none.
      measure: the official figure that a setting is chosen by; higher is better.
      decode: (outputs, windows, settings) -> for each window the prediction of each
        setting.
      no_answer: the prediction for a record that fits into no window.
      official: {record id: prediction} -> what the official prediction file holds.
      gold: record -> what `score` wants of it; None if it has no gold answer.
      score: (gold of records, content of the official file) -> official figures.
      explain: (outputs, windows, setting) -> for each window what a reader wants to
        see.
    """

    name: str
    sizes: Sizes
    read: Callable[[Sequence[str | os.PathLike], Problems | None], Iterator[Any]]
    parse: Callable[[Any, Note], Any]
    features: Callable[..., list[Window]]
    inputs: Callable[[Sequence[Window]], dict[str, Any]]
    settings: tuple[Setting, ...]
    setting: Setting
    measure: str
    decode: Callable[[Any, Sequence[Window], Sequence[Setting]], list[list[Prediction]]]
    no_answer: Prediction
    official: Callable[[Mapping[str, Prediction]], Any]
    gold: Callable[[Any], dict[str, Any] | None]
    score: Callable[[Sequence[Mapping[str, Any]], Any], Scores]
    explain: Callable[[Any, Sequence[Window], Setting], list[Explained]]

    def checked_setting(self, setting: float) -> Setting:
        """A setting that a user has chosen, if decoding takes it.

        Raises:
          ValueError: if it is no probability, or there is nothing to choose.
        """
        if self.setting is None:
            raise ValueError(f"threshold {setting} is given, but {self.name} has none")
        if not 0 <= setting <= 1:
            raise ValueError(f"threshold is {setting}; expected 0 to 1")
        return setting


def find(name: str) -> Task:
    """The data set of a name.

    Raises:
      ValueError: naming those there are.
    """
    if name not in NAMES:
        raise ValueError(f"no task {name!r}; there are: {', '.join(NAMES)}")
    return importlib.import_module(f"tasks.{name}").TASK
