"""What a back end is: the commands and files by which a job runs somewhere.

A back end is a file in `backends/` with a class that `register` gets. It makes argument
lists and texts from a job, and reads what programs answer; it starts nothing itself.
"""

from __future__ import annotations

import abc
import argparse
import dataclasses
import enum
import pathlib
from collections.abc import Callable, Mapping

from etc_jax.base import registry
from etc_jax.launch.job import Argv, Job, Step
from etc_jax.training.errors import CRASHED, RunError

_KIND = "launch_backend"


class Phase(enum.Enum):
    """How far a job is."""

    ABSENT = "not there"
    WAITING = "waiting for machines"
    RUNNING = "running"
    LOST = "its machines were taken away"
    ENDED = "ended"


@dataclasses.dataclass(frozen=True)
class State:
    """Of a job, as its back end tells it.

    Attributes:
      phase: how far it is.
      detail: in the words of the back end.
      code: that it exited with, once it has ended.
    """

    phase: Phase
    detail: str = ""
    code: int | None = None

    def __str__(self) -> str:
        code = "" if self.code is None else f", exit code {self.code}"
        return f"{self.phase.value}{self.detail and f' ({self.detail})'}{code}"


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a program said.

    Attributes:
      code: that it exited with.
      out: its standard output.
      error: what it said of errors.
    """

    code: int
    out: str
    error: str = ""


# Runs a program to its end.
RunFn = Callable[[Argv], Answer]


class Recipe(abc.ABC):
    """The commands by which a job starts; the docstring of a subclass is its help.

    Attributes:
      job: that runs.
      args: values of `add_flags`.
      folder: for files that commands name.
    """

    name: str
    takes_gpus = False
    takes_tpus = True

    def __init__(self, job: Job, args: argparse.Namespace, folder: pathlib.PurePath):
        self.job, self.args, self.folder = job, args, folder

    @classmethod
    @abc.abstractmethod
    def add_flags(cls, parser: argparse.ArgumentParser) -> None:
        """Adds the back end's own flags."""

    def problems(self) -> list[str]:
        """What is wrong with the job here, or with flags."""
        slice_ = self.job.slice
        if slice_.is_tpu and not self.takes_tpus:
            return [f"{self.name} has no TPUs, as in --hardware={slice_.name}"]
        if not slice_.is_tpu and not self.takes_gpus:
            return [f"{self.name} has TPUs alone; --hardware is {slice_.name}"]
        return []

    def files(self) -> Mapping[str, str]:
        """{name in the folder: text} of what the commands name."""
        return {}

    @abc.abstractmethod
    def start(self) -> list[Step]:
        """The commands that make the machines, where there are none, and start it."""

    def path(self, name: str) -> str:
        """Of a file, as commands name it."""
        return str(self.folder / name)


class Backend(Recipe):
    """A recipe for machines that can be asked how far it is.

    Attributes:
      is_lent: whether machines cost until they are given back.
    """

    is_lent = False

    @abc.abstractmethod
    def status(self) -> list[Argv]:
        """Commands that show how far it is."""

    @abc.abstractmethod
    def logs(self) -> list[Argv]:
        """Commands that show what it has printed."""

    @abc.abstractmethod
    def stop(self) -> list[Argv]:
        """Commands that end it, and give its machines back."""

    def rerun(self) -> list[Step]:
        """Commands that run it on machines that are there, or on others."""
        return [*(Step("what runs ends", x) for x in self.stop()), *self.start()]

    @abc.abstractmethod
    def state(self, run_fn: RunFn) -> State:
        """How far it is.

        Args:
          run_fn: runs what is asked.

        Raises:
          LaunchError: if the back end does not answer.
        """


class LaunchError(RunError):
    """A program of a back end failed; what it said is the message."""

    exit_code = CRASHED


def register(backend: type[Recipe]) -> type[Recipe]:
    """Makes a back end one of those that `etc-jax launch` has."""
    return registry.register(_KIND, backend.name)(backend)


def backends() -> Mapping[str, type[Recipe]]:
    """{name: class} of all, those of installed packages too."""
    return {name: registry.lookup(_KIND, name) for name in registry.names(_KIND)}


def checked_answer(answer: Answer, argv: Argv) -> str:
    """What a program printed.

    Raises:
      LaunchError: if it failed.
    """
    if answer.code:
        words = (answer.error.strip() or answer.out.strip()).splitlines()
        last = words[-1] if words else "without a word"
        raise LaunchError(f"{' '.join(argv[:5])} ... exited with {answer.code}: {last}")
    return answer.out
