"""Windows and decoding of the official code: golden cases."""

import pytest
from conftest import require_shared
from parity import natural_questions_tasks as runners
from parity.cases import find_cases


@pytest.mark.parametrize(
    "kind, run_fn",
    [
        ("NQ window builder", runners.run_windows),
        ("NQ joint decode", runners.run_joint_decode),
    ],
)
def test_official_cases_are_met(kind, run_fn):
    cases = [c for c in find_cases(require_shared("fixtures")) if c.kind == kind]
    assert cases
    for case in cases:
        assert run_fn(case) <= 1e-12, case.name
