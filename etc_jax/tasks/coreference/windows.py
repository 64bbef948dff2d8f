"""Documents with mentions as inputs of one sequence.

The sequence of a window is one part, or several that the encoder reads apart from each
other, each with the tokens that stand at the ends of a text; see
`inputs`. A document that does not fit becomes several windows, and no
antecedent is looked for in another window. No token is global: Longformer's are not, in
this task (Beltagy et al. 2020, section 6.2).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from etc_jax.base.rules import at_least
from etc_jax.data.schema import Placed
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.datasets.offsets import count_pieces
from etc_jax.datasets.options import InputOptions
from etc_jax.datasets.records import BadRecordError
from etc_jax.datasets.task import without_quirks
from etc_jax.formats.sequence import (
    EXAMPLE_IDS,
    SequenceSizes,
    SequenceWindow,
    parts_of,
)
from etc_jax.tasks.coreference import inputs as coreference_inputs
from etc_jax.tasks.coreference.inputs import Candidates, TokenizedRecord
from etc_jax.tasks.coreference.records import Record

SIZES = SequenceSizes(input_length=4096, global_length=1)


@dataclasses.dataclass(frozen=True)
class CoreferenceOptions(InputOptions):
    """How inputs are made.

    Attributes:
      span_tokens: of the longest span that may be a mention (Joshi et al. 2019: 30).
      candidates: m, room for spans in a window.
      part_length: tokens that the encoder reads at once; 0: the whole sequence.
      singletons: what is mentioned once is an entity, as in LitBank; OntoNotes has none
        of these.
    """

    span_tokens: int = 30
    candidates: int = 49_152
    part_length: int = 0
    singletons: bool = False

    def __post_init__(self):
        at_least(1).check(span_tokens=self.span_tokens, candidates=self.candidates)
        at_least(0).check(part_length=self.part_length)

    def read_at_once(self, length: int) -> int:
        """See `InputOptions.read_at_once`."""
        return self.part_length or length


OPTIONS = CoreferenceOptions()


@dataclasses.dataclass(frozen=True)
class CoreferenceWindow(SequenceWindow):
    """A document, or as many parts of it as fit.

    `extra` has

        spans       int32 [m, 2]   places of the first and the last token of each
                                   candidate, in the order of the text; -1 after them
        num_words   int32 []       of the parts

    and `labels` has `clusters` int32 `[m]`: 1 + index of the cluster of the record that
    a candidate is a mention of; 0 for none, and after the candidates.

    Attributes:
      candidates: those of the window, without padding; words are counted over the
        document.
      singletons: see `CoreferenceOptions`.
    """

    candidates: Candidates
    singletons: bool

    axes: ClassVar = {
        "spans": Placed(padding=-1),
        "num_words": Placed(),
        "clusters": Placed(),
    }


@without_quirks("coreference")
def features(
    record: Record,
    tokenizer: Tokenizer,
    sizes: SequenceSizes = SIZES,
    *,
    options: CoreferenceOptions = OPTIONS,
) -> list[CoreferenceWindow]:
    """The windows of a record, in the order of its text.

    Args:
      record: the words.
      tokenizer: with CLS and separator.
      sizes: `input_length` is that of the sequence; no token is global.
      options: how they are made.

    Raises:
      BadRecordError: if one word alone has no room, or a part has more spans than there
        is room for.
      ValueError: if the sequence is not a number of whole parts, or the tokenizer
        lacks a special token.
    """
    length = options.part_length or sizes.input_length
    if sizes.input_length % length:
        raise ValueError(
            f"input_length {sizes.input_length} is not a number of whole parts of "
            f"part_length {length}; give a multiple"
        )
    part_sizes = SequenceSizes(length, sizes.global_length)
    document = coreference_inputs.features(record, tokenizer, part_sizes)
    width = options.span_tokens
    candidates = document.candidates(width, max_tokens=width)
    return [
        _window(document, candidates, parts, sizes, options)
        for parts in _grouped(
            document, candidates, sizes.input_length // length, options
        )
    ]


def _grouped(
    document: TokenizedRecord,
    candidates: Candidates,
    most: int,
    options: CoreferenceOptions,
) -> Iterator[range]:
    """Parts of each window: as many as there is room for them and their candidates."""
    number, length = document.tokens.shape
    of_part = np.bincount(candidates.first_tokens // length, minlength=number).tolist()
    start = total = 0
    for part, count in enumerate(of_part):
        if count > options.candidates:
            raise BadRecordError(
                "too many spans",
                f"{document.record.id!r}: {count} spans in a part of {length} tokens, "
                f"and room for {options.candidates}; raise --candidates, or lower "
                "--span_tokens",
            )
        if part - start == most or total + count > options.candidates:
            yield range(start, part)
            start, total = part, 0
        total += count
    yield range(start, number)


def _window(
    document: TokenizedRecord,
    candidates: Candidates,
    parts: range,
    sizes: SequenceSizes,
    options: CoreferenceOptions,
) -> CoreferenceWindow:
    length = document.tokens.shape[1]
    # Tokens are counted over all parts, each of which is a row of `length`.
    part = candidates.first_tokens // length
    of_window = _only(candidates, (part >= parts.start) & (part < parts.stop))
    before = parts.start * length
    spans = np.full((options.candidates, 2), -1, np.int32)
    clusters = np.zeros(options.candidates, np.int32)
    number = len(of_window.mask)
    spans[:number, 0] = of_window.first_tokens - before
    spans[:number, 1] = of_window.last_tokens - before
    clusters[:number] = of_window.clusters
    rows = slice(parts.start, parts.stop)
    fields = parts_of(sizes, document.tokens[rows].reshape(-1), ())
    # Not those of `parts_of`: parts end with padding in the middle of the window.
    example_ids = np.zeros(sizes.input_length, np.int32)
    example_ids[: len(parts) * length] = document.example_ids[rows].reshape(-1)
    word_parts = document.word_tokens[:, 0] // length
    num_words = np.count_nonzero(
        (word_parts >= parts.start) & (word_parts < parts.stop)
    )
    return CoreferenceWindow(
        record=document.record,
        labels={"clusters": clusters},
        unusable="no gold clusters" if document.record.clusters is None else None,
        candidates=of_window,
        singletons=options.singletons,
        extra={"spans": spans, "num_words": np.array(num_words, np.int32)},
        **{**fields, EXAMPLE_IDS: example_ids},
    )


def _only(candidates: Candidates, chosen: np.ndarray) -> Candidates:
    arrays = {
        field.name: getattr(candidates, field.name)[chosen]
        for field in dataclasses.fields(candidates)
        if field.name != "unreachable"
    }
    return dataclasses.replace(candidates, **arrays)


def record_length(record: Record, tokenizer: Tokenizer) -> int:
    """Tokens of a record if nothing of it is cut off, special tokens included."""
    sentences = ("".join(f" {word}" for word in s) for s in record.sentences)
    return 2 + count_pieces(tokenizer, sentences)
