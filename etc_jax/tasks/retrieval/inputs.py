"""A query and its passages as sequences of their own: [CLS] text [SEP] each.

They are made as `etc_jax.load(...).encode` makes them, so that vectors are those of the
training. The passage is the input of the format; the query and the hard negatives are
beside it, with ids of -1 as padding.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from etc_jax.data.schema import Placed
from etc_jax.data.text.pairs import cut_to
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.data.windows.window import too_long
from etc_jax.datasets.offsets import count_pieces, encode
from etc_jax.datasets.records import BadRecordError
from etc_jax.datasets.task import without_quirks
from etc_jax.formats.sequence import SequenceSizes, SequenceWindow, filled, parts_of
from etc_jax.tasks.retrieval.records import OPTIONS, Record, RetrievalOptions, key_of

SIZES = SequenceSizes(input_length=256, global_length=1)
# [CLS] and [SEP].
_NUM_SPECIAL = 2


@dataclasses.dataclass(frozen=True)
class RetrievalWindow(SequenceWindow):
    """A query with a passage.

    `extra` has `query`, int32 `[query_length]`, and where there are hard negatives
    `negatives`, int32 `[negatives, input_length]`: ids, then -1. `labels` are
    `query_key` int32 `[2]` and `passage_keys` int32 `[1 + negatives, 2]`: what equal
    texts have in common; 0 twice for none.
    """

    axes: ClassVar = {
        "query": Placed(padding=-1),
        "negatives": Placed(padding=-1),
        "query_key": Placed(),
        "passage_keys": Placed(),
    }


@without_quirks("retrieval")
def features(
    record: Record,
    tokenizer: Tokenizer,
    sizes: SequenceSizes = SIZES,
    *,
    options: RetrievalOptions = OPTIONS,
) -> list[RetrievalWindow]:
    """The one window of a record.

    Args:
      record: query and passages.
      tokenizer: with tokens for beginning and separator.
      sizes: tokens of the longest passage; one place for a global token.
      options: see there.

    Raises:
      BadRecordError: if a text has no token.
      ValueError: if a passage has no room, or the tokenizer lacks a special token.
    """
    n, negatives = sizes.input_length, record.negatives[: options.num_negatives]
    if n <= _NUM_SPECIAL:
        raise ValueError(f"input_length is {n}; expected {_NUM_SPECIAL + 1} or more")
    passages = [record.passage or "", *negatives]
    query, *others = (
        [tokenizer.special_id("cls"), *encoded.ids, tokenizer.special_id("sep")]
        for encoded in encode(tokenizer, [record.query, *passages])
    )
    texts = [record.query, *(x for x in passages if x)]
    for text, ids in zip(texts, [query, *others], strict=False):
        if len(ids) == _NUM_SPECIAL:
            raise BadRecordError("no text", f"{record.id!r}: {text!r:.60} has no token")
    passage, *negatives = (cut_to(np.array(ids), n) for ids in others)
    extra: dict[str, Any] = {
        "query": filled(
            options.query_length, -1, cut_to(np.array(query), options.query_length)
        )
    }
    if options.num_negatives:
        rows = [filled(n, -1, ids) for ids in negatives]
        empty = [filled(n, -1, ())] * (options.num_negatives - len(rows))
        extra["negatives"] = np.stack([*rows, *empty])
    keys = np.zeros((1 + options.num_negatives, 2), np.int32)
    for row, text in zip(keys, passages, strict=False):
        if text:
            row[:] = _numbers(text)
    return [
        RetrievalWindow(
            record=record,
            labels={"query_key": _numbers(record.query), "passage_keys": keys},
            unusable=None if record.passage else "no gold answer",
            extra=extra,
            cut=too_long(queries=(len(query), options.query_length)),
            **parts_of(sizes, passage, range(1)),
        )
    ]


def _numbers(text: str) -> np.ndarray:
    """The key of a text as int32 `[2]`."""
    return np.frombuffer(bytes.fromhex(key_of(text)), "<i4").astype(np.int32)


def record_length(record: Record, tokenizer: Tokenizer) -> int:
    """Tokens of a passage if nothing of it is cut off, special tokens included."""
    return _NUM_SPECIAL + count_pieces(tokenizer, [record.passage or ""])
