"""Questions with options, as one sequence for each option.

    BERT's vocabulary:     [CLS] question option [SEP] article [SEP]
    RoBERTa's vocabulary:  <s> question option </s></s> article </s>

Question and option come first, so that cutting the article keeps them. All tokens
before the first separator that there is a place for are global, for a Longformer.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.data.windows.window import InputSizes
from etc_jax.datasets.offsets import count_pieces, encode
from etc_jax.datasets.records import BadRecordError, Problems
from etc_jax.datasets.task import without_quirks
from etc_jax.formats.sequence import SequenceSizes, SequenceWindow, pair_parts
from etc_jax.tasks.multiple_choice.records import ChoiceColumns, Record, read

SIZES = SequenceSizes(input_length=4096, global_length=64)
_MOST = 64


@dataclasses.dataclass(frozen=True)
class ChoiceOptions(ChoiceColumns):
    """Questions by their columns, and how they become inputs.

    Attributes:
      most_options: of a question: inputs have room for so many; by default as many as
        the files to learn from have.
      split_article: an article that does not fit goes on in further inputs, each with
        the question and all options, whose scores of an option are averaged; otherwise
        its beginning is read.
    """

    given_to: ClassVar[tuple[str, ...]] = ("features", "read", "parse", "release")

    most_options: int = 0
    split_article: bool = False

    def __post_init__(self):
        super().__post_init__()
        if not (self.most_options == 0 or 2 <= self.most_options <= _MOST):
            raise ValueError(
                f"most_options is {self.most_options}; expected 2 to {_MOST}, or 0: as "
                "many as the files have"
            )

    def completed(self, paths: Sequence[str | os.PathLike]) -> Self:
        """With the most options that a question of the files has.

        Raises:
          ValueError: if there is no question, or one has too many options.
          OSError: if a file cannot be read.
        """
        if self.most_options:
            return self
        problems = Problems()
        counts = [len(x.options) for x in read(paths, problems, options=self)]
        if not counts:
            raise ValueError(f"there is no question to read; {problems.report()}")
        return dataclasses.replace(self, most_options=max(counts))

    def shaping(self, sizes: InputSizes) -> dict[str, Any]:
        """See there: where an article is split, the length makes the inputs."""
        fields = {
            "most_options": self.most_options,
            "split_article": self.split_article,
        }
        if self.split_article:
            fields[sizes.text_field] = sizes.text_length
        return fields

    def problem(self, objective: Any) -> str | None:
        """A model needs the number of options, which a cache has."""
        del objective
        if self.most_options:
            return None
        return (
            "it is not known how many options there are; set data.input_options to "
            "what etc-jax prepare says at its end"
        )


OPTIONS = ChoiceOptions()


@dataclasses.dataclass(frozen=True)
class ChoiceWindow(SequenceWindow):
    """A sequence for each option, o of them, those that a record has not all padding.

    The arrays of a `SequenceWindow` have a last axis for the options: `[n, o]`, and
    `[g, o]` for `global_index`. `labels` has `candidate` int32 `[]`, the right one, -1
    without.
    """

    @property
    def is_candidate(self) -> np.ndarray:
        """Which options there are, bool `[o]`."""
        return self.example_ids[0] > 0


@without_quirks("a question with options")
def features(
    record: Record,
    tokenizer: Tokenizer,
    sizes: SequenceSizes = SIZES,
    *,
    options: ChoiceOptions = OPTIONS,
) -> list[ChoiceWindow]:
    """The windows of a record: one, or several with parts of the article.

    White space is read as one space wherever there is some.

    Args:
      record: the question.
      tokenizer: WordPiece or byte-level BPE with tokens for beginning and separator.
      sizes: tokens of the sequence of an option, and places for global ones.
      options: how questions become inputs.

    Raises:
      BadRecordError: if there are more options than inputs have room for, a text has no
        token, or question and option leave no room for the article.
      ValueError: if the tokenizer lacks a special token.
    """
    most = options.most_options or len(record.options)
    if len(record.options) > most:
        raise BadRecordError(
            "too many options",
            f"{record.id!r} has {len(record.options)}, inputs have room for {most}; "
            f"give the option most_options={len(record.options)}",
        )
    cls, sep = (tokenizer.special_id(role) for role in ("cls", "sep"))
    question, article, *choices = _encoded(record, tokenizer)
    heads = [[cls, *question, *choice] for choice in choices]
    longest = max(map(len, heads))
    room = sizes.input_length - longest - tokenizer.special.pair_separators - 1
    if room < 1:
        raise BadRecordError(
            "too large",
            f"{record.id!r}: a question and an option of {longest - 1} "
            f"tokens leave no room for the article in {sizes.input_length}; raise "
            "input_length",
        )
    starts = range(0, len(article), room) if options.split_article else (0,)
    parts = [[*article[start : start + room], sep] for start in starts]
    label = -1 if record.label is None else record.label

    def arrays(part: list[int]) -> dict[str, np.ndarray]:
        of_options = []
        for head in heads:
            num_global = min(len(head), sizes.global_length)
            of_options.append(pair_parts(sizes, head, part, num_global, tokenizer))
        return _stacked(of_options, most)

    return [
        ChoiceWindow(
            record=record,
            labels={"candidate": np.array(label, np.int32)},
            unusable="no gold label" if record.label is None else None,
            **arrays(part),
        )
        for part in parts
    ]


def _encoded(record: Record, tokenizer: Tokenizer) -> list[list[int]]:
    """The ids of question, article and options, each with a token."""
    texts = (record.question, record.article, *record.options)
    pieces = encode(tokenizer, [" ".join(x.split()) for x in texts])
    question, article, *choices = (x.ids for x in pieces)
    for what, ids in zip(("question", "article"), (question, article), strict=True):
        if not ids:
            raise BadRecordError("no text", f"the {what} of {record.id!r} has no token")
    if not all(choices):
        raise BadRecordError("empty option", f"{record.id!r} has one without a token")
    return [question, article, *choices]


def _stacked(
    of_options: Sequence[dict[str, np.ndarray]], most: int
) -> dict[str, np.ndarray]:
    """The arrays of all options, with padding up to so many: `[length, most]`."""
    stacked = {}
    for name, array in of_options[0].items():
        padding = -1 if name == "global_index" else 0
        stacked[name] = np.full((len(array), most), padding, np.int32)
        for number, parts in enumerate(of_options):
            stacked[name][:, number] = parts[name]
    return stacked


def record_length(record: Record, tokenizer: Tokenizer) -> int:
    """Tokens of the longest option's sequence if nothing of it is cut off."""
    special = 2 + tokenizer.special.pair_separators
    texts = (" ".join(x.split()) for x in (record.question, record.article))
    longest = max(
        count_pieces(tokenizer, [" ".join(x.split())]) for x in record.options
    )
    return special + longest + count_pieces(tokenizer, texts)
