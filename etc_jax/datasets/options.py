"""How inputs are made where a data set leaves a choice: as flags, and as NAME=VALUE."""

from __future__ import annotations

import argparse
import itertools
import json
import typing
from collections.abc import Sequence
from typing import Any

from etc_jax.datasets.task import Task

_FLAGS = (
    ("stride", int, "tokens from one window to the next (default: of the paper)"),
    ("question_tokens", int, "longest question, the rest is cut off (default: 32)"),
    ("tokens_per_block", int, "a global token for so many long ones: fixed blocks"),
    ("null_share", float, "of windows without an answer, kept (default: 1)"),
    ("unanswerable_share", float, "of windows of questions without any (default: 1)"),
    ("seed", int, "of what is kept (default: 0)"),
)
_SWITCHES = (("flat", "no global token but [CLS]"),)
_COREFERENCE_FLAGS = (
    ("span_tokens", int, "of the longest span that may be a mention (default: 30)"),
    ("candidates", int, "room for spans in a window (default: 49152)"),
    ("part_length", int, "tokens that are read at once (default: 0, all)"),
)
_COREFERENCE_SWITCHES = (
    ("singletons", "what is mentioned once is an entity, as in LitBank"),
)
_GROUPS = {
    "natural_questions; --tokens_per_block also openkp": (_FLAGS, _SWITCHES),
    "coreference": (_COREFERENCE_FLAGS, _COREFERENCE_SWITCHES),
}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the options of all data sets to a command line."""
    for title, (flags, switches) in _GROUPS.items():
        add = parser.add_argument_group(title).add_argument
        for name, kind, text in flags:
            add(f"--{name}", type=kind, help=text)
        for name, text in switches:
            add(f"--{name}", action="store_true", default=None, help=text)


def given(args: argparse.Namespace) -> dict[str, Any]:
    """Those that a command line of `add_flags` has, by name."""
    tables = itertools.chain(*_GROUPS.values())
    names = [name for name, *_ in itertools.chain(*tables)]
    return {n: getattr(args, n) for n in names if getattr(args, n) is not None}


def parsed(task: Task, texts: Sequence[str]) -> dict[str, Any]:
    """Options by name, from texts such as "stride=256" and "flat=true".

    Raises:
      ValueError: if a text has another form, or a value is not of the option's type.
    """
    found = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign:
            raise ValueError(f"option {text!r}; expected NAME=VALUE, as stride=256")
        found[name] = _value(task, name, value)
    return found


def _value(task: Task, name: str, text: str) -> Any:
    hint = typing.get_type_hints(type(task.options)).get(name)
    if hint is None:  # there is none: `Task.with_options` says so
        return text
    kinds = typing.get_args(hint) or (hint,)
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    if float in kinds and type(value) is int:
        return float(value)
    if type(value) not in kinds:
        names = " or ".join({type(None): "null"}.get(k, k.__name__) for k in kinds)
        raise ValueError(f"option {name} is {text!r}; expected {names}")
    return value
