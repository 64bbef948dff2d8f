"""Questions with options as text, in SCROLLS's form: a model writes the option.

    Why did the frog dive?

     (A) It was cold
     (B) A heron came

    The frog sat by the pond. ...

All before the article is the prefix of the pair, which SLED and BART-LS may repeat; of
a pair without places of its own for it, a space stands before the article.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from etc_jax.datasets.decoding import of_one_setting
from etc_jax.datasets.explained import ExplainedDocument, Wording
from etc_jax.datasets.pairs import Pair, PairOptions
from etc_jax.datasets.task import FeatureConverter
from etc_jax.datasets.text_converter import LEGEND, make_text_converter
from etc_jax.formats.text_to_text import TextToTextSizes, TextToTextWindow
from etc_jax.tasks.multiple_choice.decoding import option_of_text
from etc_jax.tasks.multiple_choice.records import ChoiceColumns, Record

SIZES = TextToTextSizes(input_length=16384, target_length=128)


@dataclasses.dataclass(frozen=True)
class ChoiceTextOptions(ChoiceColumns, PairOptions):
    """Questions by their columns, and how texts become tokens."""

    given_to: ClassVar[tuple[str, ...]] = (
        *PairOptions.given_to,
        *("read", "parse", "release"),
    )

    def shaping(self, sizes: Any) -> dict[str, Any]:
        """See there: only how texts become tokens."""
        del sizes
        names = (field.name for field in dataclasses.fields(PairOptions))
        return {name: getattr(self, name) for name in names}


def pair_of(record: Record) -> Pair:
    """What is read of a record, and what is to be written: the right option."""
    options = (
        f" ({chr(ord('A') + number)}) {option}"
        for number, option in enumerate(record.options)
    )
    prefix = "\n".join([f"{record.question}\n", *options]) + "\n\n"
    target = None if record.label is None else record.options[record.label]
    return Pair(record.id, record.article, target, prefix)


def _shown(record: Record) -> tuple[str, ExplainedDocument]:
    return record.question, ExplainedDocument.of_text(record.title, record.article)


def _options(texts: np.ndarray, windows: Sequence[TextToTextWindow]) -> list[int]:
    """The number of the option that each window's text means; see `option_of_text`."""
    return [
        option_of_text(text, window.record.options)
        for text, window in zip(texts, windows, strict=True)
    ]


def make_converter() -> FeatureConverter:
    """The converter of format text_to_text."""
    converter = make_text_converter(
        "multiple_choice",
        sizes=SIZES,
        options=ChoiceTextOptions(),
        pair_of=pair_of,
        shown=_shown,
        wording=Wording(support="", legend=LEGEND, side_by_side=True),
    )
    return dataclasses.replace(converter, decode=of_one_setting(_options))
