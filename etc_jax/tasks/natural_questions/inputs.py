"""Natural Questions records as inputs and labels (ETC paper, appendix C).

    long:    [CLS] question [SEP] part of the article [SEP]
    global:  [CLS] one a piece of the question and its [SEP], then one a paragraph

The article is cut into windows that overlap. Only what lies in top-level candidates is
kept of it, a piece of which is tied to its candidate's global token.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from etc_jax import structure as st
from etc_jax.base.types import Rows
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.datasets.offsets import count_pieces
from etc_jax.datasets.records import BadRecordError
from etc_jax.formats import fixed_blocks
from etc_jax.formats.sequence import filled
from etc_jax.formats.structured import StructuredSizes, StructuredWindow
from etc_jax.tasks.natural_questions.records import Record, top_spans
from etc_jax.tasks.natural_questions.windows import (
    ArticleSlice,
    ArticleWindow,
    ArticleWindows,
    WindowOptions,
)

# Of the paper (section 4); strides are those of `strides.default_stride`.
SIZES_512 = StructuredSizes(long_length=512, global_length=128)
SIZES_8192 = StructuredSizes(long_length=8192, global_length=460)
SIZES = StructuredSizes(long_length=4096, global_length=230)

# [CLS] and two [SEP].
_SPECIAL = 3


@dataclasses.dataclass(frozen=True)
class NaturalQuestionsWindow(ArticleWindow, StructuredWindow):
    """A part of an article as long and global tokens."""


@dataclasses.dataclass(frozen=True)
class NaturalQuestionsOptions(WindowOptions):
    """How inputs are made.

    Attributes:
      tokens_per_block: the paper's ablation "fixed blocks": a global token for so many
        long ones, whatever they are; None: by question and paragraph.
      flat: no global token but [CLS], so that what is left is a sliding-window BERT.
    """

    tokens_per_block: int | None = None
    flat: bool = False

    def __post_init__(self):
        if self.flat and self.tokens_per_block is not None:
            raise ValueError("flat has no global tokens: leave tokens_per_block out")
        fixed_blocks.check(self.tokens_per_block)
        super().__post_init__()

    def shaping(self, sizes: StructuredSizes) -> dict[str, Any]:
        """See `InputOptions.shaping`."""
        fields = super().shaping(sizes)
        if not self.flat and self.tokens_per_block is None:
            # Paragraphs that have no room share a global token.
            fields["global_length"] = sizes.global_length
        return fields


OPTIONS = NaturalQuestionsOptions()


def features(
    record: Record,
    tokenizer: Tokenizer,
    sizes: StructuredSizes = SIZES,
    *,
    options: NaturalQuestionsOptions = OPTIONS,
    official_quirks: bool = False,
) -> list[NaturalQuestionsWindow]:
    """The windows of a record, in order.

    Windows without an answer that are not drawn for training say so in `unusable`.

    Args:
      record: question and article.
      tokenizer: WordPiece or sentencepiece, with the special tokens of official ETC.
      sizes: lengths of the input.
      options: see there.
      official_quirks: what the official code does wrong is done wrong too: labels are
        kept in windows whose type became null, "yes" and "no" are the type of every
        window, only the first annotator counts, the last [SEP] has a global token that
        looks like padding, and sizes that leave words out are taken.

    Raises:
      BadRecordError: if nothing is left of the article, or, with official quirks,
        question or blocks have no room.
      ValueError: if the sizes do not go with the options, or the tokenizer lacks a
        special token.
    """
    if not official_quirks:
        _check_sizes(sizes, options)
    builder = _Builder(record, tokenizer, sizes, options, official_quirks)
    before = len(builder.cut.question) + 2
    return [builder.window(*part) for part in builder.cut.parts(sizes, before)]


def _check_sizes(sizes: StructuredSizes, options: NaturalQuestionsOptions) -> None:
    options.check_room(sizes, _SPECIAL)
    if options.tokens_per_block is not None:
        fixed_blocks.check_room(options.tokens_per_block, sizes)
        return
    need = 1 if options.flat else options.question_tokens + 3
    if sizes.global_length < need:
        raise ValueError(
            f"global_length is {sizes.global_length}, expected {need} at least, for "
            f"{options} and {sizes.long_length} long tokens"
        )


class _Builder:
    """Makes the windows of one record."""

    def __init__(
        self, record, tokenizer, sizes, options: NaturalQuestionsOptions, quirks: bool
    ):
        self._record, self._sizes = record, sizes
        self._options, self._quirks = options, quirks
        roles = ("nq_cls", "nq_sep", "nq_question", "sentence", "pad")
        self._ids = {role: tokenizer.special_id(role) for role in roles}
        start, end = (tokenizer.special_id(f"nq_html_{x}") for x in ("start", "end"))
        self.cut = ArticleWindows(
            record, tokenizer, options, tags=(start, end), official_quirks=quirks
        )

    def window(self, part: ArticleSlice, fields: dict[str, Any]):
        """A window of the article; see `ArticleWindows.parts`."""
        tokens, structure = self._inputs(part)
        return NaturalQuestionsWindow(
            tokens=tokens,
            types=Rows(*(np.zeros(len(x), np.int32) for x in tokens)),
            structure=structure,
            **fields,
        )

    def _inputs(self, part: ArticleSlice) -> tuple[Rows, st.Structure]:
        candidate, used = part.candidate, part.used
        n, g = self._sizes.long_length, self._sizes.global_length
        pad, sep = self._ids["pad"], self._ids["nq_sep"]
        head = [self._ids["nq_cls"], *self.cut.question, sep]
        long = filled(n, pad, [*head, *part.ids, sep])
        ids, links = self._globals(candidate, used)
        if len(ids) > g:
            raise BadRecordError(
                "too many global tokens",
                f"{self._record.id!r}: {len(ids)}, but global_length is {g}",
            )
        return Rows(long, filled(g, pad, ids)), _structure(used, len(ids), links, g)

    def _globals(
        self, candidate: np.ndarray, used: int
    ) -> tuple[list[int], np.ndarray]:
        """(ids of global tokens, the one of each long token `[n]`)."""
        links = np.full(len(candidate), -1, st.LINK_DTYPE)
        ids = [self._ids["nq_cls"]]
        if (block := self._options.tokens_per_block) is not None:
            lengths = fixed_blocks.block_lengths(used, block)
            links[:used] = np.repeat(np.arange(len(lengths)), lengths)
            return [self._ids["sentence"]] * len(lengths), links
        if self._options.flat:
            links[0] = 0
            return ids, links
        before = len(self.cut.question) + 2
        ids += [self._ids["nq_question"]] * (before - 1)
        links[:before] = np.arange(before)
        return ids + self._paragraphs(candidate, used, before, links), links

    def _paragraphs(
        self, candidate: np.ndarray, used: int, before: int, links: np.ndarray
    ) -> list[int]:
        """Ids of the global tokens of paragraphs, to which it ties long tokens."""
        run = candidate[before:used]
        # The place of each long token's candidate among those of the window.
        order = np.cumsum(np.diff(run, prepend=-2) != 0) - 1
        ids = [self._ids["sentence"]] * int(order[-1])
        if self._quirks:
            ids.append(self._ids["pad"])  # of the last [SEP]
        room = max(self._sizes.global_length - before, 0)
        # As in the official code, those that have no room share the last one.
        links[before:used] = before + np.minimum(order, room - 1)
        if not self._quirks:
            links[used - 1] = -1
        return ids[:room]


def _structure(used: int, used_global: int, links: np.ndarray, g: int) -> st.Structure:
    return st.Structure(
        long_example_ids=(np.arange(len(links)) < used).astype(np.int32),
        global_example_ids=(np.arange(g) < used_global).astype(np.int32),
        links=links[:, None],
    )


def record_length(record: Record, tokenizer: Tokenizer) -> int:
    """Tokens of a record if nothing of it is cut off, special tokens included."""
    tags, texts = 0, [record.question]
    for _, (start, stop) in top_spans(record):
        for word, is_html in zip(
            record.words[start:stop], record.is_html[start:stop], strict=True
        ):
            if is_html:
                tags += 1
            else:
                texts.append(word)
    return 3 + tags + count_pieces(tokenizer, texts)  # [CLS] and two [SEP]
