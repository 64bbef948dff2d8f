"""Writes invented items in the raw format of a real data set.

    python -m tasks.synthetic --task=hotpotqa --count=1000 --seed=0 --out=train.json
    python -m tasks.synthetic --task=wikihop --count=1000 --candidates=8 --out=w.json

Records are written as they are made, so that any number fits in memory. The same
arguments give the same file; --start goes on in the same series of records.

Little to learn but following names, with two relations told in one way each:

    python -m tasks.synthetic --task=wikihop --count=1000 --out=easy.json \\
      --through_candidates --kinds=person --facts=2 --contexts=9 \\
      --wordings=1 --pronouns=0
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import tqdm

from tasks.synthetic import hotpotqa, wikihop
from tasks.synthetic.schema import KINDS
from tasks.synthetic.worlds import Sizes


class Task(NamedTuple):
    """Records of a task, and the sizes that they have."""

    module: Any
    sizes: type[Sizes]


TASKS = {
    "hotpotqa": Task(hotpotqa, hotpotqa.HotpotQaSizes),
    "wikihop": Task(wikihop, wikihop.WikiHopSizes),
}


def write_records(path: str | os.PathLike, records: Iterable[dict[str, Any]]) -> None:
    """Writes a JSON array, a record a line, which appears whole or not at all.

    Raises:
      OSError: if it cannot be written.
    """
    path = pathlib.Path(path)
    part = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        with open(part, "w", encoding="utf-8") as handle:
            between = "[\n"
            for record in records:
                handle.write(between + json.dumps(record, ensure_ascii=False))
                between = ",\n"
            handle.write("\n]\n" if between == ",\n" else "[]\n")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _hops(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    if not found:
        raise argparse.ArgumentTypeError(f"must be like 2 or 2-3, got {text!r}")
    return int(found[1]), int(found[2] or found[1])


def _kinds(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _words(path: str) -> tuple[str, ...]:
    try:
        words = tuple(pathlib.Path(path).read_text("utf-8").split())
    except (OSError, UnicodeDecodeError) as e:
        raise argparse.ArgumentTypeError(f"cannot be read: {e}") from e
    if not words:
        raise argparse.ArgumentTypeError(f"{path} holds no word")
    return words


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tasks.synthetic",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--task", required=True, choices=sorted(TASKS))
    parser.add_argument("--count", required=True, type=int, help="records")
    parser.add_argument("--out", required=True, help="file to write, JSON")
    parser.add_argument("--seed", type=int, default=0, help="of the series")
    parser.add_argument("--start", type=int, default=0, help="number of the first")
    parser.add_argument("--overwrite", action="store_true", help="if --out exists")
    sizes = parser.add_argument_group("sizes, and how hard the items are")
    add = sizes.add_argument
    add("--contexts", type=int, help="documents of an item")
    add("--facts", type=int, help="facts that a document tells")
    add("--words", type=int, help="fill items up to so many words")
    add("--hops", type=_hops, help="steps to the answer: 2, or 2-3")
    add("--pronouns", type=float, help="share of subjects that are not named")
    add("--wordings", type=int, help="ways to say the same")
    add("--kinds", type=_kinds, help=f"that have documents, of {','.join(KINDS)}")
    add("--names", type=_words, help="file of words to name entities with")
    one = parser.add_argument_group("hotpotqa alone")
    one.add_argument("--comparisons", type=float, help="share of the questions")
    two = parser.add_argument_group("wikihop alone")
    two.add_argument("--candidates", type=int)
    for name, text in (
        ("through_candidates", "the way to the answer leads over candidates alone"),
        ("masked", "candidates are ___MASK<k>___"),
    ):
        two.add_argument(f"--{name}", action="store_true", default=None, help=text)
    return parser.parse_args(argv)


def _sizes(args: argparse.Namespace) -> Sizes:
    kind = TASKS[args.task].sizes
    own = {field.name for field in dataclasses.fields(kind)}
    every = {f.name for task in TASKS.values() for f in dataclasses.fields(task.sizes)}
    given = {n: v for n, v in vars(args).items() if n in every and v is not None}
    if foreign := sorted(set(given) - own):
        raise ValueError(
            f"--task={args.task} has no --{', --'.join(foreign)}; its sizes are "
            f"{', '.join(sorted(own))}"
        )
    return kind(**given)


def _write(args: argparse.Namespace) -> None:
    for name, least in (("count", 1), ("start", 0)):
        if getattr(args, name) < least:
            raise ValueError(
                f"--{name} must be at least {least}, got {getattr(args, name)}"
            )
    out = pathlib.Path(args.out)
    if out.is_dir() or not out.parent.is_dir():
        raise ValueError(f"--out must be a file in a folder that exists, got {out}")
    if out.exists() and not args.overwrite:
        raise ValueError(f"{out} exists; give another --out or --overwrite")
    records = TASKS[args.task].module.records(
        args.count, seed=args.seed, sizes=_sizes(args), start=args.start
    )
    bar = tqdm.tqdm(records, total=args.count, unit=" records", disable=None)
    write_records(out, bar)
    print(f"wrote {args.count} records, {out.stat().st_size / 2**20:.1f} MiB, to {out}")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code, 2 for bad input."""
    args = _parse(argv)
    try:
        _write(args)
    except (ValueError, OSError) as e:
        print(f"error: {e}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
