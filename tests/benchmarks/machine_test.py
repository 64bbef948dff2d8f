"""Whether other work on the machine is seen, and a busy machine refused."""

import os
import subprocess
import sys
import time

import pytest

from benchmarks.kit import machine
from benchmarks.kit.machine import CpuUse, Quiet


def test_other_cores_leaves_out_own_work():
    start = CpuUse(wall=10.0, total=100.0, own=50.0)
    end = CpuUse(wall=12.0, total=105.0, own=52.0)
    assert machine.other_cores(start, end) == pytest.approx(1.5)
    assert machine.other_cores(start, CpuUse(12.0, 101.9, 52.0)) == 0.0


def test_own_work_counts_as_own():
    start = machine.cpu_use()
    stop = time.process_time() + 0.2
    while time.process_time() < stop:
        pass
    end = machine.cpu_use()
    assert 0.19 <= end.own - start.own < 1.0
    assert end.total - start.total >= 0.15


def test_a_child_counts_as_other_while_it_runs_and_as_own_once_it_ended():
    code = "import time\nwhile time.process_time() < 0.3: pass"
    start = machine.cpu_use()
    child = subprocess.Popen([sys.executable, "-c", code])
    seen, end = 0.0, start
    while seen < 0.15 and end.wall - start.wall < 30:
        time.sleep(0.02)
        end = machine.cpu_use()
        seen = machine.other_cores(start, end) * (end.wall - start.wall)
    assert seen >= 0.15
    before = machine.cpu_use()
    child.wait()
    assert machine.cpu_use().own - before.own >= 0.27


def quiet_readings(monkeypatch, *, load=0.0, others=0.0):
    readings = iter([CpuUse(0.0, 0.0, 0.0), CpuUse(1.0, others, 0.0)])
    monkeypatch.setattr(machine, "cpu_use", lambda: next(readings))
    monkeypatch.setattr(machine.os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(machine.time, "sleep", lambda _: None)


def test_a_quiet_machine_is_accepted(monkeypatch):
    quiet_readings(monkeypatch, others=0.1)
    quiet = machine.require_quiet(allow_busy=False)
    assert quiet == Quiet(0.0, 0.1)
    assert not quiet.busy


@pytest.mark.parametrize(
    ("readings", "message"),
    [
        ({"load": 1000.0}, "1-minute load average is 1000.00"),
        ({"others": 0.7}, "other processes use 0.70 cores, limit 0.20"),
    ],
)
def test_a_busy_machine_is_refused_unless_allowed(monkeypatch, readings, message):
    quiet_readings(monkeypatch, **readings)
    with pytest.raises(machine.BusyMachineError, match=message):
        machine.require_quiet(allow_busy=False)
    quiet_readings(monkeypatch, **readings)
    quiet = machine.require_quiet(allow_busy=True)
    assert quiet.busy and message in quiet.reasons[0]


def test_becoming_busy_during_the_run_is_recorded():
    before = Quiet(0.1, 0.0)
    calm = machine.after(before, CpuUse(0, 0, 0), CpuUse(10, 20, 19))
    assert (calm.busy, calm.other_cores_during) == (False, pytest.approx(0.1))
    loud = machine.after(before, CpuUse(0, 0, 0), CpuUse(10, 20, 5))
    assert loud.reasons == ("others used 1.50 cores during the timed part",)


def test_the_platform_is_the_one_asked_for_though_jax_was_imported_before():
    code = "import jax; from benchmarks.kit.machine import use; use('cpu')"
    code += "; print(jax.devices()[0].platform)"
    env = os.environ | {"JAX_PLATFORMS": "tpu"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True
    )
    assert done.stdout == "cpu\n", done.stderr


def test_description_names_chip_cores_and_versions():
    found = machine.describe()
    assert found["backend"] == "cpu"
    assert found["chip"] == found["cpu"] != ""
    assert 1 <= found["threads"] <= found["cores"]
    assert found["memory_bytes"] > 2**28
    assert found["versions"]["jax"].count(".") == 2
