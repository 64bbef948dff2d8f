"""Tokenising documents in parts: by several processes, and resumable.

Documents are cut into parts of about equal length, in order; see `parts`.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import hashlib
import itertools
import json
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol, TypeVar

import numpy as np

from etc_jax.data import parts
from etc_jax.data.text.corpus import Document
from etc_jax.data.tokenizers import tokenizer as tokenizer_lib

PART_CHARS = 1 << 22
_PART_DOCUMENTS = 1 << 13  # bounds parts of empty documents
_BATCH_CHARS = 1 << 18
_BATCH_SENTENCES = 1 << 11  # what a tokenizer gives for one batch is large
SOURCE_COUNTS = ("documents", "sentences", "tokens", "chars", "replaced_chars")

SplitFn = Callable[[Iterable[str]], list[str]]


class HasText(Protocol):
    """Whatever is cut into runs by its characters."""

    @property
    def num_chars(self) -> int: ...


T = TypeVar("T", bound=HasText)


@dataclasses.dataclass(frozen=True)
class EncodedDocuments:
    """Some tokenised documents, flat.

    Attributes:
      ids: unsigned int `[tokens]`.
      word_starts: bool `[tokens]`, whether a token is the first piece of a word.
      sentence_lengths: int `[sentences]`, in tokens, each 1 or more.
      document_lengths: int `[documents]`, in sentences.
      sources: by source, how many documents, sentences, tokens, chars and
        replaced_chars.
    """

    ids: np.ndarray
    word_starts: np.ndarray
    sentence_lengths: np.ndarray
    document_lengths: np.ndarray
    sources: Mapping[str, Mapping[str, int]]


def encode(
    documents: Iterable[Document], tokenizer: tokenizer_lib.Tokenizer, split_fn: SplitFn
) -> EncodedDocuments:
    """Splits documents into sentences and tokenises them; empty sentences go.

    Raises:
      ValueError: if an id is not of the vocabulary.
    """
    ids: list[np.ndarray] = []
    starts: list[np.ndarray] = []
    per_document: list[int] = []
    sources: dict[str, collections.Counter[str]] = {}
    for batch in cut(documents, _BATCH_CHARS):
        texts = [split_fn(document.paragraphs) for document in batch]
        # One call for the sentences of all documents: small batches are slow.
        pairs = _encode_sentences([s for text in texts for s in text], tokenizer)
        for document, text in zip(batch, texts, strict=True):
            sentences = [p for p in itertools.islice(pairs, len(text)) if len(p[0])]
            ids += [p[0] for p in sentences]
            starts += [p[1] for p in sentences]
            per_document.append(len(sentences))
            counts = (1, len(sentences), sum(len(p[0]) for p in sentences))
            counts += (document.num_chars, document.replaced_chars)
            counter = sources.setdefault(document.source, collections.Counter())
            counter.update(dict(zip(SOURCE_COUNTS, counts, strict=True)))
    flat = np.concatenate([np.zeros(0, tokenizer.id_dtype), *ids])
    _check_ids(flat, tokenizer.vocab_size)
    return EncodedDocuments(
        flat,
        np.concatenate([np.zeros(0, bool), *starts]),
        np.array([len(x) for x in ids], np.int64),
        np.array(per_document, np.int64),
        {source: dict(counts) for source, counts in sources.items()},
    )


def _encode_sentences(
    sentences: list[str], tokenizer: tokenizer_lib.Tokenizer
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for start in range(0, len(sentences), _BATCH_SENTENCES):
        yield from tokenizer.encode_batch(sentences[start : start + _BATCH_SENTENCES])


def _check_ids(ids: np.ndarray, vocab_size: int) -> None:
    # Stored in 16 bits, id 70000 would turn into 4464 without a word.
    if len(ids) and not 0 <= ids.min() <= ids.max() < vocab_size:
        raise ValueError(
            f"the tokenizer gave ids {ids.min()} to {ids.max()}, but its vocabulary "
            f"has ids 0 to {vocab_size - 1}; correct the tokenizer"
        )


def encode_parts(
    documents: Iterable[Document],
    tokenizer: tokenizer_lib.Tokenizer,
    tokenizer_file: pathlib.Path,
    folder: pathlib.Path,
    *,
    split_fn: SplitFn,
    workers: int | str = 0,
    part_chars: int = PART_CHARS,
) -> Iterator[EncodedDocuments]:
    """The parts in order, each from its file in `folder` once that is written.

    Args:
      documents: read once, in this process.
      tokenizer: the vocabulary.
      tokenizer_file: where it is saved, for the other processes.
      folder: of the part files; those of the same text are taken over.
      split_fn: paragraphs -> sentences; with workers, a function of a module.
      workers: processes that tokenise; 0: this one; or the address of a cluster, see
        `data.cluster`.
      part_chars: characters after which a part ends.

    Raises:
      RuntimeError: if a worker process is killed.
    """
    saved = (tokenizer_file, tokenizer.fingerprint(), split_fn)
    recipe = parts.Recipe(_encoder(tokenizer, split_fn), _open_encoder, saved)
    runs = ((_digest(part), part) for part in cut(documents, part_chars))
    encoded_parts = parts.make_parts(runs, recipe, folder, workers=workers)
    with contextlib.closing(encoded_parts):
        yield from map(_from_part, encoded_parts)


def _encoder(tokenizer: tokenizer_lib.Tokenizer, split_fn: SplitFn) -> parts.MakeFn:
    return lambda documents: _to_part(encode(documents, tokenizer, split_fn))


def _open_encoder(
    tokenizer_file: pathlib.Path, fingerprint: str, split_fn: SplitFn
) -> parts.MakeFn:
    tokenizer = tokenizer_lib.open_tokenizer(tokenizer_file)
    if tokenizer.fingerprint() != fingerprint:
        raise RuntimeError(
            f"{tokenizer_file} is not the tokenizer that was saved there"
        )
    return _encoder(tokenizer, split_fn)


def _to_part(encoded: EncodedDocuments) -> parts.Part:
    arrays = {
        "ids": encoded.ids,
        # An eighth of the size of bools; read back with the count of ids.
        "word_bits": np.packbits(encoded.word_starts),
        "sentence_lengths": encoded.sentence_lengths,
        "document_lengths": encoded.document_lengths,
    }
    return parts.Part(encoded.sources, arrays)


def _from_part(part: parts.Part) -> EncodedDocuments:
    ids, bits = part.arrays["ids"], part.arrays["word_bits"]
    return EncodedDocuments(
        ids,
        np.unpackbits(bits, count=len(ids)).astype(bool),
        part.arrays["sentence_lengths"],
        part.arrays["document_lengths"],
        part.facts,
    )


def cut(
    documents: Iterable[T], most_chars: int, most_documents: int = _PART_DOCUMENTS
) -> Iterator[list[T]]:
    """Runs of whole documents, each ended by the one that makes it long enough.

    Args:
      documents: read once, in order.
      most_chars: after which a run ends.
      most_documents: of a run; bounds the memory that documents without text take.
    """
    part: list[T] = []
    chars = 0
    for document in documents:
        part.append(document)
        chars += document.num_chars
        if chars >= most_chars or len(part) >= most_documents:
            yield part
            part, chars = [], 0
    if part:
        yield part


def _digest(part: list[Document]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for document in part:
        facts = (document.name, document.replaced_chars, document.paragraphs)
        digest.update(json.dumps(facts).encode())
    return digest.hexdigest()
