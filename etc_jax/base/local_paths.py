"""Paths that are given: of file systems here, and no output is one of the inputs.

`gs://bucket/run` given to `pathlib` or made absolute is a folder `gs:` in the current
one, to which a run would be written without a word: addresses are refused.

An argument of a command that is a path has one of the types below, which says what the
command does with it. The parser then refuses outputs that would destroy inputs.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import enum
import errno
import glob
import itertools
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from etc_jax.base import stores

ARCHIVE = re.compile(r"\.zip/")
# What a disk says that is full, or lets nobody write more.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def problem(path: str | os.PathLike) -> str | None:
    """What is wrong with a path, as the end of a sentence; None if nothing."""
    if not stores.is_address(path):
        return None
    return (
        f"is {os.fspath(path)!r}; expected a path of a file system here: object stores "
        "and other addresses cannot be used. Mount it, or copy what is needed"
    )


def paths_in(value: Any) -> Iterator[str | os.PathLike]:
    """The texts and paths in a value, and in lists and tuples of them."""
    if isinstance(value, str | os.PathLike):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from paths_in(part)


def problems_in(fields: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(name, what is wrong) of each address among the values of a config.

    Models to start from and data may be in an object store.
    """
    for name, value in fields.items():
        may_be = name.startswith("data.") or name.endswith("init_from")
        check = stores.problem if may_be else problem
        for part in paths_in(value):
            if wrong := check(part):
                yield name, wrong


def in_archive(path: str | os.PathLike) -> tuple[str, str] | None:
    """The zip archive that a path leads into, and the path in there.

    A file in an archive is named as if the archive were a folder:
    `qasper.zip/validation.jsonl`. None: the path leads into no archive.
    """
    text = os.fspath(path)
    for match in ARCHIVE.finditer(text):
        archive = text[: match.end() - 1]
        if os.path.isfile(archive):
            return archive, text[match.end() :]
    return None


@contextlib.contextmanager
def naming(path: str | os.PathLike) -> Iterator[None]:
    """An error of writing within the block names the path.

    The system names a file when it is opened, and no longer when the disk is full;
    numpy then only says how many bytes it has written.

    Raises:
      OSError: that of the block, with the path.
    """
    try:
        yield
    except OSError as error:
        of_numpy = error.errno is None and " writ" in str(error)
        if error.filename is not None or not (error.errno in FULL or of_numpy):
            raise
        code, message = error.errno or errno.ENOSPC, error.strerror or str(error)
        raise OSError(code, message, os.fspath(path)) from error


# --- arguments of commands ------------------------------------------------------------


class Use(enum.Enum):
    """What a command does with a path."""

    READ = "read"
    READ_MODEL = "read as a model: outputs may lie in its folder as new files"
    WRITE = "written, or replaced"
    ADD = "a folder that is added to, in which no file of others is replaced"


def _itself(text: str) -> Iterable[str]:
    return (text,)


@dataclasses.dataclass(frozen=True)
class PathArgument:
    """The type of an argument that is a path; its value is a text.

    Attributes:
      use: what is done with it.
      paths: from the value to the paths that it comes to: those of an input are read,
        with wildcards or not, those of an output written.
      replaceable: whether a file of that name was made by the same command, which then
        may replace it in the folder of a model.
      problem: what is wrong with a value, as the end of a sentence; None if nothing.
      is_copied: what lies in an object store is copied before the command reads it, and
        put there when it has made it; without, the command knows of addresses itself.
    """

    use: Use
    paths: Callable[[str], Iterable[str]] = _itself
    replaceable: Callable[[str], bool] = lambda path: False
    problem: Callable[[str], str | None] = problem
    is_copied: bool = False

    def __call__(self, text: str) -> str:
        """The value of an argument.

        Raises:
          argparse.ArgumentTypeError: if it is an address that cannot be used.
        """
        if wrong := self.problem(text):
            raise argparse.ArgumentTypeError(wrong)
        # A shell leaves the tilde of --out=~/models alone.
        return os.path.expanduser(text)


_STORED = {"problem": stores.problem, "is_copied": True}

INPUT = PathArgument(Use.READ, **_STORED)
MODEL = PathArgument(Use.READ_MODEL, problem=stores.problem)
# Other files that may lie in the folder of a model, such as a vocabulary.
OF_MODEL = PathArgument(Use.READ_MODEL, **_STORED)
OUTPUT = PathArgument(Use.WRITE, **_STORED)
ADDED_TO = PathArgument(Use.ADD)
# Of a run, which may be in an object store.
WORKDIR = dataclasses.replace(ADDED_TO, problem=stores.problem)

STANDARD_INPUT = "-"


class Given(NamedTuple):
    """A path on a command line.

    Attributes:
      flag: that it was given with, such as --out; "" for one without.
      argument: its type.
      value: of the flag, or one of several.
    """

    flag: str
    argument: PathArgument
    value: str

    @property
    def shown(self) -> str:
        """As it was typed."""
        return f"{self.flag}={self.value}" if self.flag else self.value


def collision(arguments: Iterable[Given]) -> str | None:
    """Which output of a command would destroy one of its inputs; None if none would.

    Files and folders are compared as the system does: links, hard links and other
    spellings are the same file. Inputs that do not exist are names of other things.

    Args:
      arguments: all paths of a command line.
    """
    writes = {Use.WRITE, Use.ADD}
    arguments = list(arguments)
    inputs = [one for one in arguments if one.argument.use not in writes]
    outputs = [one for one in arguments if one.argument.use in writes]
    for output, source in itertools.product(outputs, inputs):
        for path in output.argument.paths(output.value):
            for read in _existing(source):
                if wrong := _overlap(output, path, source, read):
                    return wrong
    return None


def _existing(source: Given) -> Iterator[str]:
    """The files and folders that an input stands for."""
    for path in source.argument.paths(source.value):
        if path == STANDARD_INPUT:
            path = "/dev/stdin"
        if (inside := in_archive(path)) is not None:
            path = inside[0]
        paths = [path] if os.path.exists(path) else glob.glob(path, recursive=True)
        for existing in paths:
            mode = os.stat(existing).st_mode
            if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
                yield existing


def _overlap(output: Given, path: str, source: Given, read: str) -> str | None:
    """What is wrong with one file or folder to write and one to read."""
    written = output.shown if path == output.value else f"{path} of {output.shown}"
    if os.path.exists(path) and os.path.samefile(path, read):
        return (
            f"{written} is the input {source.shown}, which it would destroy; name "
            "another"
        )
    if output.argument.use is Use.WRITE and _is_inside(read, path):
        return (
            f"the input {source.shown} lies in {written}, which would replace it; name "
            "another folder"
        )
    if not _is_inside(path, read):
        return None
    if source.argument.use is Use.READ:
        return (
            f"{written} lies in the input {source.shown} and would become part of it; "
            "name another place"
        )
    if os.path.isfile(path) and not output.argument.replaceable(path):
        return (
            f"{written} is a file in the folder of the input {source.shown}, which it "
            "would replace; name another"
        )
    if listing := _listing_above(path, read):
        return (
            f"{written} lies in a checkpoint of the input {source.shown}, whose files "
            f"{listing} lists; name another place"
        )
    return None


def _is_inside(path: str, folder: str) -> bool:
    """Whether a path, which need not exist, is in a folder or one below it."""
    inner, outer = os.path.realpath(path), os.path.realpath(folder)
    return inner != outer and os.path.commonpath([inner, outer]) == outer


_LISTING = "manifest.json"  # of checkpoints, see `training.checkpoints.manifest`


def _listing_above(path: str, folder: str) -> str | None:
    """The list of a checkpoint in the folder or one below it that holds the path."""
    inner, outer = os.path.realpath(path), os.path.realpath(folder)
    while inner != outer:
        inner = os.path.dirname(inner)
        if os.path.isfile(listing := os.path.join(inner, _LISTING)):
            return listing
    return None
