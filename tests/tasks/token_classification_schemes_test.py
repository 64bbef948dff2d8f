"""Schemes of tags, by hand-made cases and beside seqeval."""

import random

import pytest

from etc_jax.tasks.token_classification import schemes
from etc_jax.tasks.token_classification.schemes import SchemeFinder, TaggedSpan

# Three persons beside each other, the last of two words, and a town, by each scheme.
SPANS = [TaggedSpan(0, 1, "per"), TaggedSpan(1, 2, "per"), TaggedSpan(2, 4, "per")]
SPANS.append(TaggedSpan(5, 6, "loc"))
TAGGED = {
    "iob1": "I-per B-per B-per I-per O I-loc".split(),
    "iob2": "B-per B-per B-per I-per O B-loc".split(),
    "iobes": "S-per S-per B-per E-per O S-loc".split(),
}


def found(*sentences):
    finder = SchemeFinder()
    for number, sentence in enumerate(sentences):
        finder.add(sentence.split(), f"s{number}")
    return finder.scheme()


@pytest.mark.parametrize("scheme", TAGGED)
def test_one_sentence_in_each_scheme(scheme):
    tags = TAGGED[scheme]
    assert schemes.spans_of(tags) == SPANS
    assert list(schemes.breaks(tags, scheme)) == []
    assert found(" ".join(tags)) == scheme
    others = [x for x in TAGGED if x != scheme]
    assert all(list(schemes.breaks(tags, other)) for other in others)


def test_tags_of_spans_are_iob2():
    assert list(schemes.tags_of(SPANS, 6)) == TAGGED["iob2"]


def test_spans_are_those_of_seqeval_whatever_the_tags():
    sequence_labeling = pytest.importorskip("seqeval.metrics.sequence_labeling")
    rng = random.Random(0)
    every = ["O", *(f"{prefix}-{kind}" for prefix in "BIES" for kind in ("a", "b-c"))]
    for _ in range(2000):
        tags = rng.choices(every, k=rng.randint(1, 8))
        want = [(s, e + 1, k) for k, s, e in sequence_labeling.get_entities([tags])]
        assert [*map(tuple, schemes.spans_of(tags))] == want, tags


@pytest.mark.parametrize("scheme", ["IOB2", "IOBES"])
def test_tags_without_a_break_are_entities_of_the_strict_scheme(scheme):
    strict = pytest.importorskip("seqeval.scheme")
    rng, own, kept = random.Random(1), scheme.lower(), 0
    prefixes = schemes.PREFIXES[own]
    every = ["O", *(f"{prefix}-{kind}" for prefix in prefixes for kind in "ab")]
    for _ in range(3000):
        tags = rng.choices(every, k=rng.randint(1, 4))
        if list(schemes.breaks(tags, own)):
            continue
        kept += 1
        entities = strict.Entities([tags], getattr(strict, scheme)).entities[0]
        want = [(e.start, e.end, e.tag) for e in entities]
        assert [*map(tuple, schemes.spans_of(tags))] == want, tags
    assert kept > 200


@pytest.mark.parametrize(
    "scheme, tags, word, said",
    [
        ("iob2", "O I-a", 1, "'I-a' after 'O': no entity of its type is open"),
        ("iob2", "B-a I-b", 1, "'I-b' after 'B-a': no entity of its type is open"),
        ("iob2", "I-a", 0, "'I-a' after 'the beginning'"),
        ("iob2", "S-a", 0, "'S-a' is no tag of iob2"),
        ("iob2", "NOUN", 0, "'NOUN' is no tag of iob2"),
        ("iob1", "O B-a", 1, "B- is for entities beside each other"),
        ("iob1", "I-b B-a", 1, "B- is for entities beside each other"),
        ("iobes", "B-a O", 1, "'O' after 'B-a': the entity before it has no end"),
        ("iobes", "B-a", 0, "'the end' after 'B-a': the entity before it has no end"),
        ("iobes", "E-a", 0, "no entity of its type is open"),
        ("iobes", "B-a E-b", 1, "no entity of its type is open"),
    ],
)
def test_what_breaks_a_scheme_is_named(scheme, tags, word, said):
    [(at, wrong)] = schemes.breaks(tags.split(), scheme)
    assert at == word and said in wrong


def test_the_scheme_is_that_of_all_sentences():
    assert found("B-a I-a O", "O O") == "iob2"
    assert found("I-a O", "I-a B-a") == "iob1"
    assert found("B-a E-a", "O S-b") == "iobes"
    # What iob2 and iobes both allow.
    assert found("S-a") == "iobes" and found("B-a") == "iob2"
    for plain in ("NOUN VERB", "O O", "B-a X", "O B-"):
        assert found(plain) == "plain"
    with pytest.raises(
        ValueError, match="follow none of .*iob1: 's0', word 1: .*iob2: 's1', word 1:"
    ):
        found("B-a", "I-a")


def test_a_type_has_all_tags_of_its_scheme():
    full = schemes.full_labels
    assert full({"B-a", "O"}, "iob2") == ("B-a", "I-a", "O")
    assert full({"S-a"}, "iobes") == ("B-a", "E-a", "I-a", "O", "S-a")
    assert full({"VERB", "NOUN"}, "plain") == ("NOUN", "VERB")
