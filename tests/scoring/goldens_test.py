"""One test for each golden case under the folder given by --goldens."""

import os
import pathlib

import pytest
from conftest import shared_folder

from scoring.goldens import KINDS, Golden, find_goldens
from scoring.runners import NOT_BUILT, RUNNERS

TOLERANCE = 1e-9


class NotBuiltError(NotImplementedError):
    """The data set of a golden case does not exist here yet."""


def _folder(config) -> tuple[pathlib.Path | None, str]:
    """(folder of the cases or None, why there is none)."""
    if given := config.getoption("goldens"):
        folder = config.invocation_params.dir / given
        return (folder, "") if folder.is_dir() else (None, f"no folder {folder}")
    folder = shared_folder() / "data/metric_goldens"
    if folder.is_dir():
        return folder, ""
    return None, f"golden data not found: {folder} (give --goldens or ETC_JAX_SHARED)"


def pytest_generate_tests(metafunc):
    if "golden" not in metafunc.fixturenames:
        return
    folder, problem = _folder(metafunc.config)
    goldens = find_goldens(folder) if folder else []
    if folder and not goldens:
        problem = f"no golden case under {folder}"
    if problem:
        metafunc.parametrize("golden", [problem], ids=["no golden data"])
        return
    metafunc.parametrize("golden", [_param(golden) for golden in goldens])


def _param(golden: Golden):
    marks = []
    if len(golden.kinds) == 1 and golden.kinds[0] in NOT_BUILT:
        reason = f"not built yet: {golden.kinds[0]}"
        marks = [pytest.mark.xfail(strict=True, raises=NotBuiltError, reason=reason)]
    return pytest.param(golden, id=golden.name, marks=marks)


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
    if kind in NOT_BUILT:
        raise NotBuiltError(kind)
    return RUNNERS[kind](golden.description)


def test_golden_case(golden, request, record_property):
    """The largest difference from the official figures is within the tolerance."""
    if isinstance(golden, str):
        asked = request.config.getoption("goldens")
        if asked or os.environ.get("ETC_JAX_REQUIRE_SHARED") == "1":
            pytest.fail(golden)
        pytest.skip(golden)
    difference = _run(golden)
    record_property("score_difference", difference)
    assert difference <= TOLERANCE


def test_a_kind_is_either_built_or_listed_as_not_built():
    assert not NOT_BUILT & set(RUNNERS)
    assert NOT_BUILT | set(RUNNERS) == set(KINDS)
