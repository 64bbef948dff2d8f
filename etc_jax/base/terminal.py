"""What is printed, without what moves, colours or reorders a terminal.

Records, file names and configs of others end up in messages: all that a command prints
goes through `say`.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from typing import TextIO

from etc_jax.base import registry
from etc_jax.base.user_cache import as_given

# Controls but tab and line feed, what ends lines and paragraphs or turns the direction
# of text, and halves of characters, which no encoding has.
CONTROL = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
    "\ud800-\udfff]"
)


def printable(text: str) -> str:
    """The text with an escape for each such character, as JSON spells it: \\u001b."""
    return CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def in_shell(text: str) -> str:
    """A text as a shell takes it: in double quotes if they keep it as it is."""
    return shlex.quote(text) if set(text) & set('"$`\\!') else f'"{text}"'


def listing(lines: Sequence[str], most: int) -> str:
    """The first lines, indented and each after a line feed; then how many more."""
    more = [f"... and {len(lines) - most} more"] if len(lines) > most else []
    return "".join(f"\n  {line}" for line in [*lines[:most], *more])


def next_command(*words: str, note: str = "") -> str:
    """A line that says which command to give next, as a shell takes it.

    Modules that this one was told to import are named: data cannot name them.

    Args:
      *words: of the command.
      note: stands before it, such as what a FILE in it is.
    """
    plugins = [f"--plugin={name}" for name in registry.named_modules()]
    command, *others = words
    line = shlex.join([command, *plugins, *others])
    return f"next{note and f' ({note})'}: etc-jax {line}"


def say(text: str, file: TextIO | None = None) -> None:
    """Prints a text and what ends the line, escaped; see `printable`.

    What lies in a store is called by its address, not by the path of its copy.

    Args:
      text: of any origin.
      file: a stream; None: standard output. What it cannot encode is escaped too.
    """
    file = sys.stdout if file is None else file
    encoding = getattr(file, "encoding", None) or "utf-8"
    shown = printable(as_given(text)).encode(encoding, "backslashreplace")
    print(shown.decode(encoding), file=file, flush=True)
