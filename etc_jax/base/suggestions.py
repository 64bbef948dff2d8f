"""The name that a misspelt one was meant to be."""

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The question whether the nearest of some names is meant; "" if none is near.

    A name that begins with the misspelt one is nearer than all others; capital letters
    and the dashes of a flag do not count.
    """
    plain = {valid.lstrip("-").lower(): valid for valid in sorted(names, reverse=True)}
    typed = name.lstrip("-").lower()
    near = sorted(valid for valid in plain if typed and valid.startswith(typed))
    near = near or difflib.get_close_matches(typed, plain, n=1, cutoff=0.65)
    return f"did you mean {plain[near[0]]!r}?" if near else ""


def suggestion(name: str, names: Iterable[str]) -> str:
    """A hint for a name that does not exist: the nearest one, or all of them."""
    names = sorted(names)
    return did_you_mean(name, names) or f"there are: {', '.join(names) or 'none'}"
