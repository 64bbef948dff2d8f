"""Natural Questions records as inputs of one sequence (Alberti et al. 2019).

    BERT's vocabulary:     [CLS] question [SEP] part of the article [SEP]
    RoBERTa's vocabulary:  <s> question </s></s> part of the article </s>

The windows are those of `inputs`. Of a tag is kept whether it opens or closes
something, as `TOKENS`, which are added to the vocabulary. The first token and the
question are global, for a Longformer.
"""

from __future__ import annotations

import dataclasses

from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.datasets.added_tokens import added_ids
from etc_jax.datasets.task import without_quirks
from etc_jax.formats.sequence import SequenceSizes, SequenceWindow, pair_parts
from etc_jax.tasks.natural_questions.inputs import record_length as structured_length
from etc_jax.tasks.natural_questions.records import Record
from etc_jax.tasks.natural_questions.windows import (
    ArticleWindow,
    ArticleWindows,
    WindowOptions,
)

SIZES = SequenceSizes(input_length=4096, global_length=33)

TOKENS = ("[tag]", "[/tag]")
OPTIONS = WindowOptions()


@dataclasses.dataclass(frozen=True)
class NaturalQuestionsSequence(ArticleWindow, SequenceWindow):
    """The same in one sequence."""


@without_quirks("natural_questions in one sequence")
def features(
    record: Record,
    tokenizer: Tokenizer,
    sizes: SequenceSizes = SIZES,
    *,
    options: WindowOptions = OPTIONS,
) -> list[NaturalQuestionsSequence]:
    """The windows of a record, in order.

    Windows without an answer that are not drawn for training say so in `unusable`.

    Args:
      record: question and article.
      tokenizer: WordPiece or byte-level BPE, grown by `TOKENS`.
      sizes: tokens of the sequence, and places for those of them that are global.
      options: see there.

    Raises:
      BadRecordError: if nothing is left of the article.
      ValueError: if the sizes do not go with the options, or the tokenizer lacks a
        special token.
    """
    cls, sep = (tokenizer.special_id(role) for role in ("cls", "sep"))
    separators = tokenizer.special.pair_separators
    options.check_room(sizes, 2 + separators)
    if sizes.global_length <= options.question_tokens:
        raise ValueError(
            f"global_length is {sizes.global_length}, expected "
            f"{options.question_tokens + 1} at least: the first token and the question "
            "are global"
        )
    added = added_ids(tokenizer, TOKENS, "natural_questions in one sequence")
    cut = ArticleWindows(
        record, tokenizer, options, tags=(added[TOKENS[0]], added[TOKENS[1]])
    )
    head = [cls, *cut.question]
    windows = []
    for part, fields in cut.parts(sizes, len(head) + separators):
        text = [*part.ids.tolist(), sep]
        arrays = pair_parts(sizes, head, text, len(head), tokenizer)
        windows.append(NaturalQuestionsSequence(**fields, **arrays))
    return windows


def record_length(record: Record, tokenizer: Tokenizer) -> int:
    """Tokens of a record if nothing of it is cut off, special tokens included."""
    # Of [CLS] and the two [SEP] there may be one more.
    return structured_length(record, tokenizer) + tokenizer.special.pair_separators - 1
