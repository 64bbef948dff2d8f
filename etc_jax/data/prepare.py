"""The built-in corpus made ready: vocabulary, training and held-back token caches."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import os
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from etc_jax.data import corpus
from etc_jax.data.cache import TokenCache, build_cache
from etc_jax.data.sentences import splitter_version
from etc_jax.data.tokenizer import Tokenizer, train


class Prepared(NamedTuple):
    """A vocabulary and the text in it, for training and held back."""

    tokenizer: Tokenizer
    train: TokenCache
    held_back: TokenCache


def prepare_built_in(
    folder: str | os.PathLike,
    *,
    vocab_size: int = 8192,
    held_back: float = 0.05,
    packages: Sequence[str] = corpus.PACKAGES,
    progress_fn: Callable[[int, int], None] | None = None,
    report_fn: Callable[[str], None] | None = None,
) -> Prepared:
    """Reads, tokenises and caches the built-in corpus, or opens what is there.

    Each combination of arguments and package versions has a folder of its own under
    `folder`. The vocabulary is learned from the training documents alone.

    Args:
      folder: where caches live.
      vocab_size: ids of the vocabulary.
      held_back: expected share of documents that are held back.
      packages: packages beside the standard library.
      progress_fn: as for `build_cache`, for each of the two caches.
      report_fn: gets `Corpus.report()` if the corpus is read.

    Raises:
      ImportError: if nupunkt is not installed.
      ValueError: if a package is not installed, or the text is too little for the
        vocabulary.
    """
    made_by = {
        "corpus": corpus.describe_built_in(packages),
        "sentences": splitter_version(),
        "tokenizers": importlib.metadata.version("tokenizers"),
        "vocab_size": vocab_size,
        "held_back": held_back,
    }
    digest = hashlib.sha256(json.dumps(made_by, sort_keys=True).encode()).hexdigest()
    folder = pathlib.Path(folder) / f"built_in-{digest[:12]}"
    folder.mkdir(parents=True, exist_ok=True)

    @functools.cache
    def sides() -> tuple[list[corpus.Document], list[corpus.Document]]:
        read = corpus.built_in_corpus(packages)
        if report_fn is not None:
            report_fn(read.report())
        return corpus.split(read.documents, held_back)

    def documents(side: int) -> Iterator[corpus.Document]:
        yield from sides()[side]  # a generator: read only where a cache is missing

    tokenizer = _tokenizer(folder / "tokenizer.json", documents, vocab_size)
    caches = [
        build_cache(
            documents(side),
            tokenizer,
            folder / name,
            made_by=made_by | {"side": name},
            progress_fn=progress_fn,
        )
        for side, name in enumerate(("train", "held_back"))
    ]
    return Prepared(tokenizer, *caches)


def _tokenizer(path: pathlib.Path, documents, vocab_size: int) -> Tokenizer:
    if path.exists():
        return Tokenizer.load(path)
    texts = [p for document in documents(0) for p in document.paragraphs]
    tokenizer = train(texts, vocab_size=vocab_size)
    part = path.with_name(f".{path.name}-{os.getpid()}")
    tokenizer.save(part)
    os.replace(part, path)
    return tokenizer
