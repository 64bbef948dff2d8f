"""The commands that a row is made of, each done once and never again.

A row is run by the commands that a user has, at any size: the study of a table calls
`Chain.do` for one after another and says where its figures then are. Nothing runs while
it does: a chain can be printed, or carried out by `carry_out`, which leaves out what
was done before, by another row too.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import pathlib
import resource
import shlex
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from etc_jax.__main__ import COMMANDS
from etc_jax.base.terminal import in_shell, say
from etc_jax.base.whole_files import write_whole
from etc_jax.cli.command_line import INTERRUPTED
from etc_jax.loading.run_results import SCORES
from etc_jax.training.errors import PREEMPTED, RunError
from etc_jax.training.reporting import metrics

# What a command calls the folder or file that it makes, if not --out.
_OUT = {"train": "workdir"}
# Of these the commands go on where they were stopped; of others they begin again.
_RESUMED = ("train", "prepare", "evaluate")
# These match patterns themselves.
_MATCHING = ("stats", "corpora", "train")
DONE = "done"


@dataclasses.dataclass(frozen=True)
class Command:
    """One command.

    Attributes:
      name: of `etc-jax`.
      out: what it makes, below the chain's folder.
      argv: all its flags.
    """

    name: str
    out: str
    argv: tuple[str, ...]

    @property
    def config(self) -> str:
        """The config that is trained."""
        (value,) = (x for x in self.argv if x.startswith("--config="))
        return value.removeprefix("--config=")

    def __str__(self) -> str:
        return f"etc-jax {self.name} {_with_patterns(self)}"


def _joined(argv: Sequence[str]) -> str:
    """As a shell takes it."""
    return " ".join(x if shlex.quote(x) == x else in_shell(x) for x in argv)


def _with_patterns(command: Command) -> str:
    """The arguments; patterns of files are left to the shell where it has to match."""
    if command.name in _MATCHING:
        return _joined(command.argv)
    files = [x for x in command.argv if "*" in x and not x.startswith("--")]
    return " ".join([_joined([x for x in command.argv if x not in files]), *files])


@dataclasses.dataclass(frozen=True)
class Measured:
    """Where a figure is, once the commands are done.

    Attributes:
      out: what a command made.
      name: of the metric.
      source: "scores" of evaluate, "evaluation" for the last one of a training run, or
        the name of a JSON file below `out`, in which `name` is a path with slashes
        and numbers in lists; ".": `out` is that file.
      scale: 100 makes a share percent.
      step: of the evaluation; None: the last.
    """

    out: str
    name: str
    source: str = "scores"
    scale: float = 1.0
    step: int | None = None

    def read(self, root: pathlib.Path) -> float:
        """The figure.

        Raises:
          RunError: if it is not there, naming what is.
        """
        folder = root / self.out
        if self.source == "evaluation":
            values = _evaluation(folder, self.step)
        elif self.source == "scores":
            scores = _read(folder / SCORES)
            # Of another package, such as files2rouge, by its name before a slash.
            others = scores.get("conventions", {}).items()
            values = scores | {k: x["metrics"] for k, x in others} | scores["metrics"]
        else:
            values = _read(folder / self.source)
        for name in [self.name] if self.name in values else self.name.split("/"):
            if isinstance(values, list):
                values = {str(i): value for i, value in enumerate(values)}
            if name not in values:
                raise RunError(f"{folder} has no {name!r}; it has {', '.join(values)}")
            values = values[name]
        return self.scale * values


def _read(file: pathlib.Path) -> Any:
    try:
        return json.loads(file.read_text())
    except OSError as error:
        raise RunError(f"{file} cannot be read: {error}") from error


def _evaluation(workdir: pathlib.Path, step: int | None) -> Mapping[str, Any]:
    every = [x for x in metrics.evaluations(workdir) if step in (None, x["step"])]
    if not every:
        at = "" if step is None else f" at step {step}"
        raise RunError(f"{workdir} has no evaluation{at}")
    return every[-1]


class CommandError(RunError):
    """A command ended with another exit code than 0, which is that of this error."""

    def __init__(self, command: Command, code: int):
        stopped = code in (PREEMPTED, INTERRUPTED)
        what = "interrupted, and goes on with the same command" if stopped else "failed"
        super().__init__(f"{what}: exit code {code} of {command}")
        self.exit_code = code


class Chain:
    """Commands in the order in which they are to be done.

    Args:
      root: folder of all that they make.
      data: folder of the official data sets.
      texts: files of texts to learn from, a pattern.

    Attributes:
      commands: by what they make.
    """

    def __init__(
        self,
        root: str | os.PathLike,
        data: str = "data",
        texts: str = "texts/*.jsonl.gz",
    ):
        self.root, self.data, self.texts = pathlib.Path(root), data, texts
        self.commands: dict[str, Command] = {}

    def do(self, name: str, out: str, *flags: str) -> str:
        """Adds a command, unless the same one is there.

        Args:
          name: of `etc-jax`, and its subcommand, such as "corpora link".
          out: what it makes, below `root`.
          *flags: and files, without that of `out`.

        Returns:
          The path of what it makes.

        Raises:
          ValueError: if another command makes that.
        """
        path = str(self.root / out)
        name, *words = name.split()
        words.append(f"--{_OUT.get(name, 'out')}={path}")
        command = Command(name, out, (*words, *flags))
        if self.commands.setdefault(out, command) != command:
            raise ValueError(
                f"two commands make {path}:\n{self.commands[out]}\n{command}"
            )
        return path

    def name_of(self, path: str) -> str:
        """What `do` was told to make, of the path that it returned."""
        return pathlib.Path(path).relative_to(self.root).as_posix()

    def is_done(self, command: Command) -> bool:
        """Whether it was carried out before.

        Raises:
          RunError: if it was, with other flags.
        """
        record = self._record(command)
        if not record.exists():
            return False
        before = tuple(json.loads(record.read_text())["argv"])
        if before != command.argv:
            raise RunError(
                f"{self.root / command.out} was made by other flags:\n"
                f"  {_joined(before)}\nnot by\n  {_joined(command.argv)}\n"
                "take another folder, or delete this one"
            )
        return (self.root / command.out).exists()

    def spent(self) -> float:
        """CPU seconds of all commands that were carried out."""
        records = map(self._record, self.commands.values())
        return sum(json.loads(x.read_text())["cpu_secs"] for x in records if x.exists())

    def carry_out(self, before_fn: Callable[[str], Any] = say) -> None:
        """Carries out what was not, in this process.

        Args:
          before_fn: called with what begins, before it does.

        Raises:
          CommandError: if one fails, or was interrupted; it said why itself.
        """
        for command in self.commands.values():
            if self.is_done(command):
                continue
            before_fn(f"{command.out}: {command}")
            path = self.root / command.out
            if command.name not in _RESUMED and path.is_dir():
                shutil.rmtree(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            began = time.monotonic(), _cpu_secs()
            main = importlib.import_module(COMMANDS[command.name]).main
            if code := main(list(command.argv)):
                raise CommandError(command, code)
            record = self._record(command)
            record.parent.mkdir(parents=True, exist_ok=True)
            values = {
                "argv": command.argv,
                "secs": time.monotonic() - began[0],
                "cpu_secs": _cpu_secs() - began[1],
            }
            write_whole(record, json.dumps(values, indent=1))

    def _record(self, command: Command) -> pathlib.Path:
        """That it was done: beside what it makes, not in it, as that may be a file."""
        return self.root / DONE / f"{command.out}.json"


def _cpu_secs() -> float:
    """Of this process and those that it waited for, over all cores."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(
            resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )
    )
