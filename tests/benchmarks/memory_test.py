"""Peaks of processes and of calls, on amounts that are known."""

import pathlib
import subprocess
import sys
import time
import types

import jax
import pytest

from benchmarks.kit import memory
from benchmarks.kit.memory import MIB, Growth

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="looks at processes in /proc"
)


def holding(mebibytes: int, then: str) -> list[str]:
    """A process that takes so much, lets it go, and goes on."""
    return [sys.executable, "-c", f"len(bytearray({mebibytes * MIB})); {then}"]


def test_peaks_are_those_of_a_process_and_of_all_below_it():
    wait = "import sys; print(flush=True); sys.stdin.read()"
    grandchild = holding(70, wait)
    start = f"import subprocess; subprocess.run({grandchild!r})"
    with subprocess.Popen(
        holding(150, start), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()  # all is let go again
        found = memory.peaks(str(process.pid))
        process.stdin.close()
    assert found.pop(str(process.pid)) == pytest.approx(160 * MIB, rel=0.1)
    [peak] = found.values()
    assert peak == pytest.approx(80 * MIB, rel=0.1)


def test_a_process_that_has_ended_has_none():
    process = subprocess.Popen([sys.executable, "-c", ""])
    try:
        end = time.monotonic() + 60
        status = pathlib.Path(f"/proc/{process.pid}/status")
        while "\nState:\tZ" not in status.read_text():
            assert time.monotonic() < end
            time.sleep(0.01)
        assert memory.peaks(str(process.pid)) == {}
    finally:
        process.wait()
    assert memory.peaks(str(process.pid)) == {}


def test_an_earlier_peak_of_this_process_does_not_count():
    len(bytearray(200 * MIB))
    before = memory.peaks()["self"]
    memory.clear_own_peak()
    assert memory.peaks()["self"] < before - 100 * MIB
    len(bytearray(200 * MIB))
    assert memory.peaks()["self"] == pytest.approx(before, rel=0.1)


def test_growth_is_from_a_tenth_to_the_end():
    growth = Growth()
    for share, found in (
        (0.05, {"1": 100}),
        (0.12, {"1": 200, "2": 50}),
        (0.5, {"1": 300, "2": 50, "3": 7}),
        (0.9, {"1": 350}),  # the others have ended
    ):
        growth.note(share, found)
    assert growth.early == {"1": 200, "2": 50}
    assert (growth.by_a_tenth, growth.by_the_end) == (257, 407)
    assert growth.growth == pytest.approx(407 / 257 - 1)


def test_a_command_is_watched_to_its_end(tmp_path):
    shown = tmp_path / "shown"
    script = f"""
import time
for share, size in ((0.0, 10), (0.2, 40), (0.5, 40), (1.0, 120)):
    held = bytearray(size * {MIB})
    with open({str(shown)!r}, "w") as file:
        file.write(str(share))
    time.sleep(0.4)
"""

    def done() -> float:
        return float(shown.read_text() or 0) if shown.exists() else 0.0

    seen = memory.watch([sys.executable, "-c", script], done)
    # 40 beside the 10 or 40 before it; 120 beside 40.
    assert seen.growth.by_a_tenth == pytest.approx(60 * MIB, rel=0.2)
    assert seen.growth.by_the_end == pytest.approx(170 * MIB, rel=0.1)
    assert seen.share == 0.8 and 0.8 < seen.secs < 60


@pytest.mark.parametrize("code, done", [(3, 0.5), (0, 0.0)])
def test_a_command_that_fails_or_does_nothing_is_an_error(code, done):
    command = [sys.executable, "-c", f"import time; time.sleep(0.3); exit({code})"]
    with pytest.raises(RuntimeError, match=f"ended with code {code} and {done:.0%}"):
        memory.watch(command, lambda: done)


# --- one call -------------------------------------------------------------------------


@pytest.mark.parametrize("mebibytes", [50, 200])
def test_a_known_allocation_is_measured(mebibytes):
    got = memory.measure(memory.Known, mebibytes)
    assert got["peak_bytes"] == pytest.approx(mebibytes * MIB, rel=0.15)


@pytest.mark.full
def test_what_was_there_before_and_what_is_freed_do_not_count():
    held = bytearray(60 * MIB)
    freed = bytearray(60 * MIB)
    del freed
    got = memory.peak_of_call(lambda: len(bytearray(40 * MIB)))
    assert got == pytest.approx(40 * MIB, rel=0.15)
    assert len(held) == 60 * MIB


@pytest.mark.full
def test_memory_of_the_first_call_alone_does_not_count():
    calls = []

    def run():
        calls.append(len(bytearray((100 if not calls else 40) * MIB)))

    assert memory.peak_of_call(run) == pytest.approx(40 * MIB, rel=0.15)
    assert calls == [100 * MIB, 40 * MIB]


def test_on_a_gpu_the_allocators_count(monkeypatch):
    counts = {"bytes_in_use": 7, "peak_bytes_in_use": 9}
    of_torch = {"memory_allocated": lambda: 100, "max_memory_allocated": lambda: 300}
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    card = types.SimpleNamespace(memory_stats=lambda: counts)
    monkeypatch.setattr(jax, "devices", lambda: [card])
    torch = types.SimpleNamespace(cuda=types.SimpleNamespace(**of_torch))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert memory.peak_of_call(lambda: None) == (9 + 300) - (7 + 100)
    assert memory.calibration_error() is None
    monkeypatch.delitem(sys.modules, "torch")
    assert memory.peak_of_call(lambda: counts.update(peak_bytes_in_use=50)) == 50 - 7


def test_a_failing_side_is_an_error_with_its_message():
    with pytest.raises(RuntimeError, match="unexpected keyword argument 'nonsense'"):
        memory.measure(memory.Known, nonsense=1)
