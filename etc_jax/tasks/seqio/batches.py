"""Pre-training batches packed on the fly from a stream of documents.

Documents are taken from the stream until they fill some dozens of windows; this block
of text is packed as a token cache is (`text.packing`), its windows are put in random
order, and a `text.reader.RowBuilder` makes rows of them: masked, denoised, or whatever
an objective reads. The batches are those of `text.reader.TextReader` in every respect
but the order of the text. Block 1, 2, ... draws as epoch 1, 2, ... of that reader does:
where one block holds the text, it is that epoch, bit by bit.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from etc_jax.base.rules import at_least
from etc_jax.data.pretraining import masking
from etc_jax.data.pretraining.examples import (
    PretrainingRows,
    PretrainingSizes,
    check_shares,
)
from etc_jax.data.text.cache import TokenCache
from etc_jax.data.text.packing import MIN_SENTENCES
from etc_jax.data.text.reader import Packing, RowBuilder, planned
from etc_jax.data.tokenizers.tokenizer import TokenIds
from etc_jax.tasks.seqio.documents import find, tokenizer_of
from etc_jax.tasks.seqio.streaming import (
    DocumentStream,
    TokenizedDocument,
    stream_documents,
)
from etc_jax.tasks.seqio.tensorflow import seqio

_POSITION = "position.json"
_BLOCK = "block.npz"
_STREAM = "stream"
# `cpc_documents` is int32; it need only tell apart the documents of one batch.
_DOCUMENT_NUMBERS = 2**31


@dataclasses.dataclass
class Position:
    """How far the batches have come.

    Attributes:
      block: number of the block of text; the first is 1.
      row: windows of the block that were used.
      documents, documents_dropped: read so far, and left out for too few sentences.
      tokens, tokens_dropped: those of these documents.
    """

    block: int = 0
    row: int = 0
    documents: int = 0
    documents_dropped: int = 0
    tokens: int = 0
    tokens_dropped: int = 0


class BatchStream(contextlib.AbstractContextManager, Iterator[dict[str, Any]]):
    """An iterator of batches, of the schema of its rows.

    After the end of a finite stream, the last batch is filled up with padding.
    """

    def __init__(
        self,
        stream: DocumentStream,
        rows: RowBuilder,
        *,
        vocab_size: int,
        long_length: int,
        global_length: int | None = None,
        batch_size: int,
        seed: int,
        shard: tuple[int, int] = (0, 1),
        block_windows: int = 64,
        packing: Packing = "best_fit",
        min_sentences: int = MIN_SENTENCES,
        **packing_options: Any,
    ):
        """See the class.

        Args:
          stream: of documents.
          rows: how windows become rows.
          vocab_size: of the documents' tokens.
          long_length: tokens of a window; of denoised rows their `text_length`.
          global_length: segments of a window, see `text.packing.pack`.
          batch_size: rows of this shard's batch.
          seed: of order and masks.
          shard: (index, count) of this host.
          block_windows: how many windows are packed together. More fill better, and
            take longer to read before the first batch.
          packing: which documents share a window; see `source_configs.TextConfig`.
          min_sentences: documents with fewer are dropped.
          **packing_options: the others of `text.reader.planned`.

        Raises:
          ValueError: if a number is out of range.
        """
        at_least(1).check(
            batch_size=batch_size,
            block_windows=block_windows,
            min_sentences=min_sentences,
        )
        self.position = Position()
        self._stream, self._rows, self._vocab_size = stream, rows, vocab_size
        self._batch_size, self._seed, self._shard = batch_size, seed, shard
        self._block_tokens = block_windows * long_length
        self._min_sentences = min_sentences
        self._packing = packing
        self._packing_options = {
            "long_length": long_length,
            "min_sentences": min_sentences,
            "global_length": global_length,
            **packing_options,
        }
        self._set_block([])

    def __next__(self) -> dict[str, Any]:
        batch = self._rows.empty(self._batch_size)
        for row in range(self._batch_size):
            if not self._has_window():
                if not row:
                    raise StopIteration
                break
            self._fill(batch, row)
        return batch

    def save(self, folder: str | os.PathLike) -> None:
        """Writes the position into a new folder: text in hand and that of the stream.

        Raises:
          FileExistsError: if there is such a folder.
        """
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True)
        self._stream.save(folder / _STREAM)
        np.savez(folder / _BLOCK, **_flat(self._documents))
        text = json.dumps(dataclasses.asdict(self.position))
        (folder / _POSITION).write_text(text + "\n", encoding="utf-8")

    def restore(self, folder: str | os.PathLike) -> None:
        """Goes to a saved position of a stream that was made with equal arguments.

        Raises:
          FileNotFoundError: if nothing was saved there.
        """
        folder = pathlib.Path(folder)
        text = (folder / _POSITION).read_text(encoding="utf-8")
        self._stream.restore(folder / _STREAM)
        with np.load(folder / _BLOCK, allow_pickle=False) as arrays:
            documents = _documents(**arrays)
        self.position = Position(**json.loads(text))
        self._set_block(documents)

    def close(self) -> None:
        """Closes the stream of documents."""
        self._stream.close()

    def __exit__(self, *error) -> None:
        self.close()

    def _has_window(self) -> bool:
        """Whether there is one more, in this block or the next, which is then read."""
        if self._documents and self.position.row < self._plan.num_windows:
            return True
        documents = self._read_block()
        if documents:
            self.position.block += 1
            self.position.row = 0
        self._set_block(documents)
        return bool(documents)

    def _read_block(self) -> list[TokenizedDocument]:
        documents: list[TokenizedDocument] = []
        tokens = 0
        while tokens < self._block_tokens:
            document = next(self._stream, None)
            if document is None:
                break
            length, at = len(document.tokens), self.position
            at.documents += 1
            at.tokens += length
            if len(document.sentence_lengths) < self._min_sentences:
                at.documents_dropped += 1
                at.tokens_dropped += length
            else:
                documents.append(document)
                tokens += length
        return documents

    def _set_block(self, documents: list[TokenizedDocument]) -> None:
        """Packs some documents; a function of them and of the number of the block."""
        self._documents = documents
        if not documents:
            return
        self._cache = as_cache(documents, self._vocab_size)
        self._plan = planned(self._cache, self._packing, **self._packing_options)
        rng = self._generator(0, stream=masking.PERMUTATION)
        self._order = rng.permutation(self._plan.num_windows)

    def _fill(self, batch: dict[str, Any], row: int) -> None:
        index = int(self._order[self.position.row])
        shard, _ = self._shard
        windows = self._plan.in_epoch(self._seed, self.position.block, shard)
        window = windows.read(self._cache, index)
        window = window._replace(documents=self._numbers(window.documents))
        self._rows.fill(batch, row, window, self._generator(index))
        self.position.row += 1

    def _numbers(self, documents: np.ndarray) -> np.ndarray:
        """Numbers of documents of the block -> numbers of all hosts' documents."""
        first = self.position.documents - len(self._documents)
        index, count = self._shard
        return ((first + documents) * count + index) % _DOCUMENT_NUMBERS

    def _generator(self, index: int, **kwargs: int) -> np.random.Generator:
        # Hosts must not draw the same masks, though their text differs.
        index_of_shard, _ = self._shard
        return masking.generator(
            self._seed, self.position.block, index, source=index_of_shard, **kwargs
        )


def stream_rows(
    name: str,
    split: str,
    rows: RowBuilder,
    *,
    seed: int,
    shard: tuple[int, int] = (0, 1),
    shuffle: bool = True,
    num_epochs: int | None = None,
    **options: Any,
) -> BatchStream:
    """Batches from a registered Task or Mixture, without a token cache.

    Args:
      name: of the Task or Mixture.
      split: such as "train".
      rows: how windows become rows.
      seed: of order and masks.
      shard: (index, count) of this host.
      shuffle: documents in random order; windows of a block always are.
      num_epochs: passes over the data; None: endless.
      **options: the others of `BatchStream`.

    Raises:
      ValueError: as `stream_documents`; if sizes and options do not go together.
    """
    stream = stream_documents(
        name, split, seed=seed, shard=shard, shuffle=shuffle, num_epochs=num_epochs
    )
    vocab_size = _vocab_size(name, split)
    return BatchStream(
        stream, rows, vocab_size=vocab_size, seed=seed, shard=shard, **options
    )


def stream_batches(
    name: str,
    split: str,
    *,
    ids: TokenIds,
    sizes: PretrainingSizes,
    shares: masking.MaskingShares | None = None,
    **options: Any,
) -> BatchStream:
    """Batches of MLM and CPC; their keys are in `data.pretraining.examples`.

    Args:
      name: of the Task or Mixture.
      split: such as "train".
      ids: `token_ids` of the tokenizer of the Tasks.
      sizes: lengths of the batch.
      shares: what is masked; None: as in the paper.
      **options: the others of `stream_rows`, but for lengths.

    Raises:
      ValueError: as `stream_rows`.
    """
    shares = shares or masking.MaskingShares()
    check_shares(sizes, shares, options.get("global_tokens"))
    if ids.vocab_size != (vocab_size := _vocab_size(name, split)):
        raise ValueError(
            f"ids are of a vocabulary of {ids.vocab_size}, but {name!r} has one of "
            f"{vocab_size}; use the tokenizer of the Tasks"
        )
    return stream_rows(
        name,
        split,
        PretrainingRows(ids, sizes, shares),
        long_length=sizes.long_length,
        global_length=sizes.global_length,
        **options,
    )


def _vocab_size(name: str, split: str) -> int:
    """That of the tokenizer which all Tasks of a Mixture share."""
    task = seqio.get_subtasks(find(name, split))[0]
    return tokenizer_of(task).vocab_size


def as_cache(documents: Sequence[TokenizedDocument], vocab_size: int) -> TokenCache:
    """Some documents as a token cache in memory."""
    flat = _flat(documents)
    return TokenCache.from_arrays(
        flat["tokens"].astype(np.uint32),
        flat["word_starts"],
        np.cumsum([0, *flat["sentence_lengths"]]),
        np.cumsum([0, *flat["document_lengths"]]),
        vocab_size=vocab_size,
    )


def _flat(documents: Sequence[TokenizedDocument]) -> dict[str, np.ndarray]:
    nothing = TokenizedDocument(
        np.zeros(0, np.int32), np.zeros(0, bool), np.zeros(0, np.int32)
    )
    columns = zip(*(nothing, *documents), strict=True)
    names = TokenizedDocument._fields
    flat = {k: np.concatenate(v) for k, v in zip(names, columns, strict=True)}
    counts = [len(document.sentence_lengths) for document in documents]
    return flat | {"document_lengths": np.array(counts, np.int64)}


def _documents(
    tokens, word_starts, sentence_lengths, document_lengths
) -> list[TokenizedDocument]:
    """The inverse of `_flat`."""
    documents, sentence, token = [], 0, 0
    for count in document_lengths.tolist():
        lengths = sentence_lengths[sentence : sentence + count]
        end = token + int(lengths.sum())
        documents.append(
            TokenizedDocument(tokens[token:end], word_starts[token:end], lengths)
        )
        sentence, token = sentence + count, end
    return documents
