"""Makes the parts of an evaluation: records in, predictions out, devices kept busy."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tqdm

from etc_jax.data.workers import WorkerReader
from etc_jax.prediction.answer_parts import Answer, Parts
from etc_jax.prediction.inputs import Input, RecordReader
from etc_jax.prediction.runner import Pending, Runner
from etc_jax.training.errors import UserError
from etc_jax.training.prefetch import Prefetcher

AHEAD_BATCHES = 4
# Starting processes takes seconds; below so many records this one is as quick.
FEW_RECORDS = 200
MOST_WORKERS = 8
LINE_EVERY_SECS = 30.0


def batches_of(parts: Parts, mine: Sequence[int], size: int) -> list[list[int]]:
    """The records of some parts in batches, whose borders are not those of parts."""
    numbers = [number for part in mine for number in parts.numbers(part)]
    return [numbers[i : i + size] for i in range(0, len(numbers), size)]


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
    return max(0, min(MOST_WORKERS, (os.cpu_count() or 1) - 1))


@contextlib.contextmanager
def made_ahead(
    reader: RecordReader, steps: int, workers: int
) -> Iterator[Callable[[int], list[Input]]]:
    """A function from a step, asked for in order, to its inputs."""
    if workers:
        with WorkerReader(reader, num_workers=workers) as made:
            yield made.batch_at
    else:
        ahead = {"start": 0, "stop": steps, "ahead": AHEAD_BATCHES}
        with Prefetcher(reader.batch_at, **ahead) as made:
            yield made.get


def make_parts(
    parts: Parts,
    mine: Sequence[int],
    batches: Sequence[Sequence[int]],
    inputs_of: Callable[[int], list[Input]],
    runner: Runner,
    task: Any,
    settings: Sequence[Any],
) -> None:
    """Writes the parts `mine`, each as soon as its records are done.

    While the devices work on a batch, the one before it is decoded.

    Args:
      parts: of the evaluation.
      mine: numbers of the parts, ascending.
      batches: of `batches_of`.
      inputs_of: from the number of a batch to its inputs.
      runner: of the model, with batches of at least that size.
      task: see `tasks.task.Task`.
      settings: of decoding.
    """
    writer = _Writer(parts, mine)
    began: tuple[list[Input], Pending | None] | None = None
    with Progress(sum(map(len, batches))) as progress:
        for step in range(len(batches) + 1):
            ready = began
            began = None
            if step < len(batches):
                began = _begin(inputs_of(step), runner, task)
            if ready is not None:
                writer.add(_answers(*ready, runner, task, settings))
                progress.advance(len(ready[0]))


def _begin(inputs: list[Input], runner: Runner, task: Any):
    windows = [x.window for x in inputs if x.window is not None]
    return inputs, runner.start(task.inputs(windows)) if windows else None


def _answers(
    inputs: list[Input], pending: Pending | None, runner: Runner, task: Any, settings
) -> Iterator[Answer]:
    windows = [x.window for x in inputs if x.window is not None]
    found = iter(())
    if pending is not None:
        found = iter(task.decode(runner.fetch(pending), windows, settings))
    for made in inputs:
        if made.window is None:
            yield Answer(made.id, [task.no_answer] * len(settings), made.problem)
        else:
            yield Answer(made.id, next(found), None)


class _Writer:
    """Takes answers in order and writes each part that is complete."""

    def __init__(self, parts: Parts, mine: Sequence[int]):
        self._parts, self._left = parts, list(mine)
        self._answers: list[Answer] = []

    def add(self, answers: Iterator[Answer]) -> None:
        self._answers += answers
        while self._left:
            size = len(self._parts.numbers(self._left[0]))
            if len(self._answers) < size:
                return
            self._parts.write(self._left.pop(0), self._answers[:size])
            del self._answers[:size]


class Progress:
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
        elif time.monotonic() - self._told > LINE_EVERY_SECS or self._is_over():
            self._told = time.monotonic()
            print(self._line(), file=sys.stderr, flush=True)

    def _is_over(self) -> bool:
        return self._done == self._total

    def _line(self) -> str:
        began, first = self._first
        line = f"{self._done}/{self._total} records"
        if self._done == first:
            return line
        rate = (self._done - first) / max(time.monotonic() - began, 1e-9)
        left = tqdm.tqdm.format_interval((self._total - self._done) / rate)
        return f"{line}, {rate:.3g}/s, {left} left"

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exc) -> None:
        if self._bar is not None:
            self._bar.close()
