"""Makes corpora of long texts to pre-train on, and pairs to learn retrieval from.

    etc-jax corpora long --min_length=8192 --tokenizer=models/bart \\
        --out=long.jsonl.gz 'books/*.txt' 'news/*.jsonl.gz'

        The documents that have so many tokens, as they are.

    etc-jax corpora link --length=16382 --tokenizer=models/bart \\
        --format=jsonl --out=linked.jsonl.gz 'c4-train.*.json.gz'

        All documents, each followed by its most similar ones until a text has that
        length; see `data.text.linking`. A longer document is a text of its own. Needs
        scikit-learn: pip install "etc_jax[corpora]".

    etc-jax corpora cloze --length=1400 --queries=4 --out=pairs.jsonl 'books/*.jsonl.gz'

        Paragraphs, each with the passage of so many words that it was taken out of:
        queries and passages for `etc-jax prepare --task=retrieval`; see
        `data.text.cloze`. --after keeps queries away from the beginning,
        --split=train leaves out a share of the documents, and --split=validation takes
        these alone.

Short documents that have nothing to do with each other need no command: training packs
them into texts, in another order in each epoch.

Files are text or JSON lines, gzipped or not, as for `data.source=text` and `jsonl`.
Lengths are in tokens of the vocabulary, as training counts them, or in words without
--tokenizer. An input of an encoder-decoder has a first and a last token besides: one of
16,384 has room for 16,382.

--out is a file of JSON lines, gzipped if it is named .gz. It appears whole or not at
all. Of long and link `text` has the paragraphs of a text, with blank lines between
them, `documents` the name of each document and the number of its paragraphs. Train on
it with

    --config.data.source=jsonl --config.data.paths="('linked.jsonl.gz',)"

link reads the files twice, and has a hidden folder with all text beside --out while it
works. The same command gives the same file.

Exit codes: 0 done; 2 something given is wrong.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
import tqdm

from etc_jax.base.local_paths import INPUT, OF_MODEL, OUTPUT
from etc_jax.base.rules import at_least
from etc_jax.base.whole_files import check_out, whole_text, work_folder
from etc_jax.cli import command_line
from etc_jax.data.text.cloze import Cloze, pairs
from etc_jax.data.text.corpus import Document, check_share, is_validation
from etc_jax.data.text.linking import Linker, Linking
from etc_jax.data.text.long_texts import (
    LengthFn,
    LongText,
    in_tokens,
    in_words,
    measured,
)
from etc_jax.data.text.sources import BORDERS, FORMATS, TextSource, read_documents
from etc_jax.data.tokenizers.tokenizer import open_tokenizer

_PROG = "etc-jax corpora"
SPLITS = ("all", "train", "validation")

T = TypeVar("T")


@dataclasses.dataclass
class Written:
    """Counts of what was written.

    Attributes:
      documents: in all texts together.
      alone: texts of one document.
      lengths: of the texts.
      followers: documents that follow the first one of a text.
      similarity: the sum of their cosines with it.
    """

    documents: int = 0
    alone: int = 0
    lengths: array = dataclasses.field(default_factory=lambda: array("q"))
    followers: int = 0
    similarity: float = 0.0

    def add(self, text: LongText) -> None:
        """Counts a text."""
        self.documents += len(text.documents)
        self.alone += len(text.documents) == 1
        self.lengths.append(text.length)
        self.followers += len(text.similarities)
        self.similarity += sum(text.similarities)

    def report_lengths(self, unit: str) -> str:
        """A line for people about the lengths of texts."""
        lengths = np.array(self.lengths)
        return (
            f"{unit} of a text: mean {lengths.mean():,.1f}, median "
            f"{np.median(lengths):,.1f}, most {lengths.max():,}"
        )

    def report_similarity(self, random: float | None) -> str:
        """A line for people that compares neighbours with documents drawn at random."""
        near = f"{self.similarity / self.followers:.3f}" if self.followers else "none"
        far = "none" if random is None else f"{random:.3f}"
        return f"mean similarity to the first document {near}, of random pairs {far}"


def write(path: str | os.PathLike, texts: Iterable[LongText]) -> Written:
    """Writes texts, a line each, to a file that appears whole or not at all.

    Args:
      path: gzipped if it is named `.gz`.
      texts: of any source.

    Raises:
      ValueError: if a text is longer than what may be read.
      OSError: if the storage refuses.
    """
    written = Written()
    with whole_text(path) as file:
        for text in texts:
            file.write(text.row())
            written.add(text)
    return written


def long_documents(
    documents: Iterable[Document],
    length_fn: LengthFn,
    *,
    least: int,
    most: int | None = None,
) -> Iterator[LongText]:
    """The documents of some lengths, in order.

    Args:
      documents: read once, as a stream.
      length_fn: what is counted.
      least: the shortest length.
      most: the longest one; None: any.

    Raises:
      ValueError: at the end, if there is none.
    """
    count, longest = 0, 0
    for text in measured(documents, length_fn):
        longest = max(longest, text.length)
        if least <= text.length and (most is None or text.length <= most):
            count += 1
            yield text
    if not count:
        bounds = f"{least:,} or more" if most is None else f"{least:,} to {most:,}"
        raise ValueError(
            f"no document has a length of {bounds}, the longest has {longest:,}; give "
            "other documents or other bounds"
        )


# --- command line ---------------------------------------------------------------------


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = command_line.ArgumentParser(_PROG, __doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    long = commands.add_parser("long", help="choose long documents")
    long.add_argument("--min_length", required=True, type=int)
    long.add_argument("--max_length", type=int, help="default: any")
    link = commands.add_parser("link", help="link similar ones")
    link_flags = {
        "length": "the most that a text has",
        "neighbours": "of a text's first document that may follow it, the nearest",
        "clusters": "the most that documents are divided into before",
        "seed": "of clusters and of first documents",
    }
    _add_numbers(link.add_argument, Linking, link_flags)
    cloze = commands.add_parser("cloze", help="take queries out of passages")
    cloze_flags = {
        "length": "the most that a passage has",
        "least": "of a query",
        "queries": "of a passage, at most",
        "after": "of a passage before its queries, at least",
        "seed": "of queries",
    }
    _add_numbers(cloze.add_argument, Cloze, cloze_flags)
    add = cloze.add_argument
    add("--split", choices=SPLITS, default="all", help="default: all documents")
    add("--validation", type=float, default=0.2, help="share of them; default: 0.2")
    for command in (long, link, cloze):
        _add_files(command.add_argument)
    return parser.parse_args(argv)


def _add_numbers(add, of: type, flags: Mapping[str, str]) -> None:
    """Flags of fields of a dataclass; one without a default is required."""
    for name, text in flags.items():
        if (default := getattr(of, name, None)) is None:
            add(f"--{name}", required=True, type=int, help=text)
            continue
        add(f"--{name}", type=int, default=default, help=f"{text}; default: {default}")


def _given(of: Callable[..., T], args: argparse.Namespace) -> T:
    """A dataclass with the fields that a command line has."""
    names = (field.name for field in dataclasses.fields(of) if field.name in args)
    return of(**{name: getattr(args, name) for name in names})


def _add_files(add) -> None:
    """What all commands read and write."""
    add("files", nargs="+", type=INPUT, help="text or JSON lines, or globs")
    add("--out", required=True, type=OUTPUT, help="file to write, JSON lines")
    add("--overwrite", action="store_true", help="if --out exists")
    add("--tokenizer", type=OF_MODEL, help="vocabulary; default: lengths are in words")
    add("--format", choices=FORMATS, default="auto", help="default: by the ending")
    add("--text_field", type=str, default="text", help="of JSON lines; default: text")
    add("--document_per", choices=BORDERS, default="file", help="of files of text")


def _run(args: argparse.Namespace) -> str:
    """Does what a command line says; returns the report."""
    check_out(args.out, overwrite=args.overwrite)
    source = read_documents(
        args.files,
        format=args.format,
        text_field=args.text_field,
        document_border=args.document_per,
    )
    length_fn, unit = in_words, "words"
    if args.tokenizer is not None:
        length_fn, unit = in_tokens(open_tokenizer(args.tokenizer)), "tokens"
    make = {"long": _long, "link": _link, "cloze": _cloze}[args.command]
    return f"{args.out}: {make(args, source, length_fn, unit)}"


def _long(args, source: TextSource, length_fn: LengthFn, unit: str) -> str:
    at_least(1).check(**{"--min_length": args.min_length})
    most = args.max_length
    if most is not None and most < args.min_length:
        raise ValueError(f"--max_length is {most}, less than --min_length")
    texts = long_documents(
        _with_progress(source, "documents read"),
        length_fn,
        least=args.min_length,
        most=most,
    )
    written = write(args.out, texts)
    read = sum(counts.documents for counts in source.counts.values())
    return (
        f"{written.documents:,} of {read:,} documents\n{written.report_lengths(unit)}"
    )


def _link(args, source: TextSource, length_fn: LengthFn, unit: str) -> str:
    linker = Linker(source, _given(Linking, args), length_fn)
    with work_folder(args.out) as folder:
        texts = linker.texts(folder)
        written = write(args.out, _with_progress(texts, "texts"))
    return (
        f"{written.documents:,} documents in {len(written.lengths):,} texts, of which "
        f"{written.alone:,} have one\n{written.report_lengths(unit)}\n"
        f"{written.report_similarity(linker.random_similarity)}"
    )


def _cloze(args, source: TextSource, length_fn: LengthFn, unit: str) -> str:
    del unit
    cloze = _given(Cloze, args)
    check_share(args.validation)
    count, passages, last = 0, 0, ""
    with whole_text(args.out) as file:
        documents = _of_split(args, _with_progress(source, "documents read"))
        for pair in pairs(documents, length_fn, cloze):
            values = dataclasses.asdict(pair)
            file.write(f"{json.dumps(values, ensure_ascii=False)}\n")
            count += 1
            passage = pair.id.rpartition("-")[0]
            passages, last = passages + (passage != last), passage
    return f"{count:,} queries of {passages:,} passages"


def _of_split(args, documents: Iterable[Document]) -> Iterator[Document]:
    """Those that are asked for; their names alone decide."""
    for document in documents:
        split = SPLITS[1 + is_validation(document.name, args.validation)]
        if args.split in ("all", split):
            yield document


def _with_progress(items: Iterable[T], unit: str) -> Iterator[T]:
    """The items, with their number on a terminal."""
    return iter(tqdm.tqdm(items, unit=f" {unit}", disable=None))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    args = _parse(argv)
    return command_line.run(_PROG, lambda: _run(args))


if __name__ == "__main__":
    sys.exit(main())
