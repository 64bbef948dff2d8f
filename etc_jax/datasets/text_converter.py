"""How data sets are read whose answers are texts that a model writes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.data.windows.window import too_long
from etc_jax.datasets.decoding import of_one_setting
from etc_jax.datasets.explained import Explained, ExplainedDocument, Wording
from etc_jax.datasets.pairs import PLAIN, Pair, PairOptions, encoded
from etc_jax.datasets.task import DataSet, FeatureConverter, without_quirks
from etc_jax.formats.text_to_text import TextToTextSizes, TextToTextWindow, parts_of
from etc_jax.scoring.result import Scores

WORDING = Wording(
    question="Record",
    answer="Output",
    reference="Reference",
    support="",
    legend="",
    headed_by_id=True,
    side_by_side=True,
)

_WHY = "a text is to be written, and models that read inputs so only choose"
_ONLY_WRITTEN = {"structured": _WHY, "sequence": _WHY}


def _itself(record: Pair) -> Pair:
    return record


def _input_of(record: Pair) -> tuple[str, ExplainedDocument]:
    return "", ExplainedDocument.of_text("Input", record.input)


def make_text_converter(
    name: str,
    *,
    sizes: TextToTextSizes,
    options: PairOptions = PLAIN,
    pair_of: Callable[[Any], Pair] = _itself,
    shown: Callable[[Any], tuple[str, ExplainedDocument]] = _input_of,
    wording: Wording = WORDING,
) -> FeatureConverter:
    """The converter of a data set in format text_to_text.

    Args:
      name: of the data set.
      sizes: see `FeatureConverter`.
      options: see `FeatureConverter`.
      pair_of: record -> what is read and what is to be written; by default records are
        such pairs.
      shown: record -> (question, document), for readers; by default the input.
      wording: for readers.
    """
    texts = _Texts(sizes, options, pair_of, shown, wording)
    return FeatureConverter(
        learner="text",
        sizes=sizes,
        features=without_quirks(name)(texts.features),
        options=options,
        decode=of_one_setting(texts.written),
        explain=texts.explain,
        gold_outputs=texts.gold_outputs,
        record_length=texts.record_length,
    )


def make_text_data_set(
    name: str,
    *,
    read: Callable[..., Any],
    parse: Callable[..., Any],
    metric: str,
    score: Callable[..., Scores],
    references_of: Callable[[Any], Sequence[str] | None] | None = None,
    fields: Mapping[str, Any] | None = None,
    pair_of: Callable[[Any], Pair] = _itself,
    **converter: Any,
) -> DataSet:
    """A data set whose records are read as text, and answered by a text alone.

    Args:
      name: of the data set.
      read: see `DataSet`.
      parse: see `DataSet`.
      metric: see `DataSet`.
      score: ({"id", "references"} of records, texts by record id) -> official metrics.
      references_of: record -> right texts, one or more; None: there are none. By
        default the target.
      fields: others of the `DataSet`, by name.
      pair_of: see `make_text_converter`.
      **converter: the others of `make_text_converter`.
    """

    def gold(record: Any) -> dict[str, Any] | None:
        if references_of is not None:
            references = references_of(record)
        else:
            target = pair_of(record).target
            references = None if target is None else [target]
        if references is None:
            return None
        return {"id": record.id, "references": [*references]}

    converters = {
        "text_to_text": make_text_converter(name, pair_of=pair_of, **converter)
    }
    return DataSet(
        name=name,
        read=read,
        parse=parse,
        metric=metric,
        no_answer="",
        official=dict,
        gold=gold,
        score=score,
        converters=converters,
        absent=_ONLY_WRITTEN,
        **(fields or {}),
    )


@dataclasses.dataclass(frozen=True)
class _Texts:
    """The functions of a `FeatureConverter`; see `make_text_converter`."""

    sizes: TextToTextSizes
    options: PairOptions
    pair_of: Callable[[Any], Pair]
    shown: Callable[[Any], tuple[str, ExplainedDocument]]
    wording: Wording

    def features(
        self,
        record: Any,
        tokenizer: Tokenizer,
        sizes: TextToTextSizes | None = None,
        *,
        options: PairOptions | None = None,
    ) -> list[TextToTextWindow]:
        """The one window of a record.

        Raises:
          BadRecordError: if the input has no token.
          ValueError: if the tokenizer lacks a special token.
        """
        options = self.options if options is None else options
        tokens = encoded(self.pair_of(record), tokenizer, options)
        room = options.prefix_length or tokens.prefix_tokens
        return [
            TextToTextWindow(
                record=record,
                labels={},
                cut=too_long(prefixes=(tokens.prefix_tokens, room)),
                unusable="no target" if tokens.target is None else None,
                **parts_of(
                    sizes or self.sizes, tokens.ids, tokens.marks, tokens.target
                ),
            )
        ]

    def written(
        self, texts: np.ndarray, windows: Sequence[TextToTextWindow]
    ) -> list[str]:
        """Texts of a model, str `[b]`, without space around them."""
        del windows
        return [text.strip() for text in texts]

    def explain(
        self,
        texts: np.ndarray,
        windows: Sequence[TextToTextWindow],
        setting: None = None,
    ) -> list[Explained]:
        """For each window what was read, what was written and what should have been."""
        del setting
        explained = []
        for window, text in zip(windows, self.written(texts, windows), strict=True):
            question, document = self.shown(window.record)
            explained.append(
                Explained(
                    window.record.id,
                    question,
                    text,
                    (document,),
                    reference=self.pair_of(window.record).target,
                    wording=self.wording,
                )
            )
        return explained

    def gold_outputs(self, windows: Sequence[TextToTextWindow]) -> np.ndarray:
        """The targets, str `[b]`.

        Raises:
          ValueError: if a record has none.
        """
        pairs = [self.pair_of(window.record) for window in windows]
        if lacking := [pair.id for pair in pairs if pair.target is None]:
            raise ValueError(f"{lacking[0]!r} has no target")
        return np.array([pair.target for pair in pairs], dtype=object)

    def record_length(
        self, record: Any, tokenizer: Tokenizer, options: PairOptions | None = None
    ) -> int:
        """Tokens of an input if nothing of it is cut off, with its end token.

        Raises:
          BadRecordError: if it has no token.
        """
        options = self.options if options is None else options
        return len(encoded(self.pair_of(record), tokenizer, options).ids)
