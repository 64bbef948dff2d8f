"""Tokenising documents in numbered parts: by several processes, and resumable.

Documents are cut into parts of about equal length, in order. Each part becomes a file
of its own, which appears whole or not at all and names the text it was made of by a
digest. A second run reads the documents again, takes over the parts that are there and
makes the rest. Neither the borders of parts nor the processes shape the result.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import hashlib
import itertools
import json
import logging
import multiprocessing
import os
import pathlib
import shutil
import signal
import threading
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TextIO

import numpy as np

from etc_jax.data import tokenizer as tokenizer_lib
from etc_jax.data.corpus import Document

_LOG = logging.getLogger(__name__)
PART_CHARS = 1 << 22
_PART_DOCUMENTS = 1 << 13  # bounds parts of empty documents
_BATCH_CHARS = 1 << 18
_BATCH_SENTENCES = 1 << 11  # what a tokenizer gives for one batch is large
_LOCK = "lock"
SOURCE_COUNTS = ("documents", "sentences", "tokens", "chars", "replaced_chars")

SplitFn = Callable[[Iterable[str]], list[str]]


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
    for batch in _cut(documents, _BATCH_CHARS):
        texts = [split_fn(document.paragraphs) for document in batch]
        pairs = _encode_sentences([s for text in texts for s in text], tokenizer)
        for document, text in zip(batch, texts, strict=True):
            found = [p for p in itertools.islice(pairs, len(text)) if len(p[0])]
            ids += [p[0] for p in found]
            starts += [p[1] for p in found]
            per_document.append(len(found))
            counts = (1, len(found), sum(len(p[0]) for p in found))
            counts += (_chars(document), document.replaced_chars)
            own = sources.setdefault(document.source, collections.Counter())
            own.update(dict(zip(SOURCE_COUNTS, counts, strict=True)))
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
    workers: int = 0,
    part_chars: int = PART_CHARS,
) -> Iterator[EncodedDocuments]:
    """The parts in order, each from its file in `folder` once that is written.

    Args:
      documents: read once, in this process.
      tokenizer: the vocabulary.
      tokenizer_file: where it is saved, for the other processes.
      folder: of the part files; those of the same text are taken over.
      split_fn: paragraphs -> sentences; with workers, a function of a module.
      workers: processes that tokenise; 0: this one.
      part_chars: characters after which a part ends.

    Raises:
      RuntimeError: if a worker process is killed.
    """
    reused, waiting = 0, collections.deque()

    def take() -> EncodedDocuments:
        file, digest, job = waiting.popleft()
        if job is not None:
            job()
        part = read_part(file, digest)
        if part is None:
            raise RuntimeError(f"{file} vanished or changed while it was in use")
        return part

    with _executor(workers, tokenizer, tokenizer_file, split_fn) as submit:
        for number, part in enumerate(_cut(documents, part_chars)):
            file, digest = folder / f"{number:06d}.npz", _digest(part)
            finished = file.exists() and read_part(file, digest) is not None
            reused += finished
            waiting.append((file, digest, None if finished else submit(part, file)))
            if len(waiting) > 2 * workers:  # enough that no worker ever waits
                yield take()
        if reused:
            _LOG.info("%s: %d finished parts taken over", folder, reused)
        while waiting:
            yield take()


@contextlib.contextmanager
def work_folder(folder: pathlib.Path) -> Iterator[None]:
    """Makes a folder that one process at a time works in; the others wait.

    In the end it is removed, unless an error leaves finished parts in it.
    """
    lock = _hold(folder)
    try:
        yield
    except BaseException:
        if not any(folder.glob("[0-9]*.npz")):
            shutil.rmtree(folder, ignore_errors=True)
        raise
    else:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        lock.close()


def _hold(folder: pathlib.Path) -> TextIO:
    """The open lock file of a folder that nobody else holds."""
    import fcntl  # a killed process loses such a lock by itself

    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock = open(folder / _LOCK, "w")
        except FileNotFoundError:
            continue  # its holder removed the folder just now
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _LOG.warning("another process works in %s: waiting for it", folder)
            fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_at(lock, folder / _LOCK):
            return lock
        lock.close()


def _is_at(file: TextIO, path: pathlib.Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def write_part(file: pathlib.Path, digest: str, part: EncodedDocuments) -> None:
    """Writes a part file, which appears whole or not at all."""
    facts = json.dumps({"digest": digest, "sources": part.sources})
    partial = file.with_name(f".{file.name}-{os.getpid()}")
    with open(partial, "wb") as handle:
        np.savez(
            handle,
            facts=np.frombuffer(facts.encode(), np.uint8),
            ids=part.ids,
            word_bits=np.packbits(part.word_starts),
            sentence_lengths=part.sentence_lengths,
            document_lengths=part.document_lengths,
        )
    os.replace(partial, file)


def read_part(file: pathlib.Path, digest: str) -> EncodedDocuments | None:
    """A part, or None (and a line in the log) if it is not that of this text."""
    try:
        # numpy leaves a file open that it opened itself and cannot read.
        with open(file, "rb") as handle, np.load(handle, allow_pickle=False) as arrays:
            facts = json.loads(arrays["facts"].tobytes())
            if facts["digest"] != digest:
                _LOG.warning("%s is made of other text and not used", file)
                return None
            ids = arrays["ids"]
            return EncodedDocuments(
                ids,
                np.unpackbits(arrays["word_bits"], count=len(ids)).astype(bool),
                arrays["sentence_lengths"],
                arrays["document_lengths"],
                facts["sources"],
            )
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as e:
        _LOG.warning("%s is damaged (%s) and not used", file, e)
        return None


def _cut(documents: Iterable[Document], most_chars: int) -> Iterator[list[Document]]:
    """Runs of whole documents, each ended by the one that makes it long enough."""
    part: list[Document] = []
    chars = 0
    for document in documents:
        part.append(document)
        chars += _chars(document)
        if chars >= most_chars or len(part) >= _PART_DOCUMENTS:
            yield part
            part, chars = [], 0
    if part:
        yield part


def _chars(document: Document) -> int:
    return sum(map(len, document.paragraphs))


def _digest(part: list[Document]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for document in part:
        facts = (document.name, document.replaced_chars, document.paragraphs)
        digest.update(json.dumps(facts).encode())
    return digest.hexdigest()


@contextlib.contextmanager
def _executor(
    workers: int, tokenizer, tokenizer_file: pathlib.Path, split_fn: SplitFn
) -> Iterator[Callable[..., Callable[[], Any]]]:
    """`submit(part, file)` -> a function that waits until that file is written."""
    if workers < 0:
        raise ValueError(f"workers is {workers}, expected 0 (this process) or more")
    if not workers:
        yield lambda part, file: lambda: _encode_to(file, part, tokenizer, split_fn)
        return
    pool = concurrent.futures.ProcessPoolExecutor(
        workers,
        multiprocessing.get_context("spawn"),  # fork and the threads of jax deadlock
        initializer=_start_worker,
        initargs=(tokenizer_file, tokenizer.fingerprint(), split_fn),
    )
    try:
        yield lambda part, file: pool.submit(_work, file, part).result
    except concurrent.futures.BrokenExecutor as e:
        raise RuntimeError(
            f"one of {workers} tokenising processes ended abruptly (did the machine "
            "run out of memory? is the script that starts them guarded by "
            '`if __name__ == "__main__"`?); finished parts are kept: correct it, or '
            "lower workers, and run again"
        ) from e
    finally:
        pool.shutdown(cancel_futures=True)


def _encode_to(file: pathlib.Path, part: list[Document], tokenizer, split_fn) -> None:
    write_part(file, _digest(part), encode(part, tokenizer, split_fn))


# What a worker process works with, set once by `_start_worker`.
_worker: tuple[tokenizer_lib.Tokenizer, SplitFn] | None = None


def _start_worker(tokenizer_file: pathlib.Path, fingerprint: str, split_fn) -> None:
    global _worker
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C: the parent ends them all
    # One thread a process: the processes themselves are what runs in parallel.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    tokenizer = tokenizer_lib.open_tokenizer(tokenizer_file)
    if tokenizer.fingerprint() != fingerprint:
        raise RuntimeError(
            f"{tokenizer_file} is not the tokenizer that was saved there"
        )
    _worker = tokenizer, split_fn


def _end_with_parent() -> None:
    # A worker holds both ends of its own queue: it would wait for ever.
    multiprocessing.parent_process().join()
    os._exit(1)


def _work(file: pathlib.Path, part: list[Document]) -> None:
    _encode_to(file, part, *_worker)
