"""The licence that a folder states: in the head of its README.md, or in a file."""

from __future__ import annotations

import pathlib
import re
from typing import NamedTuple

README = "README.md"
_FILES = ("LICENSE", "LICENSE.txt", "LICENSE.md", "LICENCE", "LICENCE.txt", "COPYING")
# What is read of a file at most: heads and titles stand at its start.
_MOST_BYTES = 1 << 16
_HEAD = re.compile(r"\A\s*---[ \t]*\n(.*?)\n---[ \t]*$", re.DOTALL | re.MULTILINE)
# "license: mit", "license: [mit]", and "- mit" in a line of its own.
_VALUE = r"^{}:[ \t]*(?:\[[ \t]*|\n[ \t]*-[ \t]*)?[\"']?([\w.+-]+)"
# The title of a text -> its name on the Hub.
_TITLES = {
    r"Apache License\s+Version 2\.0": "apache-2.0",
    r"MIT License": "mit",
    r"BSD 3-Clause": "bsd-3-clause",
    r"GNU GENERAL PUBLIC LICENSE\s+Version 3": "gpl-3.0",
}


class License(NamedTuple):
    """A licence as it is stated.

    Attributes:
      id: its name on the Hub of Hugging Face; "other": none of those.
      path: of the file that states it.
      name: of one that is "other", where that is stated.
    """

    id: str
    path: pathlib.Path
    name: str | None = None


def read(folder: pathlib.Path) -> License | None:
    """The licence that a folder states; None if it states none.

    The head of README.md comes before a file with the text of a licence.
    """
    path = folder / README
    if path.is_file() and (head := _HEAD.match(_start_of(path))):
        if (license_id := _value("license", head[1])) is not None:
            return License(license_id, path, _value("license_name", head[1]))
    for path in (folder / name for name in _FILES):
        if path.is_file():
            return License(_of_text(_start_of(path)), path)
    return None


def _start_of(path: pathlib.Path) -> str:
    with path.open("rb") as file:
        text = file.read(_MOST_BYTES).decode("utf-8-sig", "replace")
    return text.replace("\r\n", "\n")


def _value(key: str, head: str) -> str | None:
    match = re.search(_VALUE.format(key), head, re.MULTILINE)
    return match and match[1]


def _of_text(text: str) -> str:
    """The name of a licence from the text of it."""
    ids = (x for title, x in _TITLES.items() if re.search(title, text[:500]))
    return next(ids, "other")
