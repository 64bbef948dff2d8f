"""The token cache: tokenised documents in a few flat files, written once.

    header.json            what it is, how large, which vocabulary, what made it
    tokenizer.json         the tokenizer, as it saves itself
    tokens.npy             uint16 or uint32 [tokens]
    word_bits.npy          uint8 [ceil(tokens / 8)]: bit t is set where a word starts
    sentence_offsets.npy   int64 [sentences + 1], in tokens
    document_offsets.npy   int64 [documents + 1], in sentences

Word starts are packed bits and not a high bit of the token, so that uint16 serves
vocabularies up to 65,536 (RoBERTa's has 50,265) and tokens need no unmasking.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from etc_jax.base import copies
from etc_jax.data import array_folder
from etc_jax.data.array_folder import (
    HEADER,
    TOKENIZER,
    FolderFormat,
    GrowingArray,
    OpenFolder,
)
from etc_jax.data.text import export
from etc_jax.data.text.corpus import Document
from etc_jax.data.text.sentences import split_sentences
from etc_jax.data.tokenizers.tokenizer import Tokenizer

FORMAT_VERSION = 2  # of what the arrays hold; a part of every fingerprint
_FORMAT = FolderFormat("token cache", 3, unsealed=2)
OTHER_SOURCES = "(other sources)"
_MAX_SOURCES = 1000
_CHUNK_TOKENS = 1 << 22
_OFFSETS = ("sentences", "documents")  # that have a file of offsets


@dataclasses.dataclass(frozen=True)
class TokenCache(OpenFolder):
    """An open cache.

    Attributes:
      tokens: `[tokens]` uint16 or uint32.
      word_bits: `[ceil(tokens / 8)]` uint8; see `word_starts`.
      sentence_offsets: `[sentences + 1]` int64, in tokens.
      document_offsets: `[documents + 1]` int64, in sentences.
      digest: of its contents, see `array_folder.Contents`; None: it is in memory.
    """

    tokens: np.ndarray
    word_bits: np.ndarray
    sentence_offsets: np.ndarray
    document_offsets: np.ndarray
    digest: str | None = None

    @property
    def num_tokens(self) -> int:
        return len(self.tokens)

    @property
    def num_sentences(self) -> int:
        return len(self.sentence_offsets) - 1

    @property
    def num_documents(self) -> int:
        return len(self.document_offsets) - 1

    def tokens_per_document(self) -> np.ndarray:
        """Tokens of each document: int64 `[documents]`."""
        return np.diff(self.sentence_offsets[self.document_offsets])

    def word_starts(self, start: int, stop: int) -> np.ndarray:
        """Bool `[stop - start]`: whether each token is the first piece of a word."""
        first_byte = start // 8
        bits = np.unpackbits(
            self.word_bits[first_byte : -(-stop // 8)], bitorder="little"
        )
        # Whole bytes were unpacked: cut to the tokens asked for.
        return bits[start - 8 * first_byte : stop - 8 * first_byte].astype(bool)

    def part(self, number: int, count: int) -> TokenCache:
        """One of so many runs of whole documents that follow each other.

        Tokens stay where they are; offsets and word starts of the part are in memory.

        Args:
          number: which, 0 .. count - 1.
          count: how many parts there are, of about as many documents.
        """
        first, stop = self.part_borders(number, count)
        borders = np.array(self.document_offsets[first : stop + 1])
        offsets = np.array(self.sentence_offsets[borders[0] : borders[-1] + 1])
        start, end = int(offsets[0]), int(offsets[-1])
        return dataclasses.replace(
            self,
            tokens=self.tokens[start:end],
            word_bits=np.packbits(self.word_starts(start, end), bitorder="little"),
            sentence_offsets=offsets - start,
            document_offsets=borders - borders[0],
            digest=None,
        )

    def part_borders(self, number: int, count: int) -> tuple[int, int]:
        """The first document of a part, and the one after its last."""
        return tuple(x * self.num_documents // count for x in (number, number + 1))

    @classmethod
    def from_arrays(
        cls,
        tokens: np.ndarray,
        word_starts: np.ndarray,
        sentence_offsets: np.ndarray,
        document_offsets: np.ndarray,
        *,
        vocab_size: int,
    ) -> TokenCache:
        """A cache in memory, of text that was tokenised elsewhere.

        Args:
          tokens: unsigned int `[tokens]`.
          word_starts: bool `[tokens]`.
          sentence_offsets: int `[sentences + 1]`, in tokens.
          document_offsets: int `[documents + 1]`, in sentences.
          vocab_size: number of ids.

        Raises:
          ValueError: if ids or offsets are out of range.
        """
        cache = cls(
            path=pathlib.Path("in memory"),
            header={"vocab_size": vocab_size},
            tokens=tokens,
            word_bits=np.packbits(word_starts, bitorder="little"),
            sentence_offsets=np.asarray(sentence_offsets, np.int64),
            document_offsets=np.asarray(document_offsets, np.int64),
        )
        _check_values(cache, vocab_size)
        return cache

    @classmethod
    def open(cls, path: str | os.PathLike, vocabulary: str | None = None) -> TokenCache:
        """Maps a cache into memory and checks it whole, its checksums too.

        Args:
          path: folder that `build_cache` wrote.
          vocabulary: `Tokenizer.fingerprint()` of the vocabulary in use; None: that of
            the cache, see `load_tokenizer`.

        Raises:
          FileNotFoundError: if there is no cache.
          ValueError: naming the file that is damaged, or what does not fit.
        """
        path = pathlib.Path(copies.local(path))
        header = _FORMAT.read_header(path)
        array_folder.check_vocabulary(path, header, vocabulary)
        kinds = _described_arrays(path, header)
        contents = _FORMAT.open_files(path, header, kinds)
        cache = cls(path, header, **contents.arrays, digest=contents.digest)
        _check_values(cache, header["vocab_size"])
        return cache


def build_cache(
    documents: Iterable[Document],
    tokenizer: Tokenizer,
    path: str | os.PathLike,
    *,
    made_by: Mapping[str, Any],
    split_fn: export.SplitFn = split_sentences,
    workers: int | str = 0,
    part_chars: int = export.PART_CHARS,
) -> TokenCache:
    """Tokenises documents into a cache, or opens the one that is already there.

    The folder appears whole or not at all. What a killed or failed run has finished
    waits in a hidden folder beside it, and the next run with the same tokenizer and
    `made_by` goes on from there. Of several processes that want the same cache, one
    makes it and the others wait. Neither this nor `workers` changes a byte of it.

    Args:
      documents: read once, in order, and not at all if the cache exists.
      tokenizer: the vocabulary; it is saved with the cache.
      path: the folder to make.
      made_by: JSON-able description of the corpus and of every choice that shapes the
        text; the cache is reused only for an equal one.
      split_fn: paragraphs -> sentences; with workers, a function of a module.
      workers: processes that tokenise; 0: this one alone; or the address of a
        cluster, see `data.cluster`.
      part_chars: characters of a part, the least that a killed run leaves.

    Raises:
      ValueError: if `path` holds a cache that something else made, a damaged one, or
        other files.
      RuntimeError: if a worker process is killed.
    """
    path = pathlib.Path(path)
    facts = [FORMAT_VERSION, tokenizer.fingerprint(), dict(made_by)]
    text = json.dumps(facts, sort_keys=True)
    fingerprint = hashlib.sha256(text.encode()).hexdigest()
    work = path.with_name(f".{path.name}-{fingerprint[:12]}")

    def write(folder: pathlib.Path) -> dict[str, Any]:
        parts = export.encode_parts(
            documents,
            tokenizer,
            folder / TOKENIZER,
            work,
            split_fn=split_fn,
            workers=workers,
            part_chars=part_chars,
        )
        with contextlib.closing(parts):
            facts = _write(parts, tokenizer, folder)
        return facts | {"made_by": dict(made_by), "fingerprint": fingerprint}

    _FORMAT.build(path, work, tokenizer, write)
    _FORMAT.check_made(path, fingerprint)
    return TokenCache.open(path, tokenizer.fingerprint())


def _write(batches, tokenizer, folder) -> dict[str, Any]:
    """Writes the arrays; returns the header's facts about them."""
    pending = np.zeros(0, bool)  # word starts that do not fill a byte yet
    sources: dict[str, collections.Counter[str]] = {}
    kinds = _kinds(tokenizer.id_dtype.name)
    with contextlib.ExitStack() as stack:
        arrays = {
            name: stack.enter_context(GrowingArray(folder / f"{name}.npy", dtype))
            for name, dtype in kinds.items()
        }
        tokens, bits, sentences, borders = arrays.values()
        sentences.append(np.zeros(1))
        borders.append(np.zeros(1))
        for batch in batches:
            # Ends of sentences, counted on over batches.
            sentences.append(tokens.length + np.cumsum(batch.sentence_lengths))
            # Offsets have one more entry than there are sentences.
            before = sentences.length - 1 - len(batch.sentence_lengths)
            borders.append(before + np.cumsum(batch.document_lengths))
            tokens.append(batch.ids)
            # Bits are written in whole bytes: up to 7 of them wait for the next batch.
            pending = np.concatenate([pending, batch.word_starts])
            whole = len(pending) // 8 * 8
            bits.append(np.packbits(pending[:whole], bitorder="little"))
            pending = pending[whole:]
            _add_sources(sources, batch.sources)
        bits.append(np.packbits(pending, bitorder="little"))
    counts = sum(sources.values(), collections.Counter())
    return {
        "vocabulary": tokenizer.fingerprint(),
        "vocab_size": tokenizer.vocab_size,
        "tokenizer": TOKENIZER,
        "token_dtype": tokens.dtype.name,
        "counts": {
            "tokens": tokens.length,
            "sentences": sentences.length - 1,
            "documents": borders.length - 1,
            "chars": counts["chars"],
            "replaced_chars": counts["replaced_chars"],
        },
        "sources": sources,
        "arrays": {name: array.described() for name, array in arrays.items()},
    }


def _kinds(token_dtype: str) -> dict[str, str]:
    """{array: dtype}."""
    return {
        "tokens": token_dtype,
        "word_bits": "uint8",
        "sentence_offsets": "int64",
        "document_offsets": "int64",
    }


def _add_sources(totals: dict[str, collections.Counter[str]], sources) -> None:
    for source, counts in sources.items():
        # Names without a "/" make each document a source: a header is not for those.
        has_room = source in totals or len(totals) < _MAX_SOURCES
        key = source if has_room else OTHER_SOURCES
        totals.setdefault(key, collections.Counter()).update(counts)


def _described_arrays(path: pathlib.Path, header) -> dict[str, tuple[str, int]]:
    """{name: (dtype, length)} by the header."""
    try:
        counts = {k: int(header["counts"][k]) for k in ("tokens", *_OFFSETS)}
        vocab_size, dtype = int(header["vocab_size"]), header["token_dtype"]
        largest = {"uint16": 2**16, "uint32": 2**32}[dtype]
    except (KeyError, TypeError, ValueError) as e:
        raise _FORMAT.damaged_header(path, e) from e
    if vocab_size > largest:
        raise ValueError(
            f"{path / HEADER}: tokens are {dtype}, but a vocabulary of {vocab_size} "
            "ids does not fit into that, so that large ids would be others; tokenise "
            "the text again"
        )
    lengths = {
        "tokens": counts["tokens"],
        "word_bits": -(-counts["tokens"] // 8),
        "sentence_offsets": counts["sentences"] + 1,
        "document_offsets": counts["documents"] + 1,
    }
    return {name: (kind, lengths[name]) for name, kind in _kinds(dtype).items()}


def _check_values(cache: TokenCache, vocab_size: int) -> None:
    # In chunks: the file is mapped, and may be larger than memory.
    for start in range(0, cache.num_tokens, _CHUNK_TOKENS):
        largest = int(cache.tokens[start : start + _CHUNK_TOKENS].max())
        if largest >= vocab_size:
            raise ValueError(
                f"{cache.path / 'tokens.npy'} holds id {largest}, but the vocabulary "
                f"has {vocab_size} ids; tokenise the text again"
            )
    for name, end, least in (
        ("sentence_offsets", cache.num_tokens, 1),
        ("document_offsets", cache.num_sentences, 0),
    ):
        offsets = getattr(cache, name)
        if offsets[0] != 0 or offsets[-1] != end or np.any(np.diff(offsets) < least):
            raise ValueError(
                f"{cache.path / (name + '.npy')} does not rise from 0 to {end} in "
                f"steps of {least} or more; tokenise the text again"
            )
