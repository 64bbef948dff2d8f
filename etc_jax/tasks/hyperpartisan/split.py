"""The articles of hyperpartisan news in parts, as in Longformer's experiments.

    python -m etc_jax.tasks.hyperpartisan.split --splits=hp-splits.json \\
        --out=hyperpartisan articles-training-byarticle-20181122.xml

writes `train.jsonl`, `dev.jsonl` and `test.jsonl`: files of the data set like others.
--splits is a JSON object with the ids of each part, without zeros in front.

In the published parts, 58 of the 65 test articles are in train or dev too, and as many
are nowhere. The paper's metrics are of these parts, and so not of unseen articles.
With --disjoint an article that is in several parts is in the last of them alone.
"""

from __future__ import annotations

import argparse
import itertools
import os
import pathlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from etc_jax.base import strict_json
from etc_jax.base.local_paths import ADDED_TO, INPUT
from etc_jax.base.whole_files import whole
from etc_jax.cli import command_line
from etc_jax.datasets import json_lines
from etc_jax.datasets.records import Note, Problems, read_records
from etc_jax.scoring.result import named
from etc_jax.tasks.hyperpartisan.records import parse, read_values

_PROG = "python -m etc_jax.tasks.hyperpartisan.split"

PARTS = ("train", "dev", "test")

# Name of a part -> ids, without zeros in front.
Splits = dict[str, list[str]]


def read_splits(path: str | os.PathLike) -> Splits:
    """The ids of each part, in the order of `PARTS`.

    Raises:
      ValueError: if the file is something else, or a part has an id twice.
      OSError: if it cannot be read.
    """
    try:
        splits = strict_json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except ValueError as e:
        raise ValueError(f"{path}: {e}; expected JSON in UTF-8") from e
    if not isinstance(splits, dict) or not splits or splits.keys() - set(PARTS):
        raise ValueError(
            f"{path}: expected a JSON object with {', '.join(PARTS)}, or some of them, "
            f"and lists of ids; got {str(splits)[:40]!r}"
        )
    return {name: _ids(path, name, splits[name]) for name in PARTS if name in splits}


def _ids(path: str | os.PathLike, part: str, value: Any) -> list[str]:
    if not isinstance(value, list) or any(type(x) not in (int, str) for x in value):
        raise ValueError(
            f"{path}: {part!r} is {str(value)[:40]!r}, expected a list of ids"
        )
    ids = [_plain(str(x)) for x in value]
    if len(set(ids)) < len(ids):
        twice = next(x for i, x in enumerate(ids) if x in ids[:i])
        raise ValueError(f"{path}: {part!r} has the id {twice} twice, expected once")
    return ids


def _plain(name: str) -> str:
    """An id without zeros in front: files and parts spell it differently."""
    return name.lstrip("0") or "0"


def overlaps(splits: Splits) -> Iterator[tuple[str, str, list[str]]]:
    """(part, later part, ids) of parts that have ids in common."""
    for (one, ids), (later, others) in itertools.combinations(splits.items(), 2):
        if both := sorted(set(ids) & set(others), key=others.index):
            yield one, later, both


def disjoint(splits: Splits) -> Splits:
    """The parts without what a later one has too."""
    taken: set[str] = set()
    remaining = {}
    for name, ids in reversed(splits.items()):
        remaining[name] = [x for x in ids if x not in taken]
        taken.update(ids)
    return {name: remaining[name] for name in splits}


def write_parts(
    paths: Sequence[str | os.PathLike],
    splits: Splits,
    out: str | os.PathLike,
    problems: Problems | None = None,
) -> dict[str, list[str]]:
    """Writes a file for each part that has an article; all are held in memory.

    Args:
      paths: files of articles; see `records.read`.
      splits: of `read_splits`.
      out: the folder, which is made if it is not there.
      problems: where what is wrong is counted; None: a bad article is raised.

    Returns:
      For each part its ids that no file has.

    Raises:
      BadRecordError: without `problems`, naming the file and the record.
      ValueError: if no part has an article, or a file of one is there already.
      OSError: if a file cannot be read or written.
    """
    files = {name: pathlib.Path(out) / f"{name}.jsonl" for name in splits}
    if existing := [str(path) for path in files.values() if path.exists()]:
        raise ValueError(f"{', '.join(existing)} exists; give another folder")
    articles = read_records(paths, _checked, problems, read_values)
    values = {_plain(article.id): article.value for article in articles}
    ids_with_article = {
        name: [i for i in ids if i in values] for name, ids in splits.items()
    }
    if not any(ids_with_article.values()):
        raise ValueError(
            f"no part has one of the {len(values)} articles, such as "
            f"{named(list(values))}: are these the articles of the parts?"
        )
    pathlib.Path(out).mkdir(parents=True, exist_ok=True)
    for name, ids in ids_with_article.items():
        if ids:
            text = json_lines.text_of([values[i] for i in ids])
            with whole(files[name]) as part:
                part.write_text(text, encoding="utf-8")
    return {name: [i for i in ids if i not in values] for name, ids in splits.items()}


class _Article(NamedTuple):
    """An article that can be used, as it was read."""

    id: str
    value: Mapping[str, Any]


def _checked(value: Any, note: Note) -> _Article:
    return _Article(parse(value, note).id, value)


# --- command line ---------------------------------------------------------------------


def _report(splits: Splits, missing: Mapping[str, list[str]]) -> Iterator[str]:
    for name, ids in splits.items():
        lacking = missing[name]
        yield f"{name}: {len(ids) - len(lacking)} of {len(ids)} articles"
        if lacking:
            none = "; no file is written" if len(lacking) == len(ids) else ""
            yield f"  WARNING: not in the files: {named(lacking)}{none}"
    for one, later, ids in overlaps(splits):
        yield (
            f"WARNING: {len(ids)} of the {len(splits[later])} ids of {later} are in "
            f"{one} too: {named(ids)}; --disjoint leaves them to {later}"
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code, 2 for bad input."""
    parser = command_line.ArgumentParser(_PROG, __doc__)
    parser.add_argument(
        "--splits", required=True, type=INPUT, help="JSON file with ids of parts"
    )
    parser.add_argument(
        "--out", required=True, type=ADDED_TO, help="folder to write into"
    )
    parser.add_argument(
        "--disjoint", action="store_true", help="no article in more than one part"
    )
    parser.add_argument(
        "articles", nargs="+", type=INPUT, help="files articles-NAME.xml"
    )
    args = parser.parse_args(argv)
    return command_line.run(_PROG, lambda: _run(args))


def _run(args: argparse.Namespace) -> str:
    problems = Problems()
    splits = read_splits(args.splits)
    splits = disjoint(splits) if args.disjoint else splits
    lines = _report(splits, write_parts(args.articles, splits, args.out, problems))
    return "\n".join([*lines, *[problems.report()] * bool(problems.counts)])


if __name__ == "__main__":
    sys.exit(main())
