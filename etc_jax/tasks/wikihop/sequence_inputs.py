"""WikiHop records as inputs of one sequence, as Longformer reads them.

    <s> [q] query [/q] [ent] candidate [/ent] [ent] ... [/ent] </s></s>
        document </s> document </s> ...

In BERT's vocabulary [CLS] is the first token and one [SEP] stands where there are two
separators. The tokens in brackets are added to the vocabulary. All before the first
separator is global (Beltagy et al. 2020, appendix on question answering). Where the
documents do not fit into one input they go on in further ones, each with query and
candidates before them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from etc_jax.data.schema import Placed
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.datasets.added_tokens import added_ids
from etc_jax.datasets.offsets import count_pieces, encode
from etc_jax.datasets.records import BadRecordError
from etc_jax.datasets.task import without_quirks
from etc_jax.formats.sequence import SequenceSizes, SequenceWindow, filled, pair_parts
from etc_jax.tasks.wikihop.records import Record

# 79 candidates, the most there are, are some 350 tokens of RoBERTa's.
SIZES = SequenceSizes(input_length=4096, global_length=512)
TOKENS = ("[q]", "[/q]", "[ent]", "[/ent]")


@dataclasses.dataclass(frozen=True)
class WikihopSequence(SequenceWindow):
    """Query and candidates with documents, or with a part of them.

    `extra` has `candidates` int32 `[sizes.global_length]`: places of the opening [ent]
    of each candidate, then -1; and `labels` has `candidate` int32 `[]`: which of them
    is the answer, -1 without a gold answer.
    """

    axes: ClassVar = {"candidates": Placed(padding=-1)}

    @property
    def is_candidate(self) -> np.ndarray:
        """Which places of candidates are in use, bool `[m]`."""
        return self.extra["candidates"] >= 0


@without_quirks("wikihop in one sequence")
def features(
    record: Record,
    tokenizer: Tokenizer,
    sizes: SequenceSizes = SIZES,
) -> list[WikihopSequence]:
    """The windows of a record, in the order of its documents.

    Each is trained on by itself, and what they say of a candidate is averaged at the
    end: a linear map of averaged rows is the average of its results for each. White
    space is read as one space wherever there is some.

    Args:
      record: the query.
      tokenizer: WordPiece or byte-level BPE, grown by `TOKENS`.
      sizes: tokens of the sequence, and how many of them may be global.

    Raises:
      BadRecordError: if query and candidates have more tokens than may be global or
        leave no room, a candidate has none, or the documents have none.
      ValueError: if the tokenizer lacks a token.
    """
    added = added_ids(tokenizer, TOKENS, "wikihop")
    texts = [record.query, *record.candidates, *record.documents]
    pieces = encode(tokenizer, [" ".join(text.split()) for text in texts])
    query, *others = (encoded.ids for encoded in pieces)
    cls, sep = (tokenizer.special_id(role) for role in ("cls", "sep"))
    # What stands before the first separator, and where each candidate opens there.
    head, openings = [cls, added["[q]"], *query, added["[/q]"]], []
    for text, ids in zip(record.candidates, others, strict=False):
        if not ids:
            message = f"{record.id!r}: {text!r} has no token"
            raise BadRecordError("empty candidate", message)
        openings.append(len(head))
        head += [added["[ent]"], *ids, added["[/ent]"]]
    separators = tokenizer.special.pair_separators
    room = sizes.input_length - len(head) - separators
    if len(head) > sizes.global_length or room < 2:
        raise BadRecordError(
            "too large",
            f"{record.id!r}: a query and {len(record.candidates)} candidates of "
            f"{len(head)} tokens, in an input of {sizes}; raise the lengths",
        )
    parts = _parts(others[len(openings) :], room, sep)
    if not parts:
        raise BadRecordError("no text", f"{record.id!r}: no document has a token")
    label = -1 if record.label is None else record.label
    return [
        WikihopSequence(
            record=record,
            labels={"candidate": np.array(label, np.int32)},
            unusable="no gold answer" if record.label is None else None,
            extra={"candidates": filled(sizes.global_length, -1, openings)},
            **pair_parts(sizes, head, part, len(head), tokenizer),
        )
        for part in parts
    ]


def _parts(documents: Sequence[list[int]], room: int, sep: int) -> list[list[int]]:
    """Documents cut into inputs: each as full as can be, with a separator after each.

    Args:
      documents: ids of each.
      room: tokens of an input, at least 2.
      sep: the separator, which also stands where a document is cut.
    """
    parts: list[list[int]] = []
    for ids in documents:
        while ids:
            left = room - len(parts[-1]) - 1 if parts else 0
            if left < 1:
                parts.append([])
                left = room - 1
            parts[-1] += [*ids[:left], sep]
            ids = ids[left:]
    return parts


def record_length(record: Record, tokenizer: Tokenizer) -> int:
    """Tokens of a record if nothing of it is cut off, special tokens included."""
    documents = [text for text in record.documents if text.strip()]
    texts = [record.query, *record.candidates, *documents]
    # [CLS], tokens around the query and around candidates, and after documents.
    special = 3 + tokenizer.special.pair_separators
    special += 2 * len(record.candidates) + len(documents)
    return special + count_pieces(tokenizer, (" ".join(x.split()) for x in texts))
