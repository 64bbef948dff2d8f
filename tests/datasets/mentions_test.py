"""Mentions of whole words, found without a regular expression and with one."""

import re

import pytest
from hypothesis import given, settings, strategies as st

from etc_jax.datasets import mentions
from etc_jax.datasets.offsets import TokenizedText

# Whatever \\w, \\s and neither hold in ASCII, and the case of letters.
ASCII = st.text(st.sampled_from("aAbB1_ .-'\t\n\x1c"), max_size=24)
# With letters that are equal to "s" and "k" in any case: a long s, the Kelvin sign.
ANY = st.text(st.sampled_from("sSkK .\u017f\u212a\u00e9\u00c9\u00a0"), max_size=12)


def characters(text: str) -> TokenizedText:
    """A text of which each character is a piece."""
    return TokenizedText(text, [0] * len(text), [(i, i + 1) for i in range(len(text))])


def found_by_pattern(candidates, text):
    """Every match of the pattern of each candidate whose longest word is there."""
    found = []
    for index, candidate in enumerate(candidates):
        words = re.findall(r"\w+|[^\w\s]", candidate)
        key = max(words, key=len, default="").lower()
        if not key or key not in text.lower():
            continue
        for match in mentions._pattern(words).finditer(text):
            found.append((index, match.start(), match.end() - 1))
    return found


@settings(max_examples=500, deadline=None)
@given(candidates=st.lists(ASCII | ANY, max_size=4), text=ASCII | ANY)
def test_mentions_are_the_matches_of_the_patterns(candidates, text):
    find = mentions.by_words([characters(c) for c in candidates])
    assert list(find(characters(text))) == found_by_pattern(candidates, text)


@settings(max_examples=200, deadline=None)
@given(text=st.text(st.sampled_from("ab .-'"), max_size=24), size=st.integers(1, 4))
def test_what_stands_in_the_text_is_found(text, size):
    words = re.findall(r"\w+|[^\w\s]", text)[:size]
    if words:
        find = mentions.by_words([characters(" ".join(words))])
        first = text.index(words[0])
        assert next(find(characters(text)))[1] == first


@pytest.mark.parametrize(
    "candidate, text, places",
    [
        ("st. louis", "To St . Louis, St.Louis; st . louisa", [(3, 12), (15, 22)]),
        ("new york", "New York City, new\nyork, newyork", [(0, 7), (15, 22)]),
        ("a a", "a a a a", [(0, 2), (4, 6)]),
        ("b a", "a b a", [(2, 4)]),
        ("-", "well-known - yes", [(4, 4), (11, 11)]),
        ("caf\u00e9", "Un CAF\u00c9 caf\u00e9s", [(3, 6)]),
        # Decomposed: an accent is of its letter.
        ("cafe\u0301", "Un CAFE\u0301 cafe\u0301s", [(3, 7)]),
        ("cafe", "cafe\u0301 cafe", [(6, 9)]),
        ("cat", "e\u0301cat cat", [(6, 8)]),
        ("\u017fee york", "See York", [(0, 7)]),
        ("stra\u00dfe", "Stra\u00dfe", [(0, 5)]),
    ],
)
def test_cases_done_by_hand(candidate, text, places):
    find = mentions.by_words([characters(candidate)])
    assert [(a, b) for _, a, b in find(characters(text))] == places
