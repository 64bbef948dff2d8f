"""Makes the parts of an evaluation: records in, predictions out, devices kept busy."""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import tqdm

from etc_jax.base import cores
from etc_jax.data.workers import AHEAD_PER_WORKER, WorkerReader
from etc_jax.prediction.answer_parts import Answer, Parts
from etc_jax.prediction.inputs import Input, RecordReader
from etc_jax.prediction.record_stream import through_model
from etc_jax.prediction.runner import Runner
from etc_jax.training.errors import UserError
from etc_jax.training.prefetch import Prefetcher

# Of a step of reading. Few: a record may have hundreds of windows, all of them held.
RECORDS_A_STEP = 4
AHEAD_STEPS = 16
# Starting processes takes seconds; below so many records this one is as quick.
FEW_RECORDS = 200
MOST_WORKERS = 8
LINE_EVERY_SECS = 30.0
LEAST_SECS = 1.0


def steps_of(parts: Parts, part_numbers: Sequence[int]) -> list[list[int]]:
    """The records of some parts, a few a step, whose borders are not those of parts."""
    return in_steps([n for part in part_numbers for n in parts.numbers(part)])


def in_steps(numbers: Sequence[int]) -> list[list[int]]:
    """Numbers of records, a few a step."""
    starts = range(0, len(numbers), RECORDS_A_STEP)
    return [[*numbers[i : i + RECORDS_A_STEP]] for i in starts]


def workers_for(records: int, asked: int | None) -> int:
    """Processes that make inputs; 0: a thread of this one.

    Raises:
      UserError: if `asked` is below 0.
    """
    if asked is not None and asked < 0:
        raise UserError(f"--workers is {asked}; expected 0 or more")
    if asked is not None:
        return asked
    if records < FEW_RECORDS:
        return 0
    return max(0, min(MOST_WORKERS, cores.available() - 1))


@contextlib.contextmanager
def made_ahead(
    reader: RecordReader, steps: int, workers: int
) -> Iterator[Iterator[Input]]:
    """The inputs of all steps of a reader, in order, made ahead of being asked for."""
    if workers:
        ahead = max(AHEAD_STEPS, AHEAD_PER_WORKER * workers)
        with WorkerReader(reader, num_workers=workers, ahead=ahead) as reading:
            yield (x for step in range(steps) for x in reading.batch_at(step))
    else:
        ahead = {"start": 0, "stop": steps, "ahead": AHEAD_STEPS}
        with Prefetcher(reader.batch_at, **ahead) as reading:
            yield (x for step in range(steps) for x in reading.get(step))


def make_parts(
    parts: Parts,
    part_numbers: Sequence[int],
    inputs: Iterator[Input],
    runner: Runner,
    task: Any,
    settings: Sequence[Any],
) -> None:
    """Writes the parts `part_numbers`, each as soon as its records are done.

    Args:
      parts: of the evaluation.
      part_numbers: numbers of the parts, ascending.
      inputs: of the records of these parts, in order.
      runner: of the model.
      task: see `etc_jax.datasets.task.Task`.
      settings: of decoding.
    """
    writer = _Writer(parts, part_numbers)
    read_fn = functools.partial(_decode, task, settings)
    with RecordProgress(
        sum(len(parts.numbers(part)) for part in part_numbers)
    ) as progress:
        for record in through_model(inputs, runner, read_fn):
            predictions = [task.no_answer] * len(settings)
            if record.windows:
                predictions = task.predictions(record.windows)
            cut = dict(record.cut) or None
            writer.add(Answer(record.id, predictions, record.problem, cut))
            progress.advance(1)


def _decode(task: Any, settings: Sequence[Any], outputs: Any, windows: Sequence[Any]):
    return task.decode(outputs, windows, settings)


class _Writer:
    """Takes answers in order and writes each part that is complete."""

    def __init__(self, parts: Parts, part_numbers: Sequence[int]):
        self._parts, self._left = parts, list(part_numbers)
        self._answers: list[Answer] = []

    def add(self, answer: Answer) -> None:
        self._answers.append(answer)
        if len(self._answers) == len(self._parts.numbers(self._left[0])):
            self._parts.write(self._left.pop(0), self._answers)
            self._answers = []


class RecordProgress(contextlib.AbstractContextManager):
    """Records done, their rate and the time left: a bar on a terminal, else lines."""

    def __init__(self, total: int):
        self._total, self._done = total, 0
        self._told = time.monotonic()
        # The first batch waits for the compiler, which says nothing about the others.
        self._first: tuple[float, int] | None = None
        self._bar = None
        if sys.stderr.isatty():
            self._bar = tqdm.tqdm(total=total, unit=" records", smoothing=0.05)

    def advance(self, count: int) -> None:
        """So many more are done."""
        self._done += count
        if self._first is None:
            self._first = (time.monotonic(), self._done)
        if self._bar is not None:
            self._bar.update(count)
        elif (
            time.monotonic() - self._told > LINE_EVERY_SECS or self._done == self._total
        ):
            self._told = time.monotonic()
            print(self._line(), file=sys.stderr, flush=True)

    def _line(self) -> str:
        began, first_count = self._first
        line = f"{self._done}/{self._total} records"
        elapsed = time.monotonic() - began
        # Records of one batch come at once, which is no rate.
        if self._done == first_count or elapsed < LEAST_SECS:
            return line
        rate = (self._done - first_count) / elapsed
        left = tqdm.tqdm.format_interval((self._total - self._done) / rate)
        return f"{line}, {rate:.3g}/s, {left} left"

    def __exit__(self, *exc) -> None:
        if self._bar is not None:
            self._bar.close()
