"""Statistics, interleaving and refusal of wrong sides, on sides with known times."""

import math

import numpy as np
import pytest

from benchmarks.kit import harness, report
from benchmarks.kit.harness import Floor, Side, WrongSideError


class FakeMachine:
    """A clock that moves only when a side runs; remembers the order."""

    def __init__(self):
        self.now = 0.0
        self.order = []

    def side(self, name, seconds, *, value=1.0, want=None):
        durations = iter(seconds)

        def run():
            self.order.append(name)
            self.now += next(durations)
            return value

        oracle = None if want is None else (lambda: {"output": np.array([want])})
        return Side(name, run, lambda x: {"output": np.array([x])}, oracle)

    def compare(self, *sides, rounds, reference="a"):
        return harness.compare(
            sides,
            reference=reference,
            rounds=rounds,
            tolerance=1e-3,
            clock=lambda: self.now,
            pause_secs=0,
        )


def test_medians_and_ratios_of_known_times():
    machine = FakeMachine()
    # One check and one warm-up come first; they are slow and must not count.
    a = machine.side("a", [100, 100, 2, 1, 3, 2, 2])
    b = machine.side("b", [100, 100, 6, 8, 8, 9, 8])
    first, second = machine.compare(a, b, rounds=5)
    assert first.times == (2, 1, 3, 2, 2)
    assert (first.median, first.minimum, first.ratio) == (2, 1, 1)
    assert first.ratio_interval == (1, 1)
    assert (second.median, second.minimum, second.ratio) == (8, 6, 4)
    assert second.interquartile_range == 0
    assert 8 / 3 <= second.ratio_interval[0] <= 4 <= second.ratio_interval[1] <= 9


def test_sides_run_in_turn():
    machine = FakeMachine()
    sides = [machine.side(name, [1] * 9) for name in "abc"]
    machine.compare(*sides, rounds=3)
    checks, rounds = machine.order[:3], machine.order[3:]
    assert checks == list("abc")
    assert rounds == list("abc") * 4


def test_a_wrong_side_is_refused_before_anything_is_timed():
    machine = FakeMachine()
    right = machine.side("a", [1] * 9, value=2.0, want=2.0)
    wrong = machine.side("b", [1] * 9, value=2.1, want=2.0)
    with pytest.raises(WrongSideError, match="b: output differs .* 5.00e-02"):
        machine.compare(right, wrong, rounds=3)
    assert machine.order == ["a", "b"]


def test_the_error_of_a_right_side_is_reported():
    machine = FakeMachine()
    near = machine.side("a", [1] * 9, value=2.0001, want=2.0)
    free = machine.side("b", [1] * 9)
    first, second = machine.compare(near, free, rounds=2)
    assert first.error == pytest.approx(5e-5, rel=1e-3)
    assert second.error is None


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused_without_an_oracle_too(value):
    machine = FakeMachine()
    with pytest.raises(WrongSideError, match="a: output holds values"):
        machine.compare(machine.side("a", [1] * 9, value=value), rounds=1)


def test_missing_arrays_and_other_shapes_are_refused():
    want = {"output": np.ones(3), "grad": np.ones(2)}
    missing = Side("m", lambda: None, lambda _: {"output": np.ones(3)}, lambda: want)
    with pytest.raises(WrongSideError, match="m: gives arrays .'output'., expected"):
        harness.check(missing, tolerance=1)
    got = {"output": np.ones(1), "grad": np.ones(2)}
    broadcasts = Side("s", lambda: None, lambda _: got, lambda: want)
    with pytest.raises(WrongSideError, match=r"output has shape \(1,\), expected"):
        harness.check(broadcasts, tolerance=1)


def test_errors_are_scaled_by_each_array_alone():
    want = {"large": np.array([1e6]), "small": np.array([1e-3])}
    got = {"large": np.array([1e6 + 1]), "small": np.array([2e-3])}
    side = Side("s", lambda: None, lambda _: got, lambda: want)
    with pytest.raises(WrongSideError, match="small differs"):
        harness.check(side, tolerance=0.5)
    assert harness.check(side, tolerance=1.1) == pytest.approx(1.0)


def test_unknown_reference_no_rounds_and_equal_names_are_refused():
    machine = FakeMachine()
    side = machine.side("a", [1] * 9)
    with pytest.raises(ValueError, match="reference 'z' is not among the sides"):
        machine.compare(side, rounds=1, reference="z")
    with pytest.raises(ValueError, match="rounds must be at least 1, got 0"):
        machine.compare(side, rounds=0)
    with pytest.raises(ValueError, match="two sides share a name"):
        machine.compare(side, side, rounds=1)


def test_ratio_interval_covers_the_true_ratio_as_often_as_it_says():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(20):
        a, b = rng.lognormal(0, 0.1, 25), 2 * rng.lognormal(0, 0.1, 25)
        low, high = harness.ratio_interval(b, a)
        assert low < np.median(b) / np.median(a) < high
        covered += low < 2 < high
    assert covered >= 16


@pytest.mark.parametrize("power", [1.0, 1.5, 2.0])
def test_exponent_of_a_power_law(power):
    lengths = np.array([2048, 4096, 8192, 16384])
    assert harness.exponent(lengths, 3 * lengths**power) == pytest.approx(power)


@pytest.mark.parametrize(
    "got, at_most, holds",
    [(1.9, True, True), (2.0, True, True), (2.1, True, False)]
    + [(1.9, False, False), (2.0, False, True), (2.1, False, True)]
    + [(math.nan, True, False), (math.nan, False, False)],
)
def test_a_metric_is_on_the_right_side_of_its_limit(got, at_most, holds):
    floor = Floor("metric", got, 2.0, at_most)
    assert floor.holds is holds
    assert report.floor_rows([floor])[0]["holds"] is holds
    assert ("FAILS" in report.floors_table([floor])) is not holds
