"""OpenKP pages as inputs and labels (ETC paper, appendix C).

Whole elements of the DOM are taken until the next one does not fit. Each has a global
token, to which its words are tied; there is no CLS and no question. In the ablation
with fixed blocks, global tokens do not know of elements.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from etc_jax.base.types import Rows
from etc_jax.data.schema import Placed
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.data.windows.token_types import GLOBAL_TYPE, SENTENCE_TYPE
from etc_jax.datasets.offsets import count_pieces
from etc_jax.datasets.options import InputOptions
from etc_jax.formats import fixed_blocks
from etc_jax.formats.sequence import filled
from etc_jax.formats.structured import StructuredSizes, StructuredWindow
from etc_jax.structure.builders import plain_text
from etc_jax.tasks.openkp.pages import (
    Page,
    PageWindow,
    page_axes,
    page_fields,
    read_page,
)
from etc_jax.tasks.openkp.records import Record
from etc_jax.tasks.openkp.visual import visual_arrays

SIZES = StructuredSizes(long_length=4096, global_length=512)

_WORDS = "long_words"
# The official code takes it whatever the vocabulary.
_OFFICIAL_SENTENCE = 1


@dataclasses.dataclass(frozen=True)
class OpenkpOptions(InputOptions):
    """How inputs are made.

    Attributes:
      tokens_per_block: the paper's ablation "fixed blocks": a global token for so many
        long ones, whatever they are; None: one an element.
    """

    tokens_per_block: int | None = None

    def __post_init__(self):
        fixed_blocks.check(self.tokens_per_block)

    def problem(self, objective: Any) -> str | None:
        """See `InputOptions.problem`; the look of an element has its global token."""
        if self.tokens_per_block is None or not objective.visual_features:
            return None
        return (
            f"tokens_per_block={self.tokens_per_block} leaves no global token that is "
            "an element, but objective.visual_features is True: looks are of elements; "
            "set it to False"
        )


OPTIONS = OpenkpOptions()


@dataclasses.dataclass(frozen=True)
class OpenkpWindow(PageWindow, StructuredWindow):
    """A page of which the global tokens 0, 1, ... are the elements, or fixed blocks.

    `extra` has `long_words` int32 `[n]`, see `page_axes`, and `visual`, a dict of what
    `visual_arrays` makes: of no element with fixed blocks.
    """

    axes: ClassVar = {**page_axes("long", _WORDS), "visual": Placed("global")}


def features(
    record: Record,
    tokenizer: Tokenizer,
    sizes: StructuredSizes = SIZES,
    *,
    options: OpenkpOptions = OPTIONS,
    official_quirks: bool = False,
) -> list[OpenkpWindow]:
    """The one window of a page.

    Words are those between single spaces, each tokenised alone. A word without a piece
    is left out, so that the words around it are neighbours.

    Args:
      record: the page.
      tokenizer: with the special tokens of official ETC.
      sizes: lengths of the input. There are at most as many elements as global tokens,
        but any number with fixed blocks.
      options: see there.
      official_quirks: what the official code does wrong is done wrong too: global
        tokens have the same id in every vocabulary; words without a piece, such as
        those between two spaces, are words; keyphrases longer than five words take
        places of labels, of which the loss then makes nothing; and a page with a long
        url is not trained on.

    Raises:
      BadRecordError: if not even the first element fits, or with quirks, there are
        more words than long tokens.
      ValueError: if the tokenizer lacks a special token, or the fixed blocks of a full
        input have no room.
    """
    block = options.tokens_per_block
    if block is not None:
        fixed_blocks.check_room(block, sizes)
    n, g = sizes.long_length, sizes.global_length
    page = read_page(
        record,
        tokenizer,
        n,
        most_elements=g if block is None else None,
        official_quirks=official_quirks,
    )
    lengths, looks = _global_tokens(page, record, block)
    token = _OFFICIAL_SENTENCE if official_quirks else tokenizer.special_id("sentence")
    number = len(lengths)
    fields = page_fields(record, page, n, _WORDS, official_quirks=official_quirks)
    fields["extra"]["visual"] = visual_arrays(looks, g)
    window = OpenkpWindow(
        tokens=Rows(filled(n, 0, page.ids), filled(g, 0, [token] * number)),
        types=Rows(
            filled(n, 0, [SENTENCE_TYPE] * len(page.ids)),
            filled(g, 0, [GLOBAL_TYPE] * number),
        ),
        structure=plain_text(lengths, long_length=n, global_length=g),
        **fields,
    )
    return [window]


def _global_tokens(
    page: Page, record: Record, block: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """(long tokens of each, features of those that are elements: all or none)."""
    if block is not None:
        return fixed_blocks.block_lengths(len(page.ids), block), record.features[:0]
    return page.pieces, record.features[: len(page.elements)]


def record_length(record: Record, tokenizer: Tokenizer) -> int:
    """Tokens of a record if nothing of it is cut off, special tokens included."""
    return count_pieces(tokenizer, record.text.split(" "))
