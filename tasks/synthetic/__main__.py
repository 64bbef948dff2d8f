"""Writes invented items in the raw format of a real data set.

    python -m tasks.synthetic --task=hotpotqa --count=1000 --seed=0 --out=train.json
    python -m tasks.synthetic --task=wikihop --count=1000 --candidates=8 --out=w.json
    python -m tasks.synthetic --task=natural_questions --count=1000 --out=nq.jsonl.gz
    python -m tasks.synthetic --task=teachers --count=1000 --out=teachers.json
    python -m tasks.synthetic --task=text_to_text --count=1000 --out=pairs.jsonl
    python -m tasks.synthetic --task=backwards --count=1000 --out=words.jsonl
    python -m tasks.synthetic --task=squad --count=1000 --facts=4 --out=squad.json

Records are written as they are made, so that any number fits in memory: in one array,
or one a line where the data set has them so; gzipped if --out ends in .gz. The same
arguments give the same file; --start goes on in the same series of records.

Little to learn but following names, with two relations, one wording each:

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
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import tqdm

from etc_jax.data.whole_files import check_out, whole_text
from etc_jax.local_paths import ArgumentParser
from etc_jax.terminal import say
from tasks.synthetic import (
    backwards,
    hotpotqa,
    natural_questions,
    openkp,
    squad,
    teachers,
    text_to_text,
    wikihop,
)
from tasks.synthetic.schema import KINDS


class SyntheticTask(NamedTuple):
    """Records of a task, the sizes that they have, and the form of its files.

    Attributes:
      module: with `records`.
      sizes: of a record.
      lines: one record a line.
      around: else, what stands before the first record and after the last.
    """

    module: Any
    sizes: type
    lines: bool = False
    around: tuple[str, str] = ("[", "]")


TASKS = {
    "backwards": SyntheticTask(backwards, backwards.BackwardsSizes, lines=True),
    "hotpotqa": SyntheticTask(hotpotqa, hotpotqa.HotpotQaSizes),
    "natural_questions": SyntheticTask(
        natural_questions, natural_questions.NaturalQuestionsSizes, lines=True
    ),
    "openkp": SyntheticTask(openkp, openkp.OpenkpSizes, lines=True),
    "squad": SyntheticTask(
        squad, squad.SquadSizes, around=('{"version": "1.1", "data": [', "]}")
    ),
    "teachers": SyntheticTask(teachers, teachers.TeachersSizes),
    "text_to_text": SyntheticTask(text_to_text, hotpotqa.HotpotQaSizes, lines=True),
    "wikihop": SyntheticTask(wikihop, wikihop.WikiHopSizes),
}


def write_records(
    path: str | os.PathLike,
    records: Iterable[dict[str, Any]],
    *,
    lines: bool = False,
    around: tuple[str, str] = ("[", "]"),
) -> None:
    """Writes a file of records, which appears whole or not at all.

    Args:
      path: of the file; gzipped if it is named `.gz`.
      records: JSON objects.
      lines: one object a line, and nothing else; otherwise one JSON array.
      around: what stands before and after the records of an array.

    Raises:
      OSError: if it cannot be written.
    """
    with whole_text(path) as handle:
        for text in _pieces(records, lines, around):
            handle.write(text)


def _pieces(
    records: Iterable[dict[str, Any]], lines: bool, around: tuple[str, str]
) -> Iterator[str]:
    """The text of a file, a record at a time."""
    first, last = around
    between = f"{first}\n"
    for record in records:
        text = json.dumps(record, ensure_ascii=False)
        yield f"{text}\n" if lines else between + text
        between = ",\n"
    if not lines:
        yield f"\n{last}\n" if between == ",\n" else f"{first}{last}\n"


def _range(text: str) -> tuple[int, int]:
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
    parser = ArgumentParser(
        prog="python -m tasks.synthetic",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--task", required=True, choices=sorted(TASKS))
    parser.add_argument("--count", required=True, type=int, help="records")
    parser.add_argument("--out", required=True, help="file to write, JSON or .gz")
    parser.add_argument("--seed", type=int, default=0, help="of the series")
    parser.add_argument("--start", type=int, default=0, help="number of the first")
    parser.add_argument("--overwrite", action="store_true", help="if --out exists")
    parser.add_argument("--words", type=int, help="fill items up to so many words")
    _add_worlds(parser)
    _add_own(parser)
    return parser.parse_args(argv)


def _add_worlds(parser: argparse.ArgumentParser) -> None:
    """Sizes of all tasks that tell of a world."""
    sizes = parser.add_argument_group("how large and hard items are, but for openkp")
    add = sizes.add_argument
    add("--contexts", type=int, help="documents of an item")
    add("--facts", type=int, help="facts that a document tells")
    add("--hops", type=_range, help="steps to the answer: 2, or 2-3")
    add("--pronouns", type=float, help="share of subjects that are not named")
    add("--wordings", type=int, help="ways to say the same")
    add("--kinds", type=_kinds, help=f"that have documents, of {','.join(KINDS)}")
    add("--names", type=_words, help="file of words to name entities with")


def _add_own(parser: argparse.ArgumentParser) -> None:
    """Sizes of one task each."""
    add = parser.add_argument_group("hotpotqa and text_to_text").add_argument
    add("--comparisons", type=float, help="share of the questions")
    add = parser.add_argument_group("wikihop and teachers").add_argument
    add("--candidates", type=int)
    for name, text in (
        ("through_candidates", "the way to the answer leads over candidates alone"),
        ("masked", "candidates are ___MASK<k>___"),
    ):
        add(f"--{name}", action="store_true", default=None, help=text)
    add = parser.add_argument_group("backwards alone").add_argument
    add("--length", type=_range, help="words of an input: 8, or 3-8")
    add = parser.add_argument_group("natural_questions alone").add_argument
    add("--nulls", type=float, help="share of questions without an answer")
    add("--yes_no", type=float, help="share of those answered by yes or no")
    add("--long_only", type=float, help="share of those with a long answer alone")
    add("--annotators", type=int, help="1 as in training files, 5 as in development")
    add("--apart", type=int, help="words between an entity's name and its facts")
    add = parser.add_argument_group("squad alone").add_argument
    add("--things", type=int, help="that are told of some name")
    add("--name_words", type=int, help="words of a name")
    add("--name_pool", type=int, help="words that names are made of")
    add = parser.add_argument_group("openkp alone").add_argument
    add("--keyphrases", type=_range, help="of a page: 2, or 1-3")
    add("--others", type=int, help="phrases that are no keyphrase")
    add("--mentions", type=int, help="how often the text says a phrase")


def _sizes(args: argparse.Namespace) -> Any:
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
    check_out(out, overwrite=args.overwrite)
    task = TASKS[args.task]
    records = task.module.records(
        args.count, seed=args.seed, sizes=_sizes(args), start=args.start
    )
    bar = tqdm.tqdm(records, total=args.count, unit=" records", disable=None)
    write_records(out, bar, lines=task.lines, around=task.around)
    say(f"wrote {args.count} records, {out.stat().st_size / 2**20:.1f} MiB, to {out}")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code, 2 for bad input."""
    args = _parse(argv)
    try:
        _write(args)
    except (ValueError, OSError) as e:
        say(f"error: {e}", sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
