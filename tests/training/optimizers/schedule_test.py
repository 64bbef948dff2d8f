import numpy as np
import pytest
import toy_job
from hypothesis import given, strategies as hs

from etc_jax.base import registry
from etc_jax.config.sections import ScheduleConfig
from etc_jax.training.optimizers.schedule import make_schedule, polynomial_bert


def schedule(name, *, peak=1.0, steps=10, **changes):
    changes = {f"schedule__{k}": v for k, v in changes.items()}
    changes["train__num_steps"] = max(steps, 12)
    config = toy_job.config(
        schedule__name=name, optimizer__learning_rate=peak, **changes
    ).schedule
    return make_schedule(config, learning_rate=peak, num_steps=steps)


def values(made, *times):
    return [float(made(t)) for t in times]


@pytest.mark.parametrize(
    "name, want",
    [
        ("linear", [0, 0.5, 1, 0.875, 0.75, 0.5, 0]),
        ("constant", [0, 0.5, 1, 1, 1, 1, 1]),
        (
            "inverse_sqrt",
            [0, 0.5, 1, (2 / 3) ** 0.5, 0.5**0.5, (2 / 6) ** 0.5, 0.2**0.5],
        ),
        ("polynomial", [0, 0.5, 1, 0.875, 0.75, 0.5, 0]),
        # From nearly the peak down to (1 - 2 / 10) of it when the warm-up ends.
        ("polynomial_bert", [0, 0.5, 0.8, 0.7, 0.6, 0.4, 0]),
    ],
)
def test_schedules_by_hand(name, want):
    made = schedule(name, warmup_steps=2)
    np.testing.assert_allclose(values(made, 0, 1, 2, 3, 4, 6, 10), want, rtol=1e-6)


@pytest.mark.parametrize("name", list(registry.names("schedule")))
def test_a_warm_up_below_1_is_a_share_of_the_steps(name):
    made, whole = (schedule(name, warmup_steps=x) for x in (0.2, 2))
    np.testing.assert_array_equal(values(made, *range(11)), values(whole, *range(11)))


@pytest.mark.parametrize(
    "share, steps, want",
    [(0.29, 100, 29), (0.1, 12_716, 1271), (0.05, 10, 0), (1, 10, 1), (7.0, 10, 7)],
)
def test_a_share_is_rounded_down(share, steps, want):
    assert ScheduleConfig(warmup_steps=share).warmup(steps) == want


@pytest.mark.parametrize("name", ["linear", "constant", "inverse_sqrt", "polynomial"])
def test_schedules_without_warm_up_begin_at_the_peak(name):
    assert values(schedule(name, peak=0.5, warmup_steps=0), 0) == [0.5]


@pytest.mark.parametrize("name", list(registry.names("schedule")))
@pytest.mark.parametrize("warmup", [0, 2, 0.5])
def test_schedules_of_no_steps_are_numbers(name, warmup):
    made = schedule(name, steps=0, warmup_steps=warmup)
    assert np.isfinite(values(made, 0, 1, 5)).all()


def test_power_and_end_of_a_polynomial():
    made = schedule("polynomial", warmup_steps=2, power=2.0, end_value=0.2)
    want = [1.0, 0.2 + 0.8 * 0.75**2, 0.2 + 0.8 * 0.5**2, 0.2, 0.2]
    np.testing.assert_allclose(values(made, 2, 4, 6, 10, 99), want, rtol=1e-6)


def official(t, *, peak, steps, warmup, power, end, start):
    """The formula of the official code, in float64."""
    if warmup and t - start < warmup:
        return peak * (t - start) / warmup
    return (peak - end) * (1 - min(t, steps) / steps) ** power + end


@given(
    t=hs.integers(0, 60),
    steps=hs.integers(12, 50),
    warmup=hs.integers(0, 12),
    power=hs.sampled_from([0.5, 1.0, 2.0]),
    end=hs.sampled_from([0.0, 0.01]),
    start=hs.sampled_from([0, 3]),
)
def test_the_official_polynomial(t, steps, warmup, power, end, start):
    config = toy_job.config(
        schedule__name="polynomial_bert",
        schedule__warmup_steps=warmup,
        schedule__power=power,
        schedule__end_value=end,
        optimizer__learning_rate=0.05,
        train__num_steps=steps,
    ).schedule
    made = polynomial_bert(config, learning_rate=0.05, num_steps=steps, start=start)
    want = official(
        t, peak=0.05, steps=steps, warmup=warmup, power=power, end=end, start=start
    )
    assert float(made(t)) == pytest.approx(want, rel=2e-6, abs=1e-9)
