"""Windows of any number a record, in whole batches, with little held."""

import random
import weakref

import pytest

from etc_jax.prediction.inputs import Input
from etc_jax.prediction.record_stream import ReadRecord, through_model


class Window:
    """A number that can be watched."""

    alive = weakref.WeakSet()

    def __init__(self, number):
        self.number = number
        Window.alive.add(self)


class Runner:
    """Doubles numbers; keeps the sizes of its batches and which are under way."""

    def __init__(self, batch_size):
        self.batch_size, self.sizes, self.begun, self.order = batch_size, [], 0, []

    def start(self, inputs):
        self.sizes.append(len(inputs))
        self.order.append(f"start {len(self.sizes)}")
        return len(self.sizes), [2 * x for x in inputs]

    def fetch(self, pending):
        number, outputs = pending
        self.order.append(f"fetch {number}")
        return outputs


def inputs_of(counts):
    """Records with so many windows each, numbered on; those without have a problem."""
    number = 0
    for record, count in enumerate(counts):
        windows = tuple(Window(number + i) for i in range(count))
        number += count
        problem = None if count else ("too long", str(record))
        yield Input(f"r{record}", windows, problem)


def run(counts, runner, read_fn=None):
    read_fn = read_fn or (lambda outputs, windows: [(x,) for x in outputs])
    numbers = lambda windows: [w.number for w in windows]  # noqa: E731
    return through_model(inputs_of(counts), runner, read_fn, numbers)


def wanted(counts):
    number, records = 0, []
    for record, count in enumerate(counts):
        windows = [(2 * (number + i),) for i in range(count)]
        number += count
        problem = None if count else ("too long", str(record))
        records.append(ReadRecord(f"r{record}", windows, problem))
    return records


@pytest.mark.parametrize("batch_size", [1, 2, 3, 8])
@pytest.mark.parametrize("seed", range(4))
def test_each_record_gets_its_own_windows_in_whole_batches(batch_size, seed):
    rng = random.Random(seed)
    counts = [rng.choice([0, 0, 1, 1, 2, 5, 17]) for _ in range(30)]
    runner = Runner(batch_size)
    assert list(run(counts, runner)) == wanted(counts)
    *whole, last = runner.sizes
    assert set(whole) <= {batch_size} and 1 <= last <= batch_size
    assert sum(runner.sizes) == sum(counts)


@pytest.mark.parametrize("counts", [[], [0, 0, 0]])
def test_without_windows_nothing_runs(counts):
    runner = Runner(4)
    assert list(run(counts, runner)) == wanted(counts) and runner.sizes == []


def test_the_next_batch_is_begun_before_one_is_read():
    runner = Runner(2)
    list(run([6], runner))
    assert runner.order == [
        *("start 1", "start 2", "fetch 1", "start 3", "fetch 2", "fetch 3")
    ]


def test_a_record_comes_as_soon_as_its_windows_are_done():
    runner = Runner(2)
    records = run([0, 1, 1, 9, 2], runner)
    assert next(records).id == "r0"
    assert [next(records).id, next(records).id] == ["r1", "r2"]
    assert runner.sizes == [2, 2]


class Outputs:
    """Rows that can be watched."""

    alive = weakref.WeakSet()

    def __init__(self, rows):
        self.rows = rows
        Outputs.alive.add(self)


@pytest.mark.parametrize("counts", [[4] * 300, [1200], [1, 599, 0, 600]])
def test_outputs_are_let_go_with_their_batch(counts):
    held = []

    def read(outputs, windows):
        held.append((len(Outputs.alive), len(Window.alive)))
        return outputs.rows

    runner = Runner(4)
    runner.fetch = lambda pending: Outputs(pending[1])
    Window.alive.clear()
    list(run(counts, runner, read))
    outputs, windows = zip(*held, strict=True)
    # One that is read, and the one before it.
    assert len(held) == 300 and max(outputs) <= 2
    # Beside the record that is taken apart: two batches, and the rest of one.
    assert max(windows) <= max(counts) + 3 * runner.batch_size
    assert not Outputs.alive
