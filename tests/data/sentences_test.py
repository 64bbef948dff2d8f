import sys

import pytest

from etc_jax.data import sentences

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
