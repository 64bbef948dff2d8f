"""The launcher around small stand-ins, and around real training."""

import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time

import limits
import processes
import pytest
from repository import ROOT

from etc_jax.base import child_process
from etc_jax.launch import local

DIES = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
SLEEPS = "import time; time.sleep(600)"
# Half of what the stand-ins sleep: a busy machine needs many seconds for a start.
IGNORES = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEPS


def run_each(*programs: str, grace_secs: float = 30.0) -> int:
    """The launcher's code for one Python program a process."""
    number = "import os; exec(os.environ['PROGRAM'])"
    environs = [{**os.environ, "PROGRAM": program} for program in programs]
    command = [sys.executable, "-c", number]
    return local.run(command, lambda: environs, grace_secs=grace_secs)


def test_each_process_knows_its_place():
    environ = {
        "PATH": "p",
        "XLA_FLAGS": "--a=1 --xla_force_host_platform_device_count=8 --b=2",
    }
    both = local.environments(environ, processes=2, devices_per_process=4, port=7)
    assert [e["JAX_PROCESS_ID"] for e in both] == ["0", "1"]
    for e in both:
        assert e["PATH"] == "p"
        assert e["JAX_NUM_PROCESSES"] == "2" and e["JAX_PLATFORMS"] == "cpu"
        assert e["JAX_COORDINATOR_ADDRESS"] == "127.0.0.1:7"
        assert sorted(e["XLA_FLAGS"].split()) == [
            "--a=1",
            "--b=2",
            "--xla_force_host_platform_device_count=4",
        ]
    (alone,) = local.environments(
        environ, processes=1, devices_per_process=None, port=7
    )
    assert alone["XLA_FLAGS"] == environ["XLA_FLAGS"] and "JAX_PLATFORMS" not in alone


@pytest.mark.parametrize(
    "codes, expected",
    [
        ([0, 0], 0),
        ([17, 17], 17),
        ([0, 3], 3),
        ([-6, 2], 2),
        ([1, 17], 17),
        ([-9, 0], 137),
        ([0, 1], 1),
    ],
)
def test_the_code_that_says_most_is_returned(codes, expected):
    assert local.exit_code(codes) == expected


def test_output_has_the_number_of_its_process(capfd):
    program = "import sys; print('out', {}); print('err', file=sys.stderr)"
    assert run_each(program.format(5), program.format(6)) == 0
    out, err = capfd.readouterr()
    assert sorted(out.splitlines()) == ["[0] out 5", "[1] out 6"]
    assert {"[0] err", "[1] err"} <= set(err.splitlines())


@pytest.mark.parametrize(
    "programs, expected",
    [
        (("exit(3)", SLEEPS), 3),
        ((SLEEPS, "exit(2)"), 2),
        ((IGNORES, DIES), 137),
        (("exit(0)", SLEEPS), 137),
    ],
)
def test_one_end_is_the_end_of_all(programs, expected, capfd):
    began = time.monotonic()
    assert run_each(*programs, grace_secs=0.5) == expected
    assert time.monotonic() - began < limits.SECS
    assert "0 s after the first end" in capfd.readouterr().err


@pytest.mark.parametrize(
    "codes, restarts, expected, left",
    [
        ("1 137 17 0", 3, 0, ""),
        ("1 1 1 0", 2, 1, "0"),
        ("2 0", 9, 2, "0"),
        ("3 0", 9, 3, "0"),
        ("4 0", 9, 4, "0"),
        ("0", 9, 0, ""),
    ],
)
def test_what_may_end_otherwise_is_started_again(
    tmp_path, codes, restarts, expected, left
):
    """The program ends with one code after the other."""
    path = tmp_path / "codes"
    path.write_text(codes)
    program = f"""
        import os, pathlib, signal
        path = pathlib.Path({str(path)!r})
        code, *rest = path.read_text().split()
        path.write_text(" ".join(rest))
        if code == "137":
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(int(code))
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    environs = [dict(os.environ)]
    code = local.run(command, lambda: environs, grace_secs=1.0, restarts=restarts)
    assert code == expected
    assert path.read_text() == left


def test_the_first_failure_counts_not_the_last(tmp_path, capfd):
    path = str(tmp_path / "pid")
    first = f"import os; open({path!r}, 'w').write(f'{{os.getpid()}}.'); exit(4)"
    later = textwrap.dedent(
        f"""
        import os, pathlib, time
        path = pathlib.Path({path!r})
        while not path.exists() or not path.read_text().endswith("."):
            time.sleep(0.01)
        try:
            while True:  # until the launcher has noticed its end
                os.kill(int(path.read_text()[:-1]), 0)
                time.sleep(0.01)
        except ProcessLookupError:
            exit(2)
        """
    )
    assert run_each(later, first, grace_secs=limits.SECS) == 4
    assert "exit codes: [0] 2, [1] 4" in capfd.readouterr().err


def launched(child: str, folder: pathlib.Path) -> subprocess.Popen:
    """A launcher of two processes of a program, which is told the folder."""
    launcher = textwrap.dedent(
        f"""
        import os, sys
        from etc_jax.launch import local
        environs = lambda: local.environments(
            os.environ, processes=2, devices_per_process=None, port=1
        )
        command = [sys.executable, "-c", {child!r}, {str(folder)!r}]
        sys.exit(local.run(command, environs, grace_secs=30))
        """
    )
    return subprocess.Popen([sys.executable, "-c", launcher], cwd=ROOT)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_goes_to_all_and_a_second_one_too(tmp_path, number):
    child = textwrap.dedent(
        """
        import os, pathlib, signal, sys, time
        got = []
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: got.append(number))
        path = pathlib.Path(sys.argv[1]) / os.environ["JAX_PROCESS_ID"]
        path.write_text("ready")
        while len(got) < 2:
            time.sleep(0.01)
            path.write_text(f"{len(got)}")
        sys.exit(17)
        """
    )
    process = launched(child, tmp_path)

    def until(text):
        def texts():
            return [path.read_text() for path in tmp_path.iterdir()]

        limits.until(lambda: texts() == [text] * 2 or process.poll() is not None, texts)
        assert process.poll() is None, texts()

    try:
        until("0")
        process.send_signal(number)
        until("1")
        process.send_signal(number)
        assert process.wait(limits.SECS) == 17
    finally:
        process.kill()
        process.wait()


def is_running(pid: int) -> bool:
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of it")
def test_killing_the_launcher_kills_all(tmp_path):
    """Nobody is left behind to write into the workdir."""
    child = textwrap.dedent(
        """
        import os, pathlib, signal, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        path = pathlib.Path(sys.argv[1]) / os.environ["JAX_PROCESS_ID"]
        path.write_text(str(os.getpid()))
        time.sleep(600)
        """
    )
    process = launched(child, tmp_path)
    pids = []
    try:
        paths = [tmp_path / "0", tmp_path / "1"]
        limits.until(lambda: all(path.exists() and path.read_text() for path in paths))
        pids += [int(path.read_text()) for path in paths]
        assert all(map(is_running, pids))
        process.kill()
        began = time.monotonic()
        limits.until(lambda: not any(map(is_running, pids)))
        print(f"gone {time.monotonic() - began:.2f} s after the launcher")
    finally:
        process.kill()
        process.wait()
        for pid in filter(is_running, pids):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of it")
def test_a_launcher_that_died_first_starts_nothing(tmp_path):
    command = [sys.executable, child_process.__file__, "1", "touch", f"{tmp_path}/x"]
    assert subprocess.run(command, check=False).returncode == 137
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--", "--config=x"], "--processes"),
        (["--processes=0", "--", "--config=x"], "--processes is 0"),
        (["--processes=2"], "nothing to run"),
        (["--processes=2", "--devices_per_process=0", "--", "x"], "expected at least"),
        (["--processes=2", "--grace_secs=0", "--", "x"], "more than 0"),
        (["--processes=2", "--restarts=-1", "--", "x"], "at least 0"),
    ],
)
def test_wrong_arguments_are_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as caught:
        local.main(arguments)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.full
def test_sigterm_to_the_launcher_saves_the_run_everywhere(tmp_path):
    """Real training in two processes: `kill` on the launcher is 17, saved once."""
    arguments = [
        f"--config={processes.toy_config(tmp_path)}",
        f"--workdir={tmp_path / 'run'}",
        "--config.train.num_steps=100000",
        "--config.checkpoint.every_steps=99999",
    ]
    argv = ["--processes=2", "--devices_per_process=2", "--", "train", *arguments]
    with processes.start_one(
        tmp_path / "output", [sys.executable, "-m", "etc_jax", "launch", "local", *argv]
    ) as launcher:
        launcher.reaches(tmp_path / "run", lines=3)
        launcher.children[0].send_signal(signal.SIGTERM)
        assert launcher.wait() == [17], launcher.all_output()
    (step,) = processes.saved_steps(tmp_path / "run")
    for number in (0, 1):
        assert f"SIGTERM: saved step {step}" in launcher.output(0)
        assert f"[{number}]" in launcher.output(0)
