"""What the docstring of a dataclass says of each field."""

import inspect
import re

# "  NAME, NAME: text", with lines that go on.
_ENTRY = re.compile(r"^  (\w+(?:, \w+)*): (.*(?:\n {4}.*)*)", re.MULTILINE)


def texts_of(cls: type) -> dict[str, str]:
    """{field: its text}, of a class and its bases, without the dot at the end."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        for names, text in _ENTRY.findall(inspect.cleandoc(base.__doc__ or "")):
            said = " ".join(text.split()).rstrip(".")
            found |= dict.fromkeys(names.split(", "), said)
    return found
