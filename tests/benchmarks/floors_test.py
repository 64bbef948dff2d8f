"""Limits of figures: which side of them holds, and what is said."""

import math

import pytest

from benchmarks import floors
from benchmarks.floors import Floor


@pytest.mark.parametrize(
    "got, at_most, holds",
    [(1.9, True, True), (2.0, True, True), (2.1, True, False)]
    + [(1.9, False, False), (2.0, False, True), (2.1, False, True)]
    + [(math.nan, True, False), (math.nan, False, False)],
)
def test_a_figure_is_on_the_right_side_of_its_limit(got, at_most, holds):
    floor = Floor("figure", got, 2.0, at_most)
    assert floor.holds is holds
    assert floors.rows([floor])[0]["holds"] is holds
    assert floors.exit_code([floor]) == (0 if holds else 1)
    assert ("FAILS" in floors.table([floor])) is not holds


def test_one_that_fails_is_enough():
    good = Floor("good", 1.0, 2.0, at_most=True)
    assert floors.exit_code([]) == floors.exit_code([good]) == 0
    assert floors.exit_code([good, Floor("bad", 1.0, 2.0, at_most=False)]) == 1
