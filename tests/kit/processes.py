"""Real processes on loopback that train together, for tests.

Run as a module it is one of these processes: `etc-jax train` with the toy job known and
a few faults that tests ask for by variables:

STOP="PROCESS:STEP"   that process sends itself SIGTERM after that step
BAD_ROWS="PROCESS"    that process gets a token that is too large in its first batch
EVALUATIONS="N"       an evaluation has so many batches
STOP_WITHIN="PROCESS" that process sends itself SIGTERM at the fourth of them
NOTE_ROWS="FOLDER"    each process writes there which rows it learns from at which step
"""

import dataclasses
import json
import os
import pathlib
import runpy
import signal
import socket
import subprocess
import sys
import time

import limits
import programs
from repository import ROOT
from xla_flags import xla_flags

TOY_CONFIG = """
import toy_job


def get_config():
    return toy_job.config_dict()
"""
# What would tell a process its place, or change its devices.
_PLACES = (
    "JAX_",
    "MASTER_",
    "SLURM_",
    "TORCHELASTIC_",
    "XLA_FLAGS",
    "STOP",
    "BAD_ROWS",
    "EVALUATIONS",
    "NOTE_ROWS",
)
_NAMES = ("WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


def clean_environment() -> dict[str, str]:
    """The environment of a process that has CPUs and no place yet."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_PLACES) and name not in _NAMES
    }
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    own = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": xla_flags(devices=1)}
    return {**kept, "PYTHONPATH": path, **own}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def toy_config(folder: pathlib.Path) -> pathlib.Path:
    """A config file of the toy job."""
    path = folder / "toy_config.py"
    path.write_text(TOY_CONFIG)
    return path


@dataclasses.dataclass
class Started:
    """Processes of one run; use it with `with`, which leaves none behind."""

    children: list[programs.Program | subprocess.Popen]
    outputs: list[pathlib.Path]

    def __enter__(self) -> "Started":
        return self

    def __exit__(self, *exc) -> None:
        for child in self.children:
            if child.poll() is None:
                child.kill()
            child.wait()

    def output(self, process: int) -> str:
        return self.outputs[process].read_text()

    def wait(self) -> list[int]:
        """The exit codes; kills what has not ended in time."""
        deadline = time.monotonic() + limits.SECS
        codes = []
        for child in self.children:
            try:
                codes.append(child.wait(max(0.1, deadline - time.monotonic())))
            except subprocess.TimeoutExpired:
                child.kill()
                codes.append(child.wait())
        return codes

    def all_output(self) -> str:
        return "\n".join(f"--- {p.name}\n{p.read_text()}" for p in self.outputs)

    def reaches(self, workdir: pathlib.Path, lines: int) -> None:
        """Waits until so many lines of metrics are there."""
        metrics, deadline = workdir / "metrics.jsonl", time.monotonic() + limits.SECS
        while time.monotonic() < deadline:
            if metrics.exists() and metrics.read_text().count("\n") >= lines:
                return
            if any(child.poll() is not None for child in self.children):
                break
            time.sleep(0.05)
        raise AssertionError(f"no {lines} lines of metrics\n{self.all_output()}")


def start(
    folder: pathlib.Path,
    *arguments: str,
    config: pathlib.Path,
    workdir: pathlib.Path,
    **options,
) -> Started:
    """Starts the training command with `config` and `workdir`, as `start_each` does."""
    command = ("processes", f"--config={config}", f"--workdir={workdir}", *arguments)
    return start_each(folder, *command, **options)


def start_each(
    folder: pathlib.Path,
    *command: str,
    each: tuple[tuple[str, ...], ...] = ((), ()),
    devices: int = 4,
    variables: tuple[dict[str, str], ...] | None = None,
    **more: str,
) -> Started:
    """Starts a program in a process for each entry of `each`.

    Args:
      folder: for what they print.
      *command: a module and the arguments of all.
      each: arguments of each process.
      devices: of each process.
      variables: of each; None: their places among as many, on loopback.
      **more: variables of all.
    """
    if variables is None:
        port = free_port()
        variables = tuple(
            {
                "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}",
                "JAX_NUM_PROCESSES": str(len(each)),
                "JAX_PROCESS_ID": str(process),
            }
            for process in range(len(each))
        )
    folder.mkdir(exist_ok=True, parents=True)
    common = {**clean_environment(), "XLA_FLAGS": xla_flags(devices=devices), **more}
    started = Started([], [])
    for process, own in enumerate(each):
        output = folder / f"process_{process}.txt"
        output.write_text("")
        environ = {**common, **variables[process]}
        child = programs.start(*command, *own, stdout=output, environ=environ)
        started.children.append(child)
        started.outputs.append(output)
    return started


def start_one(folder: pathlib.Path, command: list[str]) -> Started:
    """Starts one other program in a clean environment."""
    folder.mkdir(exist_ok=True, parents=True)
    output = folder / "output.txt"
    with output.open("w") as file:
        child = subprocess.Popen(
            command,
            env=clean_environment(),
            cwd=ROOT,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    return Started([child], [output])


def saved_steps(workdir: pathlib.Path) -> list[int]:
    return sorted(int(p.name) for p in (workdir / "checkpoints").iterdir())


def metrics(workdir: pathlib.Path, kind: str) -> list[dict]:
    text = (workdir / "metrics.jsonl").read_text()
    return [x for x in map(json.loads, text.splitlines()) if x["kind"] == kind]


def _stop_after(process: str, step: str) -> None:
    from etc_jax.training.loop import Run

    if process != os.environ["JAX_PROCESS_ID"]:
        return
    one_step = Run._one_step

    def step_and_signal(self):
        one_step(self)
        if self._step == int(step):
            os.kill(os.getpid(), signal.SIGTERM)

    Run._one_step = step_and_signal


def _long_evaluations(batches: str, process: str | None) -> None:
    import toy_job

    toy_job.EVAL_BATCHES = int(batches)
    make, left = toy_job.rows_at, [1]

    def rows_at(c, step, rows):
        if step == 10**6 + 3 and left:
            left.clear()
            os.kill(os.getpid(), signal.SIGTERM)
        return make(c, step, rows)

    if process == os.environ["JAX_PROCESS_ID"]:
        toy_job.rows_at = rows_at


def _bad_rows(process: str) -> None:
    import toy_job

    make = toy_job.rows_at

    def rows_at(c, step, rows):
        batch = make(c, step, rows)
        if step == 0 and len(rows) > 1:  # one row is for comparing the processes' data
            batch["tokens"] += 40
        return batch

    if process == os.environ["JAX_PROCESS_ID"]:
        toy_job.rows_at = rows_at


def _note_rows(folder: str) -> None:
    from etc_jax.sharding.batch import local_rows
    from etc_jax.training.loop import Run

    one_step = Run._one_step
    path = pathlib.Path(folder, f"rows-{os.getpid()}.jsonl")

    def noted_step(self):
        step = self._step
        one_step(self)
        rows = local_rows(self._config.train.batch_size, self._mesh)
        with path.open("a") as file:
            file.write(json.dumps([step, rows.tolist()]) + "\n")

    Run._one_step = noted_step


if __name__ == "__main__":
    if "NOTE_ROWS" in os.environ:
        _note_rows(os.environ["NOTE_ROWS"])
    if "EVALUATIONS" in os.environ:
        stop = os.environ.get("STOP_WITHIN")
        _long_evaluations(os.environ["EVALUATIONS"], stop)
    if "BAD_ROWS" in os.environ:
        _bad_rows(os.environ["BAD_ROWS"])
    if "STOP" in os.environ:
        _stop_after(*os.environ["STOP"].split(":"))
    runpy.run_module("etc_jax.cli.train", run_name="__main__", alter_sys=True)
