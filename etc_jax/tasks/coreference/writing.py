"""Clusters of mentions as the response file that CoNLL-2012's scorer reads.

    python -m etc_jax.tasks.coreference.writing --out=response \\
        --predictions=runs/coref/dev/predictions.json development.english.v4_gold_conll

The predictions are what `etc-jax evaluate` wrote for the same files.
"""

from __future__ import annotations

import argparse
import collections
import os
import pathlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from etc_jax.base import strict_json
from etc_jax.base.local_paths import INPUT, OUTPUT
from etc_jax.base.whole_files import check_out, whole
from etc_jax.cli import command_line
from etc_jax.scoring.coreference import checked_clusters
from etc_jax.tasks import coreference
from etc_jax.tasks.coreference.records import Record, Span

_PROG = "python -m etc_jax.tasks.coreference.writing"


def write(
    predictions: Mapping[str, Sequence[Sequence[Sequence[int]]]],
    records: Iterable[Record],
    path: str | os.PathLike,
) -> None:
    """Writes the response file that the CoNLL-2012 scorer reads, with five columns.

    Args:
      predictions: by id of the record, clusters of mentions, each (first word, last
        word); a record that is not there has no cluster.
      records: parts of the file, in its order.
      path: of the file.

    Raises:
      ValueError: if a prediction is of no record, a mention is outside of its part or
        in two clusters, or mentions of one cluster cross, which brackets cannot say.
    """
    text, left = [], set(predictions)
    for record in records:
        text += _response(record, predictions.get(record.id, ()))
        left.discard(record.id)
    if left:
        raise ValueError(
            f"predictions for {len(left)} ids without a record, such as {min(left)!r}; "
            "give the records that they were made of"
        )
    with whole(path) as part:
        part.write_text("".join(text), encoding="utf-8")


def _response(
    record: Record, clusters: Sequence[Sequence[Sequence[int]]]
) -> Iterator[str]:
    """The lines of a part."""
    where = f"predicted {record.id!r}"
    cells = brackets(checked_clusters(clusters, where), where)
    words = sum(map(len, record.sentences))
    if outside := [word for word in cells if not 0 <= word < words]:
        raise ValueError(
            f"{where}: a mention reaches word {outside[0]} of {words}; the prediction "
            "is of another record"
        )
    yield f"#begin document {record.heading}\n"
    word = 0
    for sentence in record.sentences:
        for number, spelled in enumerate(sentence):
            cell = "|".join(cells.get(word, "-"))
            row = (record.document, str(int(record.part)), str(number), spelled, cell)
            # Tabs, at which every version of the scorer parts columns.
            yield "\t".join(row) + "\n"
            word += 1
        yield "\n"
    yield "#end document\n"


def brackets(clusters: Sequence[Iterable[Span]], where: str) -> dict[int, list[str]]:
    """What stands in the last column at each word where something does.

    Raises:
      ValueError: naming `where`, if mentions of one cluster cross.
    """
    cells = collections.defaultdict(list)
    for number, cluster in enumerate(clusters):
        inside: list[Span] = []
        for first, last in sorted(cluster, key=lambda span: (span[0], -span[1])):
            while inside and inside[-1][1] < first:
                inside.pop()
            if inside and inside[-1][1] < last:
                raise ValueError(
                    f"{where}: mentions {inside[-1]} and {(first, last)} of one "
                    "cluster cross, which brackets cannot say; leave one out"
                )
            inside.append((first, last))
            if first == last:
                cells[first].append(f"({number})")
            else:
                cells[first].append(f"({number}")
                cells[last].append(f"{number})")
    return cells


# --- command line ---------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code, 2 for bad input."""
    parser = command_line.ArgumentParser(_PROG, __doc__)
    parser.add_argument(
        "--predictions", required=True, type=INPUT, help="what etc-jax evaluate wrote"
    )
    parser.add_argument(
        "--out", required=True, type=OUTPUT, help="response file to write"
    )
    parser.add_argument("--overwrite", action="store_true", help="if --out exists")
    parser.add_argument(
        "files", nargs="+", type=INPUT, help="that the predictions are of"
    )
    args = parser.parse_args(argv)
    return command_line.run(_PROG, lambda: _run(args))


def _run(args: argparse.Namespace) -> str:
    check_out(args.out, overwrite=args.overwrite)
    predictions = strict_json.loads(pathlib.Path(args.predictions).read_text("utf-8"))
    if not isinstance(predictions, dict):
        raise ValueError(
            f"{args.predictions} holds a {type(predictions).__name__}, expected "
            "clusters by document"
        )
    write(predictions, coreference.read(args.files), args.out)
    return f"wrote {args.out}"


if __name__ == "__main__":
    sys.exit(main())
