"""Pairs of texts in tokens on disk, whole, for `data.text.pairs`."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Iterator, Sequence

from etils import epath

from etc_jax.base import copies
from etc_jax.data import parts
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.data.windows.cache import WindowCache
from etc_jax.data.windows.writing import (
    LeftOut,
    WindowSource,
    build_windows,
    files_and_packages,
    part_of,
)
from etc_jax.datasets.pairs import PLAIN, Pair, PairOptions, encoded, read_complete
from etc_jax.datasets.records import BadRecordError
from etc_jax.formats.text_to_text import SCHEMA, whole_window

# What a header has for lengths: texts are kept whole, and are cut when they are read.
_ANY_LENGTH = 2**31 - 1


def prepared(
    files: Sequence[str | os.PathLike],
    tokenizer: Tokenizer,
    folder: str | os.PathLike,
    options: PairOptions = PLAIN,
    *,
    workers: int | str = 0,
) -> WindowCache:
    """Tokenises the pairs of some files, or opens the cache that is there already.

    Files, vocabulary and options decide which folder in `folder` it is. The files are
    hashed whole each time. A run that is killed goes on where it stood.

    Args:
      files: JSON lines; see `pairs`.
      tokenizer: the vocabulary, with an end token.
      folder: where caches live; its address in an object store, see `copies.kept`.
      options: how texts become tokens.
      workers: processes that tokenise; 0: this one; or the address of a cluster, see
        `data.cluster`.

    Raises:
      BadRecordError: naming the first pair that cannot be used.
      ValueError: if there is no pair, or the tokenizer lacks a special token.
      OSError: if a file cannot be read.
      parts.WorkerDiedError: if a process is killed.
    """
    source = WindowSource(
        "pairs",
        SCHEMA.name,
        dict.fromkeys(SCHEMA.lengths.values(), _ANY_LENGTH),
        options=dataclasses.asdict(options),
        made_by=files_and_packages(files),
    )

    def make(tokenizer_file: pathlib.Path, work: pathlib.Path) -> Iterator[parts.Part]:
        recipe = parts.Recipe(
            _encoder(tokenizer, options), _open_encoder, (tokenizer_file, options)
        )
        cut = parts.cut_records(read_complete(files))
        return parts.make_parts(cut, recipe, work, workers=workers)

    name = f"pairs-{source.fingerprint(tokenizer)[:12]}"
    with copies.kept(epath.Path(folder) / name) as path:
        path.parent.mkdir(parents=True, exist_ok=True)
        return build_windows(make, tokenizer, path, source)


def _encoder(tokenizer: Tokenizer, options: PairOptions) -> parts.MakeFn:
    def make(pairs: list[Pair]) -> parts.Part:
        windows = []
        for pair in pairs:
            try:
                tokens = encoded(pair, tokenizer, options)
            except BadRecordError as e:
                raise e.at(pair.id) from e
            windows.append(whole_window(pair, tokens.ids, tokens.marks, tokens.target))
        return part_of(windows, tokenizer.vocab_size, len(pairs), LeftOut())

    return make


def _open_encoder(tokenizer_file: pathlib.Path, options: PairOptions) -> parts.MakeFn:
    return _encoder(Tokenizer.load(tokenizer_file), options)
