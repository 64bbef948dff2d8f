import sys

import pytest
from hypothesis import given, strategies as st

from etc_jax.data.text import sentences

pytest.importorskip("nupunkt")


def test_sentences_keep_their_order_and_paragraphs():
    found = sentences.split_sentences(
        ["One is here. Dr. Smith saw two, e.g. this.", "No full stop", " ", "Three!"]
    )
    assert found == [
        "One is here.",
        "Dr. Smith saw two, e.g. this.",
        "No full stop",
        "Three!",
    ]


def test_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "nupunkt", None)
    with pytest.raises(ImportError, match=r"pip install \"etc_jax\[data\]\""):
        sentences.split_sentences(["One."])


def test_each_character_is_of_the_sentence_that_spells_it():
    text = " It is.  Is it\n so?\u2003No"
    numbers = sentences.sentence_numbers(text, ["It is.", "Is it so?", "No"])
    assert numbers.tolist() == [0] * 9 + [1] * 11 + [2] * 2
    assert sentences.sentence_numbers(" ", []).tolist() == [0]


@given(st.lists(st.text(st.sampled_from("ab. \n\u200b\u2003"), min_size=1), max_size=6))
def test_sentences_are_found_again_whatever_space_is_between(parts):
    text = "\t".join(parts)
    numbers = sentences.sentence_numbers(text, parts)
    chars = zip(text, numbers.tolist(), strict=True)
    found = [(number, char) for char, number in chars if not char.isspace()]
    assert found == [(i, c) for i, p in enumerate(parts) for c in p if not c.isspace()]


def test_sentences_of_another_text_are_refused():
    with pytest.raises(ValueError, match="do not spell the text 'It is. No'"):
        sentences.sentence_numbers("It is. No", ["It is.", "No."])
