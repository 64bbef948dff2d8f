"""Sentences of running text, by the Punkt algorithm (no model to download)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from etc_jax.base.extras import needed

# Paragraphs to their sentences, as `split_sentences`.
SplitFn = Callable[[Sequence[str]], Sequence[str]]


def split_sentences(paragraphs: Iterable[str]) -> list[str]:
    """Sentences of some paragraphs, in order; a sentence never crosses paragraphs.

    Nothing limits their length: code-like text without full stops comes out as one
    long sentence, which `packing` cuts.

    Raises:
      ImportError: if nupunkt is not installed.
    """
    nupunkt = _nupunkt()
    sentences = []
    for paragraph in paragraphs:
        sentences += nupunkt.sent_tokenize(paragraph)
    return [s for s in map(str.strip, sentences) if s]


def sentence_numbers(text: str, sentences: Sequence[str]) -> np.ndarray:
    """Which sentence each character of a text is of.

    Args:
      text: of c characters.
      sentences: of it, in order, all of it but white space.

    Returns:
      int64 `[c]`. White space is of the sentence before it, at the beginning of the
      first.

    Raises:
      ValueError: if the sentences are not those of the text.
    """
    spelled = ["".join(sentence.split()) for sentence in sentences]
    if "".join(spelled) != "".join(text.split()):
        raise ValueError(
            f"sentences {spelled[:2]}... do not spell the text {text[:40]!r}..., white "
            "space apart; a splitter must change nothing else"
        )
    stops = np.cumsum([len(sentence) for sentence in spelled])
    is_text = ~np.fromiter(map(str.isspace, text), bool, len(text))
    last_letter = np.maximum(np.cumsum(is_text) - 1, 0)
    return np.searchsorted(stops, last_letter, side="right")


def splitter_version() -> str:
    """What the borders depend on, for fingerprints.

    Raises:
      ImportError: if nupunkt is not installed.
    """
    return f"nupunkt {_nupunkt().__version__}"


def _nupunkt():
    return needed("nupunkt", extra="data", to="split sentences")
