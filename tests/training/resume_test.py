"""A stopped and resumed run is the uninterrupted one, bit by bit."""

import dataclasses
import pathlib
import signal

import jax
import numpy as np
import pytest
import toy_job
from training_runs import (
    MESH,
    check_stops,
    lines,
    note_digests,
    signal_self,
    stop_after,
    timeless,
)

from etc_jax.training import errors
from etc_jax.training.loop import Run
from etc_jax.training.run import train_and_evaluate

NUM_EXAMPLES = 40  # 5 steps of 8 rows are an epoch
STEPS_PER_EPOCH = 5
# The first step; between two reports; an epoch's edge; within a step of microbatches;
# a checkpoint; before the end.
STOPS, WITHIN = (1, 3, 5, 7, 8, 11), 7

MODES = {
    "adamw": {},
    "lamb, two microbatches": {
        "train__accumulation_steps": 2,
        "optimizer__name": "lamb",
        "schedule__name": "polynomial",
        "train__log_every_steps": 4,
    },
}


def example_ids(step: int, rows: np.ndarray) -> np.ndarray:
    """The examples of a batch: each epoch has its own order of all of them."""
    epoch, place = divmod(step, STEPS_PER_EPOCH)
    order = np.random.default_rng([11, epoch]).permutation(NUM_EXAMPLES)
    return order[place * 8 + rows]


def epochs_of_rows(seen: dict[int, list[int]]):
    """A `rows_at` that reads a data set of 40 examples; notes what is trained on."""

    def rows_at(c, step, rows):
        if step >= 10**6:  # of the evaluation
            ids = NUM_EXAMPLES + step - 10**6 + rows
        else:
            ids = example_ids(step, rows)
            seen[step] = ids.tolist()
        tokens = (7 * ids[:, None] + 3 * np.arange(c.length)[None]) % c.vocab_size
        scale = np.ones(len(rows), np.float32)
        return {"tokens": tokens.astype(np.int32), "scale": scale}

    return rows_at


@dataclasses.dataclass
class Reference:
    """An uninterrupted run."""

    folder: pathlib.Path
    config: object
    digests: dict[int, str]
    seen: dict[int, list[int]]


@pytest.fixture(scope="module", params=MODES)
def reference(request, tmp_path_factory):
    changes = {
        **MESH,
        "train__batch_size": 8,
        "train__check_batches": 1,
        **MODES[request.param],
    }
    config, seen, digests = toy_job.config(**changes), {}, {}
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(toy_job, "rows_at", epochs_of_rows(seen))
        note_digests(patch, digests)
        train_and_evaluate(config, folder)
    return Reference(folder, config, digests, seen)


def stop_within(monkeypatch, stop):
    """The signal comes while this step runs, which ends whole all the same."""
    one_step = Run._one_step

    def signal_then_step(self):
        if self._step == stop - 1:
            signal_self()
        one_step(self)

    monkeypatch.setattr(Run, "_one_step", signal_then_step)


@pytest.mark.full(but=["adamw"])
def test_resume_is_bitwise_equal(reference, tmp_path, monkeypatch):
    """One run with all these stops, against one without, at every step."""
    before = signal.getsignal(signal.SIGTERM)
    seen, digests, start = {}, {}, 0
    monkeypatch.setattr(toy_job, "rows_at", epochs_of_rows(seen))
    for stop in STOPS:
        with monkeypatch.context() as patch:
            note_digests(patch, digests)
            (stop_within if stop == WITHIN else stop_after)(patch, stop)
            stopped = train_and_evaluate(reference.config, tmp_path)
        assert (stopped.exit_code, stopped.step) == (errors.PREEMPTED, stop)
        assert int(jax.device_get(stopped.state.step)) == stop
        assert signal.getsignal(signal.SIGTERM) is before
        # The first batch is looked at again; some are read ahead.
        assert min(set(seen) - {0} | {stop}) >= start and {*range(start, stop)} <= set(
            seen
        )
        assert all(reference.seen[step] == ids for step, ids in seen.items())
        seen.clear()
        start = stop
    with monkeypatch.context() as patch:
        note_digests(patch, digests)
        result = train_and_evaluate(reference.config, tmp_path)
    assert result.exit_code == errors.DONE
    assert digests == reference.digests and len(digests) == 12
    assert toy_job.digest(result.state) == reference.digests[12]
    assert timeless(tmp_path) == timeless(reference.folder)
    assert sorted(seen) == sorted({0, *range(start, 12)})
    assert all(reference.seen[step] == ids for step, ids in seen.items())


def test_the_reference_run_is_worth_comparing_with(reference):
    train = lines(reference.folder, "train")
    assert train[-1]["loss"] < train[0]["loss"]
    for epoch in range(2):
        steps = range(epoch * STEPS_PER_EPOCH, (epoch + 1) * STEPS_PER_EPOCH)
        ids = [i for step in steps for i in reference.seen[step]]
        assert sorted(ids) == list(range(NUM_EXAMPLES))
    assert len(train) == 12 // reference.config.train.log_every_steps


MANY_STEPS, MANY_STOPS = 60, 20
TOPOLOGIES = {
    "data, fsdp, tensor": MESH,
    "data": {},
}


@pytest.mark.full
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_twenty_stops_change_no_bit_of_any_step(topology, tmp_path):
    """One run with a stop at each of 20 random steps, against one without."""
    config = toy_job.config(**TOPOLOGIES[topology], train__num_steps=MANY_STEPS)
    rng = np.random.default_rng(4)
    stops = sorted(rng.choice(np.arange(1, MANY_STEPS), MANY_STOPS, replace=False))
    check_stops(config, tmp_path, map(int, stops))
    print(f"{topology}: {len(stops)} of {len(stops)} stops bitwise equal")
