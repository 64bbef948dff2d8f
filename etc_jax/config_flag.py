"""What is wrong with --config=FILE:VARIANT and its changes, in one line.

ml_collections reads both, and wraps what goes wrong in errors, messages and tracebacks
of its own.
"""

from __future__ import annotations

import difflib
import pathlib
import traceback
from collections.abc import Sequence

_FILE = "--config="


def files_in(argv: Sequence[str]) -> list[pathlib.Path]:
    """The config files that a command line names."""
    # "--config FILE" as well, as absl takes it.
    following = [b for a, b in zip(argv, argv[1:], strict=False) if a == "--config"]
    named = [a.removeprefix(_FILE) for a in argv if a.startswith(_FILE)]
    return [pathlib.Path(name.partition(":")[0]) for name in [*named, *following]]


def missing(argv: Sequence[str]) -> str | None:
    """A line on the config file that is not there, with names like it; or None."""
    for path in files_in(argv):
        if path.is_file():
            continue
        there = []
        if path.parent.is_dir():
            there = sorted(p.name for p in path.parent.glob("*.py"))
        near = difflib.get_close_matches(path.name, there, n=3, cutoff=0.5)
        hint = f"; there are: {', '.join(near)}" if near else ""
        return f"--config: there is no file {path}{hint}"
    return None


def error_text(error: BaseException, argv: Sequence[str]) -> str:
    """A line on what went wrong when the flag was read.

    Args:
      error: as it came, of any kind: a config file is code that runs.
      argv: of the command line.
    """
    root = _root(error)
    # The text of a KeyError is otherwise the representation of its message.
    text = root.args[0] if isinstance(root, KeyError) and root.args else root
    lines = [line.strip() for line in str(text).splitlines() if line.strip()]
    # Of a wrapped error, the text is a traceback, whose last line says what it is.
    wrapped = any(line.startswith("Traceback") for line in lines)
    message = lines[-1] if wrapped else "; ".join(lines)
    if isinstance(root, SyntaxError):
        message = f"{root.filename}:{root.lineno}: {root.msg}"
    elif place := _place(root, argv):
        message = f"{place}: {message}"
    elif isinstance(root, KeyError):
        message = f"no field {message}"
    message = message.removeprefix("ValueError: ")
    return f"--config: {message or type(root).__name__}"


def _root(error: BaseException) -> BaseException:
    """The error that others are about."""
    seen = set()
    while id(error) not in seen:
        seen.add(id(error))
        inner = [a for a in error.args if isinstance(a, BaseException)]
        error = (inner or [error.__cause__ or error])[0]
    return error


def _place(error: BaseException, argv: Sequence[str]) -> str | None:
    """The file and line of a config file in which an error came up."""
    files = {str(path.absolute()) for path in files_in(argv)}
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if str(pathlib.Path(frame.filename).absolute()) in files:
            return f"{frame.filename}:{frame.lineno}: {type(error).__name__}"
    return None
