"""Invented translations: German as grammar has it, in WMT's files."""

import pytest

from etc_jax.tasks.synthetic import wmt14_en_de as maker
from etc_jax.tasks.wmt14_en_de import DATA_SET

# By hand: a question, a time first, a clause; all genders in both cases.
SENTENCES = {
    "Did the sister bring four yellow boats to the old gardener today?": (
        "Hat die Schwester dem alten Gärtner heute vier gelbe Boote gebracht?"
    ),
    "In spring the small sister showed three chairs to the friendly child.": (
        "Im Frühling hat die kleine Schwester dem freundlichen Kind drei Stühle "
        "gezeigt."
    ),
    "The king says that the old neighbour brought five cheap clocks to the baker "
    "yesterday.": (
        "Der König sagt, dass die alte Nachbarin dem Bäcker gestern fünf billige Uhren "
        "gebracht hat."
    ),
    "Today the queen sold five apples to the young sister.": (
        "Heute hat die Königin der jungen Schwester fünf Äpfel verkauft."
    ),
    "Yesterday the old girl sent three maps to the neighbour.": (
        "Gestern hat das alte Mädchen der Nachbarin drei Karten geschickt."
    ),
    "The tired gardener brought three yellow boats to the friendly baker today.": (
        "Der müde Gärtner hat dem freundlichen Bäcker heute drei gelbe Boote gebracht."
    ),
}


def test_sentences_are_translated_by_grammar():
    made = {x["en"]: x["de"] for x in maker.records(2000, seed=0)}
    assert {english: made[english] for english in SENTENCES} == SENTENCES


def test_a_release_is_read_as_pairs_and_not_replaced(tmp_path):
    records = list(maker.records(20, seed=1))
    path = maker.write_release(tmp_path, records, split="newstest2014")
    pairs = list(DATA_SET.read([path]))
    assert [(x.input, x.target) for x in pairs] == [(x["en"], x["de"]) for x in records]
    with pytest.raises(ValueError, match=r"newstest2014\.de exists"):
        maker.write_release(tmp_path, records, split="newstest2014")
