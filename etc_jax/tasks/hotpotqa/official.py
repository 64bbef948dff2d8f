"""How the official code finds answers in HotpotQA: characters, words, then pieces.

A place of the answer is widened to words between white space, and narrowed again to
the pieces of the answer if they are among those of the words (as for SQuAD in BERT).
With sentencepiece the text is the one that the pieces spell.
"""

from __future__ import annotations

import bisect

from etc_jax.data.tokenizers.base import PackageTokenizer, Tokenizer
from etc_jax.datasets.offsets import TokenizedText, occurrences, surfaces

WHITE_SPACE = " \t\r\n\u202f"
_SPACE = "\u2581"

Span = tuple[int, int]


def answer_spans(
    pieces: TokenizedText, answer: str, tokenizer: Tokenizer
) -> list[Span]:
    """(first, last) piece of every place of an answer in a text, in order."""
    if isinstance(tokenizer, PackageTokenizer):
        return _by_words(pieces, answer, tokenizer)
    spelled = surfaces(tokenizer, pieces)
    owner = [i for i, piece in enumerate(spelled) for _ in piece]
    text = "".join(spelled).replace(_SPACE, " ")
    if text.startswith(" "):
        text, owner = text[1:], owner[1:]
    return [(owner[a], owner[b - 1]) for a, b in occurrences(text, answer)]


def words_of(text: str) -> list[int]:
    """The word of each character; white space is of the word before it."""
    words, current, space = [], -1, True
    for c in text:
        before, space = space, c in WHITE_SPACE
        current += before and not space
        words.append(current)
    return words


def _by_words(pieces: TokenizedText, answer: str, tokenizer: Tokenizer) -> list[Span]:
    matches = occurrences(pieces.text, answer)
    if not matches:
        return []
    words = words_of(pieces.text)
    # First piece of each word; a word without pieces has that of the next.
    of_pieces = [words[start] for start, _ in pieces.offsets]
    firsts = [bisect.bisect_left(of_pieces, word) for word in range(words[-1] + 1)]
    [(wanted, _)] = tokenizer.encode_batch([answer])
    spans = []
    for a, b in matches:
        # White space before the first word is of word -1: the last, as in a list.
        first, after = firsts[words[a]], words[b - 1] + 1
        last = (firsts[after] if after < len(firsts) else len(pieces)) - 1
        spans.append(_narrowed(pieces.ids, (first, last), wanted.tolist()))
    return spans


def _narrowed(ids: list[int], span: Span, wanted: list[int]) -> Span:
    """The first place of the wanted ids within a span, else the span."""
    for first in range(span[0], span[1] + 1):
        last = first + len(wanted) - 1
        if first <= last <= span[1] and ids[first : last + 1] == wanted:
            return first, last
    return span
