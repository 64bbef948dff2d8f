"""Counts inputs and their lengths: of caches, or of the files of a data set.

    etc-jax stats caches/nq_train caches/nq_dev caches/books
    etc-jax stats --long_length=4096 --global_length=230 runs/base/data/*/train
    etc-jax stats --task=natural_questions --tokenizer=vocab.txt \\
        'nq-train-*.jsonl.gz' 'nq-dev-*.jsonl.gz'

Prints a row for each set: how many instances it has, and percentiles of their lengths
in tokens, as table 1 of the ETC paper. Folders are what `etc-jax prepare` or the
preparation of pre-training text made. The lengths are then those of windows, which are
cut to the size of the input, and of whole documents.

With --long_length text for pre-training is packed as `data.packing=best_fit` does: how
many windows it makes, which share of their tokens is filled, how many there were if no
two documents shared one, and how many times faster an epoch is by that, where a step
takes as long whatever its windows hold (appendix C of the ETC paper: three times).

A cache does not know how long records were before anything was cut off: with --task
their files are read and tokenised. The length is that of the long input that a record
would need, special tokens included: question and context (of an article what lies in
its top-level candidates, as in the inputs). A row is an argument then; in quotes, a
pattern is one row of all its files.

--out=FILE writes that as JSON too, with the mean of the lengths.

A percentile is the smallest length that so many of a hundred instances are not above.
What was passed over is counted after the tables.
"""

from __future__ import annotations

import argparse
import dataclasses
import glob
import json
import os
import pathlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from etc_jax.base import strict_json
from etc_jax.base.local_paths import INPUT, OF_MODEL, OUTPUT
from etc_jax.base.terminal import say
from etc_jax.base.whole_files import write_whole
from etc_jax.cli import command_line, prepare
from etc_jax.data.array_folder import HEADER
from etc_jax.data.text.cache import TokenCache
from etc_jax.data.text.packing import MAX_SENTENCE_TOKENS, pack
from etc_jax.data.tokenizers.tokenizer import Tokenizer, open_tokenizer
from etc_jax.data.windows.arrays import offsets_of
from etc_jax.data.windows.cache import WindowCache
from etc_jax.datasets import task as task_lib
from etc_jax.datasets.lengths import Lengths
from etc_jax.datasets.records import Problems
from etc_jax.datasets.task import Task

_PROG = "etc-jax stats"

PERCENTILES = (50.0, 95.0, 100.0)
_NAMES = {50.0: "median", 100.0: "max"}
_PROGRESS_SECS = 10.0


@dataclasses.dataclass(frozen=True)
class Stats:
    """Statistics of a set.

    Attributes:
      name: as it was asked for.
      kind: "windows", "documents" or "records"; sets of one kind share a table.
      facts: what is counted, by the heads of columns.
      lengths: by what they are of; the first is of the instances.
      notes: what was passed over, as lines.
      passed_over: the same for a program.
      limit: lengths over it are counted; None: none are.
    """

    name: str
    kind: str
    facts: Mapping[str, Any]
    lengths: Mapping[str, Lengths]
    notes: str
    passed_over: Mapping[str, Any]
    limit: int | None = None

    def as_json(self, percentiles: Sequence[float]) -> dict[str, Any]:
        """As JSON values."""
        return {
            "name": self.name,
            "kind": self.kind,
            **self.facts,
            "lengths": {
                what: self._as_json(lengths, percentiles)
                for what, lengths in self.lengths.items()
            },
            "passed_over": self.passed_over,
        }

    def _as_json(self, lengths: Lengths, percentiles) -> dict[str, Any]:
        values = {
            "number": lengths.number,
            "mean": lengths.total / lengths.number,
            "percentiles": {f"{p:g}": lengths.percentile(p) for p in percentiles},
        }
        if self.limit is not None:
            values["over"] = {str(self.limit): lengths.over(self.limit)}
        return values


# --- sets -----------------------------------------------------------------------------


def of_cache(path: str | os.PathLike, **lengths: int | None) -> Stats:
    """Of a window cache or a token cache, which is checked.

    Args:
      path: its folder.
      **lengths: of windows that the text of a token cache is packed into, as of
        `packing.pack`; none: it is not.

    Raises:
      FileNotFoundError: if there is none.
      ValueError: if it is damaged, of another format, empty, or not to be packed so.
    """
    folder = pathlib.Path(path)
    if folder.is_file():
        raise ValueError(
            f"{folder} is a file, expected the folder of a cache; for files of a data "
            "set give --task and --tokenizer"
        )
    file = folder / HEADER
    if not file.exists():
        raise FileNotFoundError(f"no cache in {folder} ({HEADER} is missing)")
    try:
        header = strict_json.loads(file.read_text(encoding="utf-8"))
    except ValueError as e:
        raise ValueError(f"{file} is damaged ({e}); build the cache again") from e
    # What only one of the formats has.
    if isinstance(header, dict) and "schema" in header:
        if lengths:
            raise ValueError(
                f"{folder} has windows of their own lengths; --long_length and "
                "--global_length are of text for pre-training: leave them out"
            )
        return _of_windows(WindowCache.open(folder), os.fspath(path))
    if isinstance(header, dict) and "token_dtype" in header:
        return _of_documents(TokenCache.open(folder), os.fspath(path), lengths)
    raise ValueError(
        f"{file} is that of neither a window cache nor a token cache; give a folder "
        "that etc-jax prepare or etc_jax.data made"
    )


def _of_windows(cache: WindowCache, name: str) -> Stats:
    lengths = {axis: Lengths() for axis in cache.schema.lengths}
    for axis, of_axis in lengths.items():
        of_axis.add_between(cache.arrays[offsets_of(axis)])
    header = cache.header
    return Stats(
        name=name,
        kind="windows",
        facts={
            "task": cache.task,
            "records": header["counts"]["records"],
            "windows": _some(cache.num_windows, cache.path, "window"),
        },
        lengths=lengths,
        notes=prepare.report(cache),
        passed_over={key: header[key] for key in ("left_out", "found")},
    )


def _of_documents(
    cache: TokenCache, name: str, packed: Mapping[str, int | None]
) -> Stats:
    documents, sentences = Lengths(), Lengths()
    documents.add_between(cache.document_offsets, cache.sentence_offsets)
    sentences.add_between(cache.sentence_offsets)
    number = _some(cache.num_documents, cache.path, "document")
    replaced = cache.header["counts"].get("replaced_chars", 0)
    shown = f"{replaced} characters of it are no Unicode and are replaced"
    return Stats(
        name=name,
        kind="documents",
        facts={
            "documents": number,
            "sentences": cache.num_sentences,
            **(_packed(cache, packed) if packed else {}),
        },
        lengths={"document": documents, "sentence": sentences},
        notes=f"{name}: {shown if replaced else 'nothing passed over'}",
        passed_over={"replaced_chars": replaced},
    )


def _packed(cache: TokenCache, lengths: Mapping[str, int | None]) -> dict[str, Any]:
    longest = min(MAX_SENTENCE_TOKENS, lengths["long_length"])
    plan = pack(cache, **lengths, max_sentence_tokens=longest)
    # A piece is a document, or a part of one that is too long for a window.
    windows, pieces = plan.num_windows, len(plan.pieces)
    return {
        "windows": windows,
        "filled": round(plan.counts.fill, 4),
        "unpacked windows": pieces,
        "times faster": round(pieces / windows, 2),
    }


def _some(number: int, where: Any, what: str) -> int:
    if not number:
        raise ValueError(f"{where} has no {what}: there is nothing to count")
    return number


def of_files(
    task: Task,
    paths: Sequence[str | os.PathLike],
    tokenizer: Tokenizer,
    *,
    name: str,
    limit: int | None = None,
    tell_fn: Callable[[int], None] = lambda records: None,
) -> Stats:
    """Of the records of some files, whole; memory does not grow but for their ids.

    Args:
      task: the data set.
      paths: of its official release.
      tokenizer: as for its inputs.
      name: of the set.
      limit: longer records are counted; None: the long input of the task.
      tell_fn: called with the number of records so far.

    Raises:
      BadRecordError: if a file is broken or cut short: the metrics of a part are not
        those of the file.
      ValueError: if no record can be read.
      OSError: if a file cannot be read.
    """
    problems, lengths = Problems(), Lengths()
    for length in task.record_lengths(paths, tokenizer, problems):
        lengths.add(length)
        tell_fn(lengths.number)
    if broken := problems.first_of_files():
        raise broken
    if not lengths.number:
        raise ValueError(f"{name} has no record that can be used: {problems.report()}")
    return Stats(
        name=name,
        kind="records",
        facts={"task": task.name, "records": lengths.number},
        lengths={"record": lengths},
        notes=f"{name}: {problems.report()}",
        passed_over={
            kind: {"count": count, "first": problems.messages[kind]}
            for kind, count in problems.counts.items()
        },
        limit=task.sizes.text_length if limit is None else limit,
    )


# --- tables ---------------------------------------------------------------------------


def tables(sets: Sequence[Stats], percentiles: Sequence[float] = PERCENTILES) -> str:
    """Markdown: a table for each kind of set, a row for each set."""
    kinds: dict[Any, list[Stats]] = {}
    for stats in sets:
        kinds.setdefault((stats.kind, stats.limit), []).append(stats)
    return "\n\n".join(_table(rows, percentiles) for rows in kinds.values())


def _table(sets: Sequence[Stats], percentiles: Sequence[float]) -> str:
    first = sets[0]
    head = ["set", *first.facts]
    for what in first.lengths:
        # Beside a single kind of lengths there is nothing to tell apart.
        prefix = "" if len(first.lengths) == 1 else f"{what}: "
        head += [f"{prefix}{_NAMES.get(p, f'{p:g} %')}" for p in percentiles]
    head += [] if first.limit is None else [f"over {first.limit}"]
    rows = []
    for stats in sets:
        row = [stats.name, *map(str, stats.facts.values())]
        for lengths in stats.lengths.values():
            row += [str(lengths.percentile(p)) for p in percentiles]
        if stats.limit is not None:
            [lengths] = stats.lengths.values()
            row.append(f"{lengths.over(stats.limit) / lengths.number:.1%}")
        rows.append(row)
    return _markdown(head, rows)


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their longest cell: the first to the left, others right."""
    cells = [[x.replace("|", "\\|") for x in row] for row in (head, *rows)]
    widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]

    def line(row: Sequence[str]) -> str:
        first, *others = zip(row, widths, strict=True)
        padded = [first[0].ljust(first[1]), *(x.rjust(w) for x, w in others)]
        return f"| {' | '.join(padded)} |"

    rule = [widths[0] * "-", *((w - 1) * "-" + ":" for w in widths[1:])]
    return "\n".join([line(cells[0]), line(rule), *map(line, cells[1:])])


# --- command line ---------------------------------------------------------------------


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = command_line.ArgumentParser(_PROG, __doc__)
    parser.add_argument("--task", type=str, help="the paths are files of this data set")
    parser.add_argument("--format", type=str, help="with --task: of its inputs")
    parser.add_argument(
        "--tokenizer", type=OF_MODEL, help="with --task: vocabulary, or its folder"
    )
    parser.add_argument(
        "--length",
        type=int,
        help="with --task: count those that are longer (default: that of the paper)",
    )
    parser.add_argument(
        "--long_length", type=int, help="pack text for pre-training, see above"
    )
    parser.add_argument(
        "--global_length",
        type=int,
        help="with --long_length: sentences of a window (default: any number)",
    )
    parser.add_argument(
        "--percentiles",
        type=_percents,
        default=PERCENTILES,
        metavar="50,95,100",
        help="100 is the longest (default: 50,95,100)",
    )
    parser.add_argument("--json", action="store_true", help="JSON in place of tables")
    parser.add_argument("--out", type=OUTPUT, help="file of JSON to write as well")
    parser.add_argument(
        "paths", nargs="+", type=INPUT, metavar="PATH", help="see above"
    )
    args = parser.parse_args(arguments)
    if args.task is None and (args.tokenizer or args.length is not None):
        parser.error("--tokenizer and --length go with --task")
    if args.long_length is None and args.global_length is not None:
        parser.error("--global_length goes with --long_length")
    if args.task is not None and args.long_length is not None:
        parser.error("--long_length is of text for pre-training, not of --task")
    if args.task is not None and args.tokenizer is None:
        parser.error("--task needs --tokenizer: lengths are in tokens")
    return args


def _percents(text: str) -> tuple[float, ...]:
    try:
        percents = tuple(float(x) for x in text.split(","))
    except ValueError as e:
        raise argparse.ArgumentTypeError(f"{text!r}; expected such as 50,95") from e
    if not all(0 < p <= 100 for p in percents):
        raise argparse.ArgumentTypeError(f"{text!r}; expected over 0, up to 100")
    return percents


def _sets(args: argparse.Namespace) -> list[Stats]:
    if args.task is None:
        sets, lengths = [], {}
        if args.long_length is not None:
            lengths = {"long_length": args.long_length}
            lengths["global_length"] = args.global_length
        for path in args.paths:
            _tell(f"reading {path}")
            sets.append(of_cache(path, **lengths))
        return sets
    task = task_lib.named_task(args.task, args.format)
    tokenizer = open_tokenizer(args.tokenizer)
    # All of them before the first is read, which may take hours.
    files = {path: _files(path) for path in args.paths}
    return [
        of_files(
            task,
            names,
            tokenizer,
            name=path,
            limit=args.length,
            tell_fn=_progress(path),
        )
        for path, names in files.items()
    ]


def _files(path: str) -> list[str]:
    paths = [path] if os.path.exists(path) else sorted(glob.glob(path))
    if not paths:
        raise FileNotFoundError(f"there is no file {path}")
    return paths


def _progress(
    path: str, clock: Callable[[], float] = time.monotonic
) -> Callable[[int], None]:
    """Tells how far the reading is, but not too often."""
    last = [clock(), 0]

    def tell(records: int) -> None:
        now = clock()
        if now - last[0] >= _PROGRESS_SECS:
            rate = (records - last[1]) / (now - last[0])
            _tell(f"{path}: {records} records, {rate:.0f} records/s")
            last[:] = now, records

    return tell


def _tell(message: str) -> None:
    say(message, sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    args = _parse(arguments)
    return command_line.run(_PROG, lambda: _report(args))


def _report(args: argparse.Namespace) -> str:
    sets = _sets(args)
    shown = [stats.as_json(args.percentiles) for stats in sets]
    text = json.dumps({"sets": shown}, indent=2)
    if args.out:
        write_whole(args.out, f"{text}\n")
    if args.json:
        return text
    notes = (f"\n{stats.notes}" for stats in sets)
    return "\n".join([tables(sets, args.percentiles), *notes])


if __name__ == "__main__":
    sys.exit(main())
