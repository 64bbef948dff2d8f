"""Tokens of documents, where words stand among them, and spans of words."""

import functools
import unicodedata

import numpy as np
import pytest
from coreference_samples import MILL, conll_2012, record_of
from golden_data import require_shared
from golden_tokenizers import open_golden
from multihop_samples import tokenizer
from tokenizer_samples import byte_bpe

from etc_jax.datasets.records import BadRecordError
from etc_jax.formats.sequence import SequenceSizes
from etc_jax.tasks.coreference import read
from etc_jax.tasks.coreference.inputs import features
from etc_jax.tasks.coreference.records import Record


def sizes(input_length: int) -> SequenceSizes:
    return SequenceSizes(input_length=input_length, global_length=1)


@pytest.fixture
def record(tmp_path) -> Record:
    return record_of(tmp_path, conll_2012(MILL))


def document_of(*sentences: str, clusters=()) -> Record:
    words = tuple(tuple(sentence.split(" ")) for sentence in sentences)
    return Record("x", "0", words, (None,) * len(words), clusters)


def spelled(made, spell=tokenizer) -> list[str]:
    """The pieces of each word, joined."""
    flat = made.tokens.reshape(-1)
    return [
        "".join(p.removeprefix("##") for p in spell().pieces(flat[a : b + 1]))
        for a, b in made.word_tokens
    ]


def test_a_document_that_fits_is_one_part(record):
    made = features(record, tokenizer(), sizes(20))
    text = "ann lee owned the mill she built it . h ##e ##r owner burned".split()
    pieces = ["[CLS]", *text, "[SEP]", *["[PAD]"] * 4]
    assert [tokenizer().pieces(row) for row in made.tokens] == [pieces]
    np.testing.assert_array_equal(made.example_ids, [[1] * 16 + [0] * 4])
    assert made.tokens.dtype == made.example_ids.dtype == np.int32
    assert made.num_words == 12
    np.testing.assert_array_equal(made.word_tokens[:10, 0], np.arange(1, 11))
    np.testing.assert_array_equal(made.word_tokens[9], [10, 12])


def test_parts_are_of_whole_sentences(record):
    """Sentences of 5, 4 and 5 tokens, in parts with room for 9 and for 8."""
    made = features(record, tokenizer(), sizes(11))
    assert made.example_ids.sum(axis=1).tolist() == [11, 7]
    assert made.word_tokens[9].tolist() == [12, 14]
    narrow = features(record, tokenizer(), sizes(10))
    assert narrow.example_ids.sum(axis=1).tolist() == [7, 6, 7]
    for x in (made, narrow):
        assert spelled(x) == [w.lower() for s in record.sentences for w in s]
        used = [
            row[: ids.sum()] for row, ids in zip(x.tokens, x.example_ids, strict=True)
        ]
        for row in used:
            pieces = tokenizer().pieces(row)
            assert (pieces[0], pieces[-1]) == ("[CLS]", "[SEP]")


def test_a_long_sentence_is_cut_between_words():
    made = features(
        document_of("the mill", "she Xyz Xyz it", "it"), tokenizer(), sizes(7)
    )
    rows = [tokenizer().pieces(row) for row in made.tokens]
    assert rows == [
        ["[CLS]", "the", "mill", "[SEP]", *["[PAD]"] * 3],
        ["[CLS]", "she", "x", "##y", "##z", "[SEP]", "[PAD]"],
        ["[CLS]", "x", "##y", "##z", "it", "it", "[SEP]"],
    ]
    assert spelled(made) == ["the", "mill", "she", "xyz", "xyz", "it", "it"]
    found = made.candidates(9, max_tokens=9)
    pairs = set(zip(found.first_words.tolist(), found.last_words.tolist(), strict=True))
    # Neither over the cut between both xyz, nor from one "it" to the other.
    many = {(0, 1), (2, 3), (4, 5)}
    assert pairs == many | {(i, i) for i in range(7)}


def test_a_word_without_room_is_an_error():
    with pytest.raises(BadRecordError, match="a word has 3 tokens, .* room for 2"):
        features(document_of("the Xyz it"), tokenizer(), sizes(4))
    with pytest.raises(ValueError, match="input_length is 2; expected 3 or more"):
        features(document_of("the"), tokenizer(), sizes(2))


def test_a_word_of_which_nothing_is_left_begins_no_span():
    """A control character, which WordPiece drops."""
    clusters = (((0, 0), (0, 1)), ((1, 2), (0, 2)))
    document = document_of("the \x02 mill", clusters=clusters)
    made = features(document, tokenizer(), sizes(9))
    assert made.word_tokens.tolist() == [[1, 1], [-1, -1], [2, 2]]
    found = made.candidates(3, max_tokens=9)
    pairs = list(zip(found.first_words, found.last_words, strict=True))
    assert pairs == [(0, 0), (0, 2), (2, 2)]
    assert found.clusters.tolist() == [1, 2, 0] and found.unreachable == 2


def test_byte_level_words_have_their_space_in_front():
    """The first of a sentence too, as in the middle of a text."""
    made = features(document_of("the cat", "the cat"), byte_bpe(), sizes(9))
    pieces = byte_bpe().pieces(made.tokens[0])
    assert pieces[:6] == ["<s>", *["\u0120the", "\u0120cat"] * 2, "</s>"]
    assert pieces[6] == "<pad>"


def test_candidates_are_all_spans_inside_of_sentences(record):
    made = features(record, tokenizer(), sizes(11))
    sentence = [i for i, s in enumerate(record.sentences) for _ in s]
    for width, tokens in [(1, 9), (3, 9), (9, 9), (9, 3), (2, 1)]:
        found = made.candidates(width, max_tokens=tokens)
        want = [
            (a, b)
            for a in range(12)
            for b in range(a, min(12, a + width))
            if sentence[a] == sentence[b]
            and made.word_tokens[b, 1] - made.word_tokens[a, 0] < tokens
        ]
        got = list(zip(found.first_words, found.last_words, strict=True))
        assert got == want and found.mask.all()
        np.testing.assert_array_equal(
            found.first_tokens, made.word_tokens[[a for a, _ in want], 0]
        )
        np.testing.assert_array_equal(
            found.last_tokens, made.word_tokens[[b for _, b in want], 1]
        )
        gold = {s: i for i, c in enumerate(record.clusters, 1) for s in c}
        assert found.clusters.tolist() == [gold.get(s, 0) for s in want]
        assert found.unreachable == len(set(gold) - set(want))


def test_padding_is_after_and_no_span(record):
    found = features(record, tokenizer(), sizes(11)).candidates(2, max_tokens=9)
    padded = found.padded(30)
    number = len(found.mask)
    assert padded.mask.sum() == number == 21 and not padded.mask[21:].any()
    for name in ("first_tokens", "last_words", "clusters"):
        array = getattr(padded, name)
        np.testing.assert_array_equal(array[:21], getattr(found, name))
        assert array.shape == (30,) and not array[21:].any()
    with pytest.raises(ValueError, match="21 candidates, expected at most 20"):
        found.padded(20)
    with pytest.raises(ValueError, match="max_width is 0; expected 1 or more"):
        features(record, tokenizer(), sizes(11)).candidates(0, max_tokens=9)


# --- real files -----------------------------------------------------------------------


@functools.cache
def litbank() -> list[Record]:
    return list(read(sorted(require_shared("data/coref_litbank").glob("*.conll"))))


def bare(word: str) -> str:
    """In lower case and without accents, as BERT's uncased vocabulary has it."""
    parts = unicodedata.normalize("NFD", word.lower())
    return "".join(c for c in parts if unicodedata.category(c) != "Mn")


@pytest.mark.parametrize("kind", ["bert", "roberta_bart"])
def test_every_word_of_litbank_is_where_it_is_said_to_be(kind):
    tokens = open_golden(kind)
    for record in litbank():
        made = features(record, tokens, sizes(512))
        flat = made.tokens.reshape(-1)
        words = [word for s in record.sentences for word in s]
        for word, (a, b) in zip(words, made.word_tokens, strict=True):
            text = tokens.decode(flat[a : b + 1]).strip()
            want = word if kind == "roberta_bart" else bare(word)
            assert text.replace(" ", "") == want or "[UNK]" in text
        # Each real token but those at the ends is of a word.
        of_words = int((made.word_tokens[:, 1] - made.word_tokens[:, 0] + 1).sum())
        assert made.example_ids.sum() == of_words + 2 * len(made.tokens)


def test_every_mention_of_litbank_is_a_candidate_but_those_counted():
    tokens = open_golden("roberta_bart")
    wide = 0
    for record in litbank():
        made = features(record, tokens, sizes(4096))
        found = made.candidates(30, max_tokens=60)
        spans = zip(found.first_words.tolist(), found.last_words.tolist(), strict=True)
        by_cluster = [set() for _ in record.clusters]
        for span, cluster in zip(spans, found.clusters, strict=True):
            if cluster:
                by_cluster[cluster - 1].add(span)
        ends = np.cumsum([len(s) for s in record.sentences])
        for got, mentions in zip(by_cluster, record.clusters, strict=True):
            near = {
                (a, b)
                for a, b in mentions
                if b - a < 30
                and np.searchsorted(ends, a, "right")
                == np.searchsorted(ends, b, "right")
                and made.word_tokens[b, 1] - made.word_tokens[a, 0] < 60
            }
            assert got == near
        missed = sum(map(len, record.clusters)) - sum(map(len, by_cluster))
        assert found.unreachable == missed
        wide += missed
    assert 0 < wide < 100
