"""The command of an invented data set whose release is a folder of files."""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from etc_jax.local_paths import ArgumentParser
from etc_jax.terminal import say


def run(
    name: str,
    text: str,
    argv: Sequence[str] | None,
    *,
    items: str,
    splits: Sequence[str],
    records: Callable[..., Iterable[Any]],
    write: Callable[..., pathlib.Path],
    sizes: type | None = None,
    help_: Mapping[str, str] | None = None,
) -> int:
    """The command that writes a split of a release.

    Args:
      name: of the module.
      text: its docstring.
      argv: arguments; None: those of the process.
      items: what a record is called, such as "reviews".
      splits: of the release.
      records: makes records of a count, seed and start, and sizes where there are any.
      write: writes records to a folder, with `split`; returns where they are.
      sizes: dataclass, whose fields are options too; None: there are none.
      help_: field of sizes -> what it is.

    Returns:
      The exit code, 2 for bad input.
    """
    parser = ArgumentParser(
        prog=f"python -m {name}",
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--count", required=True, type=int, help=items)
    add("--out", required=True, help="folder of the release")
    add("--split", required=True, choices=splits)
    add("--seed", type=int, default=0, help="of the series")
    add("--start", type=int, default=0, help="number of the first")
    usual = dataclasses.asdict(sizes()) if sizes is not None else {}
    for field, value in usual.items():
        add(f"--{field}", type=type(value), default=value, help=help_[field])
    args = parser.parse_args(argv)
    try:
        if args.count < 1 or args.start < 0:
            raise ValueError("--count must be at least 1, and --start at least 0")
        more = {}
        if sizes is not None:
            more["sizes"] = sizes(**{field: getattr(args, field) for field in usual})
        made = records(args.count, seed=args.seed, start=args.start, **more)
        path = write(args.out, made, split=args.split)
    except (ValueError, OSError) as e:
        say(f"error: {e}", sys.stderr)
        return 2
    say(f"wrote {args.count} {items} to {path}")
    return 0
