"""How data sets are read whose answers are texts that a model writes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.data.windows.window import too_long
from etc_jax.datasets.decoding import of_one_setting
from etc_jax.datasets.explained import Explained, ExplainedDocument, Wording
from etc_jax.datasets.fragments import shared_marks
from etc_jax.datasets.pairs import PLAIN, Pair, PairOptions, TextOptions, encoded
from etc_jax.datasets.task import FeatureConverter, without_quirks
from etc_jax.formats.text_to_text import TextToTextSizes, TextToTextWindow, parts_of

LEGEND = (
    "Tinted: words in a row that the output has from the input, three or more or all "
    "of a shorter one. Equal numbers are the same words, where they stand first."
)
"""What a page says of its colours."""
WORDING = Wording(
    question="Record",
    answer="Output",
    reference="Reference",
    support="",
    legend=LEGEND,
    headed_by_id=True,
    side_by_side=True,
)


def _first(of_windows: Sequence[Any]) -> Any:
    return of_windows[0]


def _itself(record: Pair) -> Pair:
    return record


def _input_of(record: Pair) -> tuple[str, ExplainedDocument]:
    document = ExplainedDocument.of_text("Input", record.input)
    return (record.prefix or "").strip(), document


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
        drawn_by=("every_target",) if isinstance(options, TextOptions) else (),
        decode=of_one_setting(texts.written),
        explain=texts.explain,
        # Windows of a record differ in what is to be written alone.
        pool=_first,
        pool_explained=_first,
        gold_outputs=texts.gold_outputs,
        record_length=texts.record_length,
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
        """The one window of a record, or one for each right text that is learnt.

        Raises:
          BadRecordError: if the input has no token.
          ValueError: if the tokenizer lacks a special token.
        """
        options = self.options if options is None else options
        pair = self.pair_of(record)
        targets = [pair.target, *pair.others] if options.every_target else [pair.target]
        how = tokenizer, sizes or self.sizes, options
        return [
            self._window(record, dataclasses.replace(pair, target=target), *how)
            for target in targets
        ]

    def _window(
        self,
        record: Any,
        pair: Pair,
        tokenizer: Tokenizer,
        sizes: TextToTextSizes,
        options: PairOptions,
    ) -> TextToTextWindow:
        tokens = encoded(pair, tokenizer, options)
        room = options.prefix_length or tokens.prefix_tokens
        return TextToTextWindow(
            record=record,
            labels={},
            cut=too_long(prefixes=(tokens.prefix_tokens, room)),
            unusable="no target" if tokens.target is None else None,
            **parts_of(sizes, tokens.ids, tokens.marks, tokens.target),
        )

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
            pair = self.pair_of(window.record)
            passages = [passage.text for passage in document.passages]
            marks, in_passages = shared_marks(text, passages)
            explained.append(
                Explained(
                    window.record.id,
                    question,
                    text,
                    (document.marked(in_passages),),
                    reference=pair.target,
                    others=pair.others,
                    marks=tuple(marks),
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
