"""Programs in processes of their own that need not import again, for tests.

A helper process imports once what the command lines import, which takes seconds, and
forks for each program. It has its own memory, variables, signals and exit code, as one
of `python -m MODULE` has. What must be seen of a fresh interpreter is started with
`subprocess`.
"""

import atexit
import dataclasses
import functools
import io
import multiprocessing
import os
import pathlib
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from multiprocessing import forkserver

import limits

# None of these is a command line itself, which defines its flags where it is imported.
_IMPORTED = (
    "toy_job",
    "etc_jax.training.run",
    "etc_jax.training.preflight.dry_run",
    "etc_jax.prediction.runner",
    "etc_jax.prediction.record_stream",
    "etc_jax.data.windows.writing",
    "ml_collections.config_flags",
)


@functools.cache
def _context():
    # The helper looks for modules where an interpreter of its own would, and leaves out
    # what it does not find.
    path, before = "PYTHONPATH", os.environ.get("PYTHONPATH")
    os.environ[path] = os.pathsep.join(filter(None, sys.path))
    try:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(_IMPORTED))
        forkserver.ensure_running()
    finally:
        del os.environ[path]
        if before is not None:
            os.environ[path] = before
    return context


def process(target, *args):
    """A `multiprocessing.Process` of a function, started; also without imports."""
    started = _context().Process(target=target, args=args)
    started.start()
    return started


@dataclasses.dataclass(frozen=True)
class Program:
    """A program that was started, with the methods of `subprocess.Popen`."""

    _process: multiprocessing.process.BaseProcess

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(
    *command: str,
    stdout: pathlib.Path | str,
    stderr: pathlib.Path | str | None = None,
    environ: Mapping[str, str] = os.environ,
    cwd: pathlib.Path | str = ".",
    text: str = "",
) -> Program:
    """Starts a program.

    Args:
      *command: a module and its arguments, as after `python -m`; or "-c" and a text.
      stdout: file that it prints into.
      stderr: the same for errors; None: also into `stdout`.
      environ: all of its variables. Those that jax reads when it is imported, other
        than XLA_FLAGS, stay as they are here.
      cwd: where it works.
      text: what it reads from standard input.
    """
    outputs = [os.path.abspath(x) for x in (stdout, stderr or stdout)]
    args = (command, outputs, dict(environ), os.path.abspath(cwd), text)
    return Program(process(_main, *args))


def run(*command: str, **options) -> subprocess.CompletedProcess:
    """Runs a program to its end, `options` as in `start`; returns what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [pathlib.Path(folder, name) for name in ("out", "err")]
        program = start(*command, stdout=paths[0], stderr=paths[1], **options)
        try:
            code = program.wait(limits.SECS)
        finally:
            program.kill()
        return subprocess.CompletedProcess(
            command, code, *(path.read_text() for path in paths)
        )


def is_running(pid: int) -> bool:
    """Whether a process is there and is no zombie; of Linux."""
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    except FileNotFoundError:
        return False
    return state.split()[0] != "Z"


def _main(command, outputs, environ, cwd, text) -> None:
    """The program itself, in its process."""
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(cwd)
    for number, path in enumerate(outputs, start=1):
        # Both may be one file.
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        os.dup2(file, number)
        os.close(file)
    sys.dont_write_bytecode = bool(environ.get("PYTHONDONTWRITEBYTECODE"))
    sys.stdin = io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8")
    sys.path[:0] = [cwd, *filter(None, environ.get("PYTHONPATH", "").split(os.pathsep))]
    option = [] if command[0] == "-c" else ["-m"]
    sys.orig_argv = [sys.executable, *option, *command]
    try:
        if command[0] == "-c":
            sys.argv = ["-c", *command[2:]]
            exec(compile(command[1], "<string>", "exec"), {"__name__": "__main__"})
        else:
            sys.argv = [*command]
            runpy.run_module(command[0], run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()
