"""Text without a meaning, where only its amount counts."""

import random

WORDS = 4096  # that it is made of
_SENTENCES, _OF_DOCUMENT, _OF_SENTENCE = 2000, 50, 20


def documents() -> list[str]:
    """Forty texts of fifty sentences each, always the same."""
    draw = random.Random(0)
    words = [f"{draw.getrandbits(40):x}" for _ in range(WORDS)]
    sentences = [
        " ".join(draw.choices(words, k=_OF_SENTENCE)) + "." for _ in range(_SENTENCES)
    ]
    return [
        " ".join(sentences[start : start + _OF_DOCUMENT])
        for start in range(0, _SENTENCES, _OF_DOCUMENT)
    ]
