"""Floors on both sides of their limits."""

import dataclasses
import itertools

import numpy as np
import pytest

from benchmarks.kit import beside_transformers
from benchmarks.kit.harness import Side


@dataclasses.dataclass
class Sizes:
    length: int


@pytest.mark.parametrize("slow, holds", [(2.0, True), (1.9, False)])
def test_the_floor_of_time_is_the_ratio_of_the_medians(slow, holds):
    # Of a side's beginning and end in turn.
    pairs = itertools.cycle((5.0, 1.0, 5.0, slow))
    # The round that is not timed has beginnings alone.
    ticks = itertools.accumulate(itertools.chain((0.0, 0.0), pairs))
    arrays = {"loss": np.ones(())}
    sides = [
        Side("etc_jax", lambda: None, lambda _: arrays),
        Side("transformers", lambda: None, lambda _: arrays, lambda: arrays),
    ]
    rows, floor = beside_transformers.times(
        "a step",
        sides,
        rounds=3,
        tolerance=1e-6,
        faster=2.0,
        clock=lambda: next(ticks),
        pause_secs=0.0,
    )
    assert [row["name"] for row in rows] == list(beside_transformers.SIDES)
    assert floor.got == pytest.approx(slow) and floor.holds == holds
    assert floor.name == "a step: times faster than transformers"


@pytest.mark.parametrize("share, holds", [(0.7, True), (0.71, False)])
def test_the_floor_of_memory_is_a_share_of_the_other_s(share, holds, monkeypatch):
    def measure(builder, given):
        assert (builder, given["sizes"]) == ("a:builder", {"length": 7})
        return {"peak_bytes": 1000 * (share if given["name"] == "etc_jax" else 1)}

    monkeypatch.setattr(beside_transformers.memory, "measure", measure)
    found, [floor] = beside_transformers.peaks(
        "a step", "a:builder", Sizes(7), smaller=0.7
    )
    assert list(found) == list(beside_transformers.SIDES)
    assert floor.got == share and floor.holds == holds


def test_the_call_whose_memory_is_measured_may_be_timed(monkeypatch):
    def measure(builder, given):
        own = given["name"] == "etc_jax"
        return {"peak_bytes": 1000, "call_seconds": 2.0 if own else 3.0}

    monkeypatch.setattr(beside_transformers.memory, "measure", measure)
    _, floors = beside_transformers.peaks(
        "a step", "a:builder", Sizes(7), smaller=1.0, faster=1.6
    )
    assert [(floor.got, floor.holds) for floor in floors] == [(1.0, True), (1.5, False)]
