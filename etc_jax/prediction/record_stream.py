"""Records through a model in whole batches of windows, however many each record has."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from etc_jax.data.schema import stacked
from etc_jax.prediction.inputs import Input
from etc_jax.prediction.runner import Runner


class ReadRecord(NamedTuple):
    """A record that went through the model.

    Attributes:
      id: of the record.
      windows: what was read off the outputs for each of its windows, in order; [] if
        it had none.
      problem: why not, as (kind, message); None if it had windows.
      cut: see `Input`.
    """

    id: str
    windows: list[Any]
    problem: tuple[str, str] | None
    cut: Mapping[str, tuple[int, int]] = MappingProxyType({})


def through_model(
    inputs: Iterable[Input],
    runner: Runner,
    read_fn: Callable[[Any, Sequence[Any]], Sequence[Any]],
    inputs_fn: Callable[[Sequence[Any]], dict[str, Any]] = stacked,
) -> Iterator[ReadRecord]:
    """Records in order, each as soon as its last window is done.

    A batch is full whatever records its windows are of. What is kept until a record is
    complete is what `read_fn` has made: outputs are let go with their batch. While the
    devices work on a batch, the one before it is read.

    Args:
      inputs: records; taken a few at a time.
      runner: of the model.
      read_fn: (outputs, windows) -> what is wanted of each window.
      inputs_fn: windows -> the batch that the model takes.
    """
    # (number of its windows, the record without them) of those that are not done.
    waiting: collections.deque[tuple[int, ReadRecord]] = collections.deque()
    read: collections.deque[Any] = collections.deque()

    def windows() -> Iterator[Any]:
        for record in inputs:
            empty = ReadRecord(record.id, [], record.problem, record.cut)
            waiting.append((len(record.windows), empty))
            yield from record.windows

    def complete() -> Iterator[ReadRecord]:
        while waiting and waiting[0][0] <= len(read):
            count, record = waiting.popleft()
            yield record._replace(windows=[read.popleft() for _ in range(count)])

    for batch, outputs in _computed(windows(), runner, inputs_fn):
        read += read_fn(outputs, batch)
        yield from complete()
    yield from complete()  # without a window at the end


def _computed(
    windows: Iterator[Any], runner: Runner, inputs_fn: Callable
) -> Iterator[tuple[list[Any], Any]]:
    """(windows, outputs) of each batch, with the next one begun."""
    began = None
    while batch := list(itertools.islice(windows, runner.batch_size)):
        # Started before the last batch is fetched, so that the device never waits.
        now = batch, runner.start(inputs_fn(batch))
        if began is not None:
            yield began[0], runner.fetch(began[1])
        began = now
    if began is not None:
        yield began[0], runner.fetch(began[1])
