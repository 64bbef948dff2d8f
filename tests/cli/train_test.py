import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import types

import limits
import programs
import pytest
import toy_job
from repository import ROOT

from etc_jax.cli import command_line, train
from etc_jax.training import errors

CONFIG = '''"""A config of the tests."""
import toy_job


def get_config():
    return toy_job.config_dict()
'''


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def run_main(cache, capsys):
    """Runs in this process; gives (exit code, what stands on stderr)."""

    def run(workdir, dry_run=None, topology=None, **changes):
        values = toy_job.config_dict(train__compile_cache_dir=cache, **changes)
        args = types.SimpleNamespace(
            workdir=workdir, dry_run=dry_run, topology=topology
        )
        work = train.dry_run if dry_run else train.train
        code = command_line.run("train", lambda: work(values, args), errors=())
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
    code, message = run_main(tmp_path, train__num_steps=-1, optimizer__b1=2.0)
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


def test_a_topology_that_does_not_exist_is_2(run_main):
    code, message = run_main(None, dry_run="shapes", topology="v5e:4xx4")
    assert code == 2
    assert "--topology=v5e:4xx4 is not known; did you mean 'v5e:4x4'?" in message


def test_a_topology_without_libtpu_is_2(run_main, monkeypatch):
    monkeypatch.setitem(sys.modules, "libtpu", None)
    code, message = run_main(None, dry_run="shapes", topology="v5e:4x4")
    assert code == 2 and ".[tpu_aot]" in message


def command(tmp_path, *arguments):
    config = tmp_path / "toy_config.py"
    config.write_text(CONFIG)
    return (
        "etc_jax.cli.train",
        f"--config={config}",
        f"--workdir={tmp_path / 'run'}",
        *arguments,
    )


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_is_a_page_for_people(flag):
    """Needs no config, names every own flag, and no flag of other modules."""
    got = programs.run("etc_jax.cli.train", flag)
    assert got.returncode == 0 and not got.stderr
    own = ("config", "workdir", "dry_run", "topology", "print_config", "help_config")
    for name in own:
        assert f"\n  --{name}" in got.stdout
    assert "--config.train.num_steps=100" in got.stdout
    for code in (errors.DONE, errors.USER_ERROR, errors.NOT_FINITE):
        assert f"\n  {code:2}  " in got.stdout
    for code in (errors.CORRUPT_CHECKPOINT, errors.PREEMPTED):
        assert f"\n  {code:2}  " in got.stdout
    assert "verbosity" not in got.stdout
    lines = got.stdout.splitlines()
    assert len(lines) < 70 and max(map(len, lines)) <= 88
    assert "Configs: " in got.stdout and "quickstart_wikihop" in got.stdout


def test_a_config_that_lacks_something_is_printed_all_the_same():
    got = programs.run(
        "etc_jax.cli.train", "--config=etc_base_hotpotqa", "--print_config"
    )
    assert got.returncode == 2
    assert json.loads(got.stdout)["objective"]["name"] == "hotpotqa"
    assert "checkpoint.init_from_only: is given, but init_from is not" in got.stderr


@pytest.mark.parametrize(
    "argument, message",
    [
        ("--config.train.seed=-1", "train.seed: is -1; expected a whole number from 0"),
        (
            "--config.train.sed=1",
            "etc-jax train: --config: no field 'train.sed'; did you mean 'seed'?",
        ),
        ("--config=nowhere.py", "nowhere.py"),
        ("--nonsense=1", "there is no flag --nonsense; see etc-jax train --help"),
        ("--work_dir=x", "there is no flag --work_dir; did you mean '--workdir'?"),
        ("--config.train.seed", "write --config.train.seed=VALUE"),
        ("more", "unrecognized arguments: more"),
        ("--dry_run=nothing", "compile"),
        ("--workdir=", "--workdir is needed to train"),
        ("--topology=v5e:2x2", "it needs --dry_run"),
    ],
)
def test_errors_on_the_command_line_are_2_without_a_traceback(
    tmp_path, argument, message
):
    got = programs.run(*command(tmp_path, argument))
    assert got.returncode == 2
    assert message in got.stderr
    assert "Traceback" not in got.stderr
    assert not (tmp_path / "run").exists()
    if "sed=" in argument:
        assert got.stderr.count("\n") == 1


def test_a_dry_run_from_the_command_line_needs_no_workdir(tmp_path):
    config = tmp_path / "toy_config.py"
    config.write_text(CONFIG)
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}  # of the config file
    argv = (f"--config={config}", "--dry_run")
    got = programs.run("etc_jax.cli.train", *argv, environ=environ)
    assert got.returncode == 0, got.stderr
    assert "compiled in" in got.stdout
    assert sorted(p.name for p in tmp_path.iterdir()) == ["toy_config.py"]


def test_sigterm_is_17_with_a_checkpoint_of_that_step(tmp_path, cache):
    sizes = ("--config.train.num_steps=100000", "--config.checkpoint.every_steps=99999")
    argv = command(tmp_path, *sizes, f"--config.train.compile_cache_dir={cache}")
    child = programs.start(*argv, stdout=tmp_path / "printed")
    metrics = tmp_path / "run" / "metrics.jsonl"
    deadline = time.monotonic() + limits.SECS
    while time.monotonic() < deadline and child.poll() is None:
        if metrics.exists() and metrics.read_text().count("\n") > 7:
            break
        time.sleep(0.02)
    child.send_signal(signal.SIGTERM)
    sent = time.monotonic()
    code, stderr = child.wait(limits.SECS), (tmp_path / "printed").read_text()
    assert code == 17, stderr
    assert time.monotonic() - sent < 30
    (saved,) = (tmp_path / "run" / "checkpoints").iterdir()
    assert int(saved.name) >= 8 and int(saved.name) % 99999
    assert f"saved step {saved.name}" in stderr
    assert '"step": ' + saved.name in metrics.read_text().splitlines()[-1]


SMALL = """
from etc_jax import config as config_lib


def get_config():
    config = config_lib.default_config()
    config.model.update(
        vocab_size=2048, embed_dim=256, num_layers=3, num_heads=4, mlp_dim=1024,
        dtype="bfloat16", remat_policy="attention",
    )
    config.data.update(
        source="jsonl", paths=("TEXT",), vocab_size=150, long_length=512,
        global_length=64, validation_fraction=0.2,
    )
    config.train.update(num_steps=10, batch_size=32)
    config.schedule.warmup_steps = 2
    config.mesh.fsdp = 2
    return config
"""


def compile_for_tpu(tmp_path, topology, *arguments):
    """The real command, for a small ETC on generated text."""
    words = [f"{a}{b}" for a in ("ba", "di", "ko", "mu") for b in ("n", "s", "rt", "l")]
    draw = random.Random(0)
    rows = []
    for _ in range(80):
        sentences = [" ".join(draw.choices(words, k=12)) for _ in range(16)]
        rows.append({"text": " ".join(f"{x.capitalize()}." for x in sentences)})
    (tmp_path / "text.jsonl").write_text("\n".join(map(json.dumps, rows)))
    config = tmp_path / "small.py"
    config.write_text(SMALL.replace("TEXT", str(tmp_path / "text.jsonl")))
    return run_for_tpu(config, topology, *arguments)


def run_for_tpu(config, topology, *arguments):
    argv = [
        sys.executable,
        "-m",
        "etc_jax.cli.train",
        f"--config={config}",
        "--dry_run",
    ]
    argv += [f"--topology={topology}", *arguments]
    path = os.pathsep.join(filter(None, sys.path))
    env = {**os.environ, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"}
    return subprocess.run(
        argv, env=env, capture_output=True, text=True, timeout=limits.SECS
    )


@pytest.mark.tpu_aot
def test_a_small_model_fits_tpus_that_are_not_there(tmp_path):
    got = compile_for_tpu(tmp_path, "v5e:2x2")
    assert got.returncode == 0, got.stderr[-3000:]
    assert "Run: 4 devices of kind 'TPU v5 lite', mesh data=2 x fsdp=2" in got.stdout
    assert "of 16128 MiB: fits" in got.stdout
    sizes = {}
    for line in got.stdout.splitlines():
        name, _, rest = line.strip().partition("  ")
        if rest.endswith("MiB") or "MiB  " in rest:
            sizes[name] = float(rest.split()[0].replace(",", ""))
    # AdamW has two moments of each parameter.
    moments = 2 * sizes["parameters"]
    assert sizes["optimizer state"] == pytest.approx(moments, rel=0.01, abs=0.2)
    assert sizes["temporaries"] > 1
    assert "all-gather" in got.stdout and "all-reduce" in got.stdout


@pytest.mark.tpu_aot
def test_a_small_reformer_fits_a_tpu_that_is_not_there(tmp_path):
    file = tmp_path / "bytes"
    file.write_bytes(random.Random(0).randbytes(200_000))
    got = run_for_tpu(
        ROOT / "etc_jax/configs/reformer/reformer_enwik8.py:short",
        "v5e:1x1",
        f"--config.data.paths=('{file}',)",
        "--config.model.dtype=bfloat16",
    )
    assert got.returncode == 0, got.stderr[-3000:]
    assert "of 16128 MiB: fits" in got.stdout


@pytest.mark.tpu_aot
def test_a_step_beyond_the_memory_of_a_tpu_is_refused(tmp_path):
    sizes = ("--config.model.mlp_dim=65536", "--config.model.num_layers=96")
    got = compile_for_tpu(tmp_path, "v5e:2x2", *sizes)
    assert got.returncode == 2, got.stdout + got.stderr[-3000:]
    assert "This run would fail:" in got.stderr
    assert "of a device that has 16128 MiB (at most 90% of them" in got.stderr
    # The weights alone are too much.
    assert "train.accumulation_steps=8: a device works on 1 rows" in got.stderr
    assert "MiB in all, still too much" in got.stderr
    assert "Traceback" not in got.stderr


@pytest.mark.tpu_aot
def test_a_mesh_that_does_not_fit_the_topology(tmp_path):
    got = compile_for_tpu(tmp_path, "v5e:2x2", "--config.mesh.fsdp=8")
    assert got.returncode == 2
    assert "there are 4" in got.stderr
    assert "Meshes over 4 devices: data=4 x fsdp=1, data=2 x fsdp=2" in got.stderr
    got = compile_for_tpu(tmp_path, "v5e:3x3")
    assert got.returncode == 2
    assert "libtpu knows no topology v5e:3x3" in got.stderr
