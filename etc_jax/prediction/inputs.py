"""Records of a data set as inputs, read and made batch by batch."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etc_jax.data.text.cache import TOKENIZER
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.data.windows.window import too_long
from etc_jax.datasets.lengths import Lengths
from etc_jax.datasets.records import BadRecordError, Problems
from etc_jax.datasets.task import Task, find
from etc_jax.training.errors import UserError


def tokenizer_of(saved: bytes) -> Tokenizer:
    """The tokenizer that saved itself as these bytes."""
    return Tokenizer.from_bytes(saved, TOKENIZER)


@dataclasses.dataclass(frozen=True)
class Input:
    """A record, made ready for the model or not.

    Attributes:
      id: of the record.
      windows: in order; () if it cannot be made an input.
      problem: why, as (kind, message); None if there are windows.
      cut: what was too long to be read whole, as "records" or "questions": (tokens, how
        many of them were read).
    """

    id: str
    windows: tuple[Any, ...]
    problem: tuple[str, str] | None = None
    cut: Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)


def make_input(
    task: Task,
    record: Any,
    tokenizer: Tokenizer,
    sizes: Any,
    *,
    official_quirks: bool = False,
) -> Input:
    """The windows of a record.

    Args:
      task: the data set.
      record: of the task.
      tokenizer: of the model.
      sizes: of the task's kind.
      official_quirks: as the data of the model was made; see `etc-jax prepare`.

    Raises:
      ValueError: if the tokenizer is not one for this task.
    """
    try:
        windows = task.features(
            record, tokenizer, sizes, official_quirks=official_quirks
        )
    except BadRecordError as error:
        return Input(record.id, (), (error.kind, error.message))
    cut = dict(windows[0].cut) if windows else {}
    if len(windows) == 1:  # several have all of a record together
        lengths = task.record_length(record, tokenizer), sizes.text_length
        cut |= too_long(records=lengths)
    return Input(record.id, tuple(windows), cut=cut)


def told_of_cuts(cuts: Sequence[Mapping[str, Sequence[int]]]) -> list[str]:
    """A line on each kind of what was cut, of records with these `Input.cut`."""
    rooms = {name: room for cut in cuts for name, (_, room) in cut.items()}
    lines = []
    for name, room in rooms.items():
        lengths = Lengths()
        for cut in cuts:
            # What was read whole is no longer than that.
            lengths.add(cut[name][0] if name in cut else 0)
        lines.append(f"{lengths.beyond(room, name)}; they were cut")
    return lines


class RecordReader:
    """Builds the inputs of any batch of records; see `data.workers.Reader`.

    Asking for batches in order reads the files once.
    """

    def __init__(
        self,
        task: Task,
        paths: Sequence[str],
        *,
        tokenizer_json: bytes,
        lengths: tuple[int, ...],
        batches: Sequence[Sequence[int]],
        official_quirks: bool = False,
    ):
        """Opens nothing yet, so that it can be sent to other processes.

        Args:
          task: the data set with its options.
          paths: of its files.
          tokenizer_json: what the tokenizer of the model saved itself as.
          lengths: of an input, in the order of the sizes of the data set.
          batches: the numbers, ascending, of each batch's records among those of the
            files that can be read.
          official_quirks: see `make_input`.
        """
        # Functions do not travel between processes: names do.
        self._task = (task.name, task.format, task.option_values)
        self._paths = [os.fspath(p) for p in paths]
        self._tokenizer_json, self._lengths = tokenizer_json, lengths
        self._batches, self._quirks = batches, official_quirks
        self._next = 0
        self._stream: Iterator[Any] | None = None

    @functools.cached_property
    def _made_with(self) -> tuple[Task, Tokenizer, Any]:
        name, format, options = self._task
        task = find(name).in_format(format).with_options(options)
        sizes = type(task.sizes)(*self._lengths)
        return task, tokenizer_of(self._tokenizer_json), sizes

    def batch_at(self, step: int, rows: Any = None) -> list[Input]:
        """The inputs of one batch."""
        task, tokenizer, sizes = self._made_with
        return [
            make_input(
                task,
                self._record(number),
                tokenizer,
                sizes,
                official_quirks=self._quirks,
            )
            for number in self._batches[step]
        ]

    def _record(self, number: int) -> Any:
        if self._stream is None or number < self._next:
            task, problems = self._made_with[0], Problems()
            self._stream, self._next = iter(task.read(self._paths, problems)), 0
        for record in self._stream:
            self._next += 1
            if self._next > number:
                return record
        raise UserError(
            f"{', '.join(self._paths)} had a record {number}, and have only "
            f"{self._next} now: they must not change while they are read"
        )
