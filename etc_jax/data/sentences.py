"""Sentences of running text, by the Punkt algorithm (no model to download)."""

from __future__ import annotations

from collections.abc import Iterable


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


def splitter_version() -> str:
    """What the borders depend on, for fingerprints.

    Raises:
      ImportError: if nupunkt is not installed.
    """
    return f"nupunkt {_nupunkt().__version__}"


def _nupunkt():
    try:
        import nupunkt
    except ImportError as e:
        raise ImportError(
            'splitting sentences needs nupunkt: pip install "etc_jax[data]"'
        ) from e
    return nupunkt
