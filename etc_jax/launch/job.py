"""What is to run elsewhere, whatever runs it."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from etc_jax.launch.slices import Slice
from etc_jax.training.errors import (
    CORRUPT_CHECKPOINT,
    NOT_FINITE,
    USER_ERROR,
)

# A program and its arguments, which no shell reads on this machine.
Argv: TypeAlias = list[str]

PROGRAM = "etc-jax"
# After these the same command would end in the same way.
FINAL_CODES = (USER_ERROR, NOT_FINITE, CORRUPT_CHECKPOINT)
# Between the signal to stop and the end by force: a checkpoint is written meanwhile.
GRACE_SECS = 300
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,37}[a-z0-9])?")
_VARIABLE = re.compile(r"[A-Za-z_]\w*")


@dataclasses.dataclass(frozen=True)
class Job:
    """A command on some slices, of which all hosts run it together.

    Attributes:
      name: of it, and of what is made for it.
      command: arguments of `etc-jax`.
      slice: of chips.
      slices: how many of them; of GPUs, how many hosts.
      restarts: after preemptions and crashes, at most.
      environ: variables of the user's.
    """

    name: str
    command: tuple[str, ...]
    slice: Slice
    slices: int = 1
    restarts: int = 100
    environ: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def problems(self) -> Iterator[str]:
        """Yields what is wrong with it, a text each."""
        if not _NAME.fullmatch(self.name):
            yield (
                f"--name is {self.name!r}; expected at most 39 small letters, digits "
                "and dashes, a letter first and no dash last, as clouds take it"
            )
        if any(set("\0\n\r") & set(word) for word in self.command):
            yield "a word of the command has a line feed; expected one line each"
        for field, least in (("slices", 1), ("restarts", 0)):
            if (value := getattr(self, field)) < least:
                yield f"--{field} is {value}; expected at least {least}"
        for name, value in self.environ.items():
            if not _VARIABLE.fullmatch(name) or set("\0\n\r") & set(value):
                yield f"--env is {name}={value!r}; expected NAME=VALUE in one line"

    @property
    def hosts(self) -> int:
        return self.slice.hosts * self.slices

    @property
    def variables(self) -> dict[str, str]:
        """Of the processes, whose log is to show a line when it is printed."""
        return {"PYTHONUNBUFFERED": "1", **self.environ}

    @property
    def argv(self) -> Argv:
        """On a machine that has the package."""
        return [PROGRAM, *self.command]


@dataclasses.dataclass(frozen=True)
class Step:
    """One of the commands that start a job.

    Attributes:
      what: it does, in a few words.
      argv: program and arguments.
    """

    what: str
    argv: Argv

    def __str__(self) -> str:
        return f"# {self.what}\n{in_lines(self.argv)}"


def in_lines(argv: Sequence[str], width: int = 88) -> str:
    """A command as a shell takes it, in lines of that width where words allow it."""
    lines = [""]
    for word in map(shlex.quote, argv):
        if lines[-1] and len(lines[-1]) + len(word) + 3 > width:
            lines.append("   ")
        lines[-1] += f" {word}" if lines[-1] else word
    return " \\\n".join(lines)
