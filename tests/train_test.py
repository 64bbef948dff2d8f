import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import types

import pytest
import toy_job

from etc_jax import train

CONFIG = '''"""A config of the tests."""
import toy_job


def get_config():
    return toy_job.config_dict()
'''


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def run_main(monkeypatch, cache, capsys):
    """Runs `main` in this process; gives (exit code, what stands on stderr)."""

    def run(workdir, dry_run=None, **changes):
        values = toy_job.config_dict(train__compile_cache_dir=cache, **changes)
        monkeypatch.setattr(train, "_CONFIG", types.SimpleNamespace(value=values))
        for name, value in (("_WORKDIR", workdir), ("_DRY_RUN", dry_run)):
            value = None if value is None else str(value)
            monkeypatch.setattr(train, name, types.SimpleNamespace(value=value))
        code = train.main(["train"])
        run.printed, message = capsys.readouterr()
        return code, message

    return run


def test_done_is_0_and_lost_checkpoints_are_4(run_main, tmp_path):
    assert run_main(tmp_path)[0] == 0
    assert (tmp_path / "checkpoints" / "12").exists()
    shutil.rmtree(tmp_path / "checkpoints")
    code, message = run_main(tmp_path)
    assert code == 4
    assert "no usable checkpoint is left" in message


def test_a_wrong_config_is_2_with_all_errors(run_main, tmp_path):
    code, message = run_main(tmp_path, train__num_steps=0, optimizer__b1=2.0)
    assert code == 2
    assert "2 errors in the config" in message
    assert "train.num_steps" in message and "optimizer.b1" in message
    assert not list(tmp_path.iterdir())


def test_another_run_in_the_workdir_is_2(run_main, tmp_path):
    run_main(tmp_path, train__num_steps=2)
    code, message = run_main(tmp_path, train__num_steps=4)
    assert code == 2 and "train.num_steps: 2 there, 4 now" in message


def test_a_workdir_that_is_a_file_is_2(run_main, tmp_path):
    (tmp_path / "file").write_text("")
    code, message = run_main(tmp_path / "file")
    assert code == 2 and "cannot be used" in message


def test_not_finite_is_3(run_main, tmp_path):
    code, message = run_main(
        tmp_path,
        model__poison_from=0,
        model__poison_to=9,
        train__max_nonfinite_steps=2,
    )
    assert code == 3
    assert "2 updates in a row" in message and "no checkpoint yet" in message


def test_a_dry_run_is_0_and_prints_to_stdout(run_main, tmp_path):
    code, _ = run_main(tmp_path, dry_run="compile")
    assert code == 0
    assert "parameters" in run_main.printed
    assert "Memory of one device" in run_main.printed
    assert not list(tmp_path.iterdir())
    code, _ = run_main(None, dry_run="shapes")
    assert code == 0 and "not compiled" in run_main.printed


def test_a_dry_run_of_what_is_wrong_is_2(run_main, tmp_path):
    code, message = run_main(tmp_path, dry_run="shapes", mesh__data=4)
    assert code == 2 and "needs 4 devices" in message


def command(tmp_path, *arguments):
    config = tmp_path / "toy_config.py"
    config.write_text(CONFIG)
    return [
        sys.executable,
        "-m",
        "etc_jax.train",
        f"--config={config}",
        f"--workdir={tmp_path / 'run'}",
        *arguments,
    ]


def environment():
    tests = str(pathlib.Path(__file__).parent)
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([tests, *filter(None, sys.path)]),
    }


def run_child(argv):
    return subprocess.run(
        argv, env=environment(), capture_output=True, text=True, timeout=120
    )


def test_help_is_readable(tmp_path):
    got = run_child(command(tmp_path, "--help"))
    assert "Exit codes: 0 done" in got.stdout
    assert "--workdir" in got.stdout and "Traceback" not in got.stderr


@pytest.mark.parametrize(
    "argument, message",
    [
        ("--config.train.seed=-1", "train.seed: is -1; expected 0 <= seed < 2**32"),
        ("--config.train.sed=1", 'Did you mean "seed" instead of "sed"?'),
        ("--config=nowhere.py", "nowhere.py"),
        ("--nonsense=1", "nonsense"),
        ("--dry_run=nothing", "compile"),
        ("--workdir=", "--workdir is needed to train"),
    ],
)
def test_errors_on_the_command_line_are_2_without_a_traceback(
    tmp_path, argument, message
):
    got = run_child(command(tmp_path, argument))
    assert got.returncode == 2
    assert message in got.stderr
    assert "Traceback" not in got.stderr


def test_a_dry_run_from_the_command_line_needs_no_workdir(tmp_path):
    config = tmp_path / "toy_config.py"
    config.write_text(CONFIG)
    argv = [sys.executable, "-m", "etc_jax.train", f"--config={config}", "--dry_run"]
    got = run_child(argv)
    assert got.returncode == 0, got.stderr
    assert "compiled in" in got.stdout
    assert sorted(p.name for p in tmp_path.iterdir()) == ["toy_config.py"]


def test_sigterm_is_17_with_a_checkpoint_of_that_step(tmp_path, cache):
    sizes = ("--config.train.num_steps=100000", "--config.checkpoint.every_steps=99999")
    argv = command(tmp_path, *sizes, f"--config.train.compile_cache_dir={cache}")
    child = subprocess.Popen(argv, env=environment(), stderr=subprocess.PIPE, text=True)
    metrics = tmp_path / "run" / "metrics.jsonl"
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and child.poll() is None:
        if metrics.exists() and metrics.read_text().count("\n") > 7:
            break
        time.sleep(0.02)
    child.send_signal(signal.SIGTERM)
    sent = time.monotonic()
    _, stderr = child.communicate(timeout=60)
    assert child.returncode == 17, stderr
    assert time.monotonic() - sent < 30
    (saved,) = (tmp_path / "run" / "checkpoints").iterdir()
    assert int(saved.name) >= 8 and int(saved.name) % 99999
    assert f"saved step {saved.name}" in stderr
    assert '"step": ' + saved.name in metrics.read_text().splitlines()[-1]
