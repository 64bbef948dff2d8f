"""Schemes of tags, by hand-made cases and beside seqeval."""

import functools
import random

import pytest

from etc_jax.tasks.token_classification import forms, schemes
from etc_jax.tasks.token_classification.schemes import SchemeFinder, TaggedSpan

# Three persons beside each other, the last of two words, and a town, by each scheme.
SPANS = [TaggedSpan(0, 1, "per"), TaggedSpan(1, 2, "per"), TaggedSpan(2, 4, "per")]
SPANS.append(TaggedSpan(5, 6, "loc"))
TAGGED = {
    "iob1": "I-per B-per B-per I-per O I-loc".split(),
    "iob2": "B-per B-per B-per I-per O B-loc".split(),
    "iobes": "S-per S-per B-per E-per O S-loc".split(),
    "bilou": "U-per U-per B-per L-per O U-loc".split(),
    "bmeow": "W-per W-per B-per E-per O W-loc".split(),
    "ioe1": "E-per E-per I-per I-per O I-loc".split(),
    "ioe2": "E-per E-per I-per E-per O E-loc".split(),
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
    assert found("U-a B-a I-a L-a O") == "bilou" and found("B-a L-a", "U-b") == "bilou"
    assert found("B-a M-a E-a S-a") == "bmes" and found("B-a E-a W-a O") == "bmeow"
    assert found("I-a E-a O E-b", "I-a I-a E-a") == "ioe2"
    assert found("I-a E-a I-a O", "I-b") == "ioe1"
    for plain in ("NOUN VERB", "O O", "B-a X", "O B-", "NN_A NN_B", "X-B X-C", "N O S"):
        assert found(plain) == "plain"
    with pytest.raises(
        ValueError, match="follow none of .*iob1: 's0', word 1: .*iob2: 's1', word 1:"
    ):
        found("B-a", "I-a")


@pytest.mark.parametrize(
    "tags, said",
    [
        ("PER-B PER-I O", "not all written like B-PER.*'O', 'PER-B', 'PER-I'"),
        ("B_PER I_PER O", "not all written like B-PER.*'B_PER', 'I_PER', 'O'"),
        ("ORG_U O PER_B PER_L", "scheme=plain if they are no entities"),
        ("B I O", "'B', 'I', 'O'; write them so"),
        ("B M E S", "'B', 'E', 'M', 'S'; write them so"),
        ("B-a I-a O X", "'B-a', 'I-a', 'O', 'X'; write them so"),
        ("U-a O", "surely follow none of .*iob2: 's0', word 1: 'U-a' is no tag"),
        ("M-a W-b", "surely follow none of .*say which is meant with scheme"),
    ],
)
def test_tags_that_may_be_of_entities_are_no_plain_ones(tags, said):
    with pytest.raises(ValueError, match=said):
        found(tags)


@pytest.mark.parametrize("scheme, letters", [("bilou", "BILU"), ("ioe2", "IE")])
def test_strict_entities_are_those_of_seqeval(scheme, letters):
    strict = pytest.importorskip("seqeval.scheme")
    rng = random.Random(1)
    every = ["O", *(f"{letter}-{kind}" for letter in letters for kind in "ab")]
    read = functools.partial(schemes.strict_spans_of, scheme=scheme)
    gold, guess = ([rng.choices(every, k=5) for _ in range(1500)] for _ in range(2))
    reader = getattr(strict, scheme.upper())
    for tags, entities in zip(
        gold, strict.Entities(gold, reader).entities, strict=True
    ):
        assert [*map(tuple, read(tags))] == [(e.start, e.end, e.tag) for e in entities]
    metrics = pytest.importorskip("seqeval.metrics")
    want = metrics.f1_score(gold, guess, mode="strict", scheme=reader, zero_division=0)
    task = forms.fields_of(scheme)
    values = [[{"id": "r", "tags": tags}] for tags in (gold, guess)]
    assert task["score"](*values).metrics["f1"] == pytest.approx(want)
    # The same entities in other letters.
    if scheme == "bilou":
        for other, to in (("bmes", "BMES"), ("bmeow", "BMEW")):
            table = str.maketrans("BILU", to)
            tags = [f"{tag[0].translate(table)}{tag[1:]}" for tag in gold[0]]
            assert schemes.strict_spans_of(tags, other) == read(gold[0])


def test_a_type_has_all_tags_of_its_scheme():
    full = schemes.full_labels
    assert full({"B-a", "O"}, "iob2") == ("B-a", "I-a", "O")
    assert full({"U-a", "O"}, "bilou") == ("B-a", "I-a", "L-a", "O", "U-a")
    assert full({"S-a"}, "iobes") == ("B-a", "E-a", "I-a", "O", "S-a")
    assert full({"VERB", "NOUN"}, "plain") == ("NOUN", "VERB")
