"""A corpus made ready: vocabulary, training and validation token caches."""

from __future__ import annotations

import hashlib
import heapq
import importlib.metadata
import json
import os
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from etils import epath

from etc_jax.base import copies
from etc_jax.base.whole_files import whole
from etc_jax.data.text import cache, corpus
from etc_jax.data.text.cache import TokenCache, build_cache
from etc_jax.data.text.corpus import Document
from etc_jax.data.text.sentences import splitter_version
from etc_jax.data.text.sources import TextSource, equal_files
from etc_jax.data.tokenizers.tokenizer import Tokenizer, open_tokenizer, train

# What a vocabulary is learned from is held in memory.
VOCABULARY_CHARS = 1 << 27


class Source(Protocol):
    """Documents that can be read again and again, in one order.

    `sources.TextSource` and `corpus.BuiltInSource` are such.
    """

    name: str

    def __iter__(self) -> Iterator[Document]: ...

    def describe(self) -> dict[str, Any]:
        """All that the documents depend on, as JSON values."""

    def report(self) -> str:
        """What was found in reading, for people."""


class Prepared(NamedTuple):
    """A vocabulary and the text in it, for training and validation."""

    tokenizer: Tokenizer
    train: TokenCache
    validation: TokenCache

    def report(self) -> str:
        """Sizes of both sides and the share of illegible characters, a line each."""
        return "\n".join(
            [
                _side_line("training", self.train),
                _side_line("validation", self.validation),
            ]
        )


def prepare(
    folder: str | os.PathLike,
    *,
    source: Source,
    tokenizer: Tokenizer | str | os.PathLike | None = None,
    vocab_size: int = 8192,
    validation: float | Source = 0.05,
    workers: int | str = 0,
    report_fn: Callable[[str], None] | None = None,
) -> Prepared:
    """Reads, tokenises and caches a corpus, or opens what is there.

    Each combination of text, arguments and package versions has a folder of its own
    under `folder`. To find it, text files are hashed whole each time, whether there is
    a cache or not.

    Args:
      folder: where caches live; its address in an object store, see `copies.kept`.
      source: the documents, or those for training alone; see `validation`.
      tokenizer: one, or a path as for `open_tokenizer`; None: learn a WordPiece
        vocabulary from the training documents (a fixed sample of them, if they have
        more than `VOCABULARY_CHARS` characters).
      vocab_size: ids of the vocabulary, if it is learned.
      validation: expected share of documents that are kept for validation, chosen by
        their names (see `corpus.is_validation`), or a source of documents that are.
      workers: as for `build_cache`.
      report_fn: gets what was found in the documents, if they are read.

    Raises:
      ImportError: if nupunkt is not installed.
      ValueError: if a side has no sentence though it should have, a file is on both
        sides, or the text is too little for the vocabulary.
    """
    opened = tokenizer
    if isinstance(tokenizer, str | os.PathLike):
        opened = open_tokenizer(tokenizer)
    made_by = {
        "format": cache.FORMAT_VERSION,
        "corpus": source.describe(),
        "sentences": splitter_version(),
        "tokenizers": importlib.metadata.version("tokenizers"),
        "vocabulary": (
            {"size": vocab_size, "most_chars": VOCABULARY_CHARS}
            if opened is None
            else opened.fingerprint()
        ),
        "held_back": _describe_validation(validation),
    }
    _check_apart(source, validation, made_by)
    sides = _sides(source, validation)
    with copies.kept(epath.Path(folder) / _own_name(source.name, made_by)) as folder:
        folder.mkdir(parents=True, exist_ok=True)
        if opened is None:
            opened = _learned(folder / cache.TOKENIZER, sides["train"], vocab_size)
        caches = [
            build_cache(
                side,
                opened,
                folder / name,
                made_by=made_by | {"side": name},
                workers=workers,
            )
            for name, side in sides.items()
        ]
    prepared = Prepared(opened, *caches)
    read = {id(s.source): s.source for s in sides.values() if s.was_read}
    if report_fn is not None and read:
        report_fn("\n".join(x.report() for x in (*read.values(), prepared)))
    _check_sides(prepared, validation, folder)
    return prepared


class _Side:
    """The documents of a source whose names pass; each iteration reads it anew."""

    def __init__(self, source: Source, passes_fn: Callable[[str], bool]):
        self.source = source
        self.was_read = False
        self._passes_fn = passes_fn

    def __iter__(self) -> Iterator[Document]:
        self.was_read = True
        return (d for d in self.source if self._passes_fn(d.name))


def _sides(source: Source, validation: float | Source) -> dict[str, _Side]:
    if not _is_share(validation):
        return {
            "train": _Side(source, lambda _: True),
            "held_back": _Side(validation, lambda _: True),
        }

    def is_validation(name: str) -> bool:
        return corpus.is_validation(name, validation)

    return {
        "train": _Side(source, lambda name: not is_validation(name)),
        "held_back": _Side(source, is_validation),
    }


def _is_share(validation: float | Source) -> bool:
    return isinstance(validation, float | int)


def _describe_validation(validation: float | Source) -> Any:
    if _is_share(validation):
        corpus.check_share(validation)
        return validation
    return validation.describe()


def _check_apart(source: Source, validation: float | Source, made_by) -> None:
    """Raises if a file is on both sides: what was trained on measures nothing."""
    if not (isinstance(source, TextSource) and isinstance(validation, TextSource)):
        return
    if both := equal_files(made_by["corpus"], made_by["held_back"]):
        raise ValueError(
            f"{len(both)} validation files are training files too, such as "
            f"{both[0]!r}; leave them out on one side"
        )


def _own_name(name: str, made_by) -> str:
    digest = hashlib.sha256(json.dumps(made_by, sort_keys=True).encode()).hexdigest()
    return f"{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}-{digest[:12]}"


def _learned(
    path: pathlib.Path, documents: Iterable[Document], vocab_size: int
) -> Tokenizer:
    if path.exists():
        return Tokenizer.load(path)
    chosen = sample(documents, VOCABULARY_CHARS)
    texts = [p for document in chosen for p in document.paragraphs]
    tokenizer = train(texts, vocab_size=vocab_size)
    with whole(path) as part:
        tokenizer.save(part)
    return tokenizer


def sample(documents: Iterable[Document], most_chars: int) -> list[Document]:
    """Documents of at most so many characters, in order; all, if they have no more.

    Their names decide, as if drawn: as many as fit of a list that does not depend on
    the order of documents. One document stays, however long.
    """
    drawn: list[tuple[int, int, int, Document]] = []  # a heap, the last drawn on top
    total, end = 0, 2**64
    for number, document in enumerate(documents):
        chars = document.num_chars
        draw = corpus.name_draw(f"sample {document.name}")
        if draw >= end:
            continue
        # Negated: Python has heaps of the smallest alone.
        heapq.heappush(drawn, (-draw, number, chars, document))
        total += chars
        while total > most_chars and len(drawn) > 1:
            last, _, dropped, _ = heapq.heappop(drawn)
            total, end = total - dropped, -last
    return [document for *_, document in sorted(drawn, key=lambda entry: entry[1])]


def _check_sides(prepared: Prepared, validation, folder: pathlib.Path) -> None:
    documents = prepared.train.num_documents + prepared.validation.num_documents
    for name, side, none_at in (
        ("training", prepared.train, 1),
        ("validation", prepared.validation, 0),
    ):
        if not side.num_sentences and validation != none_at:
            by = (
                f"validation={validation}" if _is_share(validation) else validation.name
            )
            raise ValueError(
                f"{folder}: of {documents} documents, none is for {name} by {by}; "
                "the side of a document depends on its name alone, so choose another "
                "share, or give validation files of their own"
            )


def _side_line(name: str, side: TokenCache) -> str:
    counts = side.header["counts"]
    share = counts["replaced_chars"] / max(counts["chars"], 1)
    return (
        f"{name}: {counts['documents']} documents, {counts['sentences']} sentences, "
        f"{counts['tokens']} tokens, {counts['chars']} chars, "
        f"{counts['replaced_chars']} replaced ({share:.4%})"
    )
