"""What new machines install, by the script itself around programs that stand in."""

import os
import re
import subprocess

import pytest

from etc_jax.launch import machine_script, slices
from etc_jax.launch.job import Job

WHEEL = "gs://b/dist/etc_jax-1-py3-none-any.whl"
GIT = "etc_jax[tpu] @ git+https://host/it's"


@pytest.fixture
def machine(tmp_path):
    """Runs the start script, or install.sh; gives (runner, lines of its calls)."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (tmp_path / "etc/systemd/system").mkdir(parents=True)
    calls = tmp_path / "calls"
    for name in ("python3", "gcloud", "systemctl"):
        program = programs / name
        # `systemctl cat` fails where there is no service.
        fails = f'[ "$1" != cat ] || [ -e {calls}.unit ]'
        program.write_text(f'#!/bin/sh\necho {name} "$@" >> {calls}\n{fails}\n')
        program.chmod(0o755)
    environ = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}

    def bash(*argv, requirement=WHEEL):
        job = Job("run", ("train",), slices.parse("v5e:4x4"))
        text = machine_script.script(job, requirement)
        text = re.sub("/(opt|etc)/(etc_jax|systemd)", rf"{tmp_path}/\1/\2", text)
        (tmp_path / "start.sh").write_text(text)
        calls.write_text("")
        path = {"start": "start.sh", "install": "opt/etc_jax/install.sh"}[argv[0]]
        words = ["bash", str(tmp_path / path), *argv[1:]]
        subprocess.run(words, env=environ, check=True)
        return calls.read_text().replace(str(tmp_path), "").splitlines()

    return bash, tmp_path


@pytest.mark.parametrize(
    "requirement, fetched, package",
    [
        (
            WHEEL,
            [f"gcloud storage cp {WHEEL} /opt/etc_jax/"],
            "/opt/etc_jax/etc_jax-1-py3-none-any.whl[tpu,gcs,data]",
        ),
        (GIT, [], GIT),
    ],
)
def test_the_package_is_installed_once_and_again_when_asked(
    requirement, fetched, package, machine
):
    bash, folder = machine
    bash("start", requirement=requirement)
    install = bash("install", requirement=requirement)
    assert [x for x in install if x.startswith("gcloud")] == fetched
    into = "/opt/etc_jax/venv/bin/python"
    assert install[-1] == f"python3 -m uv pip install --quiet --python {into} {package}"
    assert bash("install", requirement=requirement) == []
    # A machine that starts again leaves the service alone; the word again does not.
    (folder / "calls.unit").touch()
    assert bash("start", requirement=requirement) == ["systemctl cat etc_jax"]
    started = bash("start", "again", requirement=requirement)
    assert started[-1] == "systemctl restart --no-block etc_jax"
    assert bash("install", requirement=requirement) == install


def test_the_service_ends_as_the_exit_codes_say():
    job = Job("run", ("train",), slices.parse("v5e:4x4"), restarts=3)
    lines = machine_script.script(job, "x").splitlines()
    assert {"Restart=on-failure", "RestartPreventExitStatus=2 3 4"} <= {*lines}
    assert "StartLimitBurst=4" in lines
