"""One test for each golden case under the folder given by --goldens."""

import golden_cases
import pytest

from scoring.goldens import KINDS, Golden, find_goldens
from scoring.runners import RUNNERS

TOLERANCE = 1e-9


def pytest_generate_tests(metafunc):
    golden_cases.parametrize(
        metafunc,
        "golden",
        option="--goldens",
        given=metafunc.config.getoption("goldens"),
        part="data/metric_goldens",
        find_fn=find_goldens,
    )


def _run(golden: Golden) -> float:
    if golden.problem:
        pytest.fail(golden.problem)
    if len(golden.kinds) != 1:
        fields = golden.description
        fields = sorted(fields) if isinstance(fields, dict) else type(fields).__name__
        pytest.fail(
            f"{golden.name} must be of one known kind, got {golden.kinds}; its fields "
            f"are {fields}, known are {sorted(KINDS)}"
        )
    (kind,) = golden.kinds
    return RUNNERS[kind](golden.description)


def test_golden_case(golden, request, record_property):
    """The largest difference from the official figures is within the tolerance."""
    golden_cases.require(golden, request.config.getoption("goldens"))
    difference = _run(golden)
    record_property("score_difference", difference)
    assert difference <= TOLERANCE


def test_every_kind_has_a_runner():
    assert RUNNERS.keys() == set(KINDS)
