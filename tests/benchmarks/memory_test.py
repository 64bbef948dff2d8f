"""Peak memory of a call, measured on calls whose need is known."""

import pytest

from benchmarks import memory
from benchmarks.memory import MIB


@pytest.mark.parametrize("mebibytes", [50, 200])
def test_a_known_allocation_is_measured(mebibytes):
    got = memory.measure("benchmarks.memory:touch", {"mebibytes": mebibytes})
    assert got["peak_bytes"] == pytest.approx(mebibytes * MIB, rel=0.15)


def test_what_was_there_before_and_what_is_freed_do_not_count():
    held = bytearray(120 * MIB)
    freed = bytearray(120 * MIB)
    del freed
    got = memory.peak_of_call(lambda: len(bytearray(60 * MIB)))
    assert got == pytest.approx(60 * MIB, rel=0.15)
    assert len(held) == 120 * MIB


def test_memory_of_the_first_call_alone_does_not_count():
    calls = []

    def run():
        calls.append(len(bytearray((300 if not calls else 60) * MIB)))

    assert memory.peak_of_call(run) == pytest.approx(60 * MIB, rel=0.15)
    assert calls == [300 * MIB, 60 * MIB]


def test_a_failing_side_is_an_error_with_its_message():
    with pytest.raises(RuntimeError, match="unexpected keyword argument 'nonsense'"):
        memory.measure("benchmarks.memory:touch", {"nonsense": 1})
