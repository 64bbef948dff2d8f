"""TriviaQA inputs: their layout, and where the names of an answer are found."""

import re

import numpy as np
import pytest
from golden_data import require_shared
from hypothesis import example, given, settings, strategies as st
from multihop_samples import tokenizer
from tokenizer_samples import byte_bpe
from triviaqa_samples import record

from etc_jax.data.tokenizers.tokenizer import open_tokenizer
from etc_jax.datasets.records import BadRecordError
from etc_jax.formats.sequence import SequenceSizes
from etc_jax.scoring.triviaqa import normalize
from etc_jax.tasks import triviaqa as tq
from etc_jax.tasks.triviaqa.inputs import MAX_OCCURRENCES
from etc_jax.tasks.triviaqa.names import AnswerNames, words_of

SIZES = SequenceSizes(input_length=40, global_length=8)


def window(got=None, model=None, sizes=SIZES):
    [made] = tq.inputs.features(got or record(), model or tokenizer(), sizes)
    return made


def said(made) -> list[str]:
    """The text of each occurrence, as the documents spell it."""
    found = []
    for first, last in zip(made.labels["starts"], made.labels["ends"], strict=True):
        if first >= 0:
            number, (start, stop) = made.span_of(first, last)
            found.append(made.record.documents[number].text[start:stop])
    return found


# --- layout ---------------------------------------------------------------------------


def test_the_layout_with_a_vocabulary_of_bert():
    made = window()
    pieces = tokenizer().pieces(made.tokens)
    assert pieces[:7] == ["[CLS]", "who", "owned", "the", "mill", "[UNK]", "[SEP]"]
    assert pieces[7:17] == "the old mill was owned by ann lee . lee".split()
    used = pieces.index("[PAD]")
    assert pieces[used - 1] == "[SEP]" and pieces.count("[SEP]") == 2
    assert made.example_ids.tolist() == [1] * used + [0] * (40 - used)
    assert made.global_index.tolist() == [0, 1, 2, 3, 4, 5, -1, -1]
    assert made.document.tolist()[:7] == [-1] * 7
    assert made.document.tolist()[7:17] == [0] * 9 + [1]
    assert made.document.tolist()[used - 1 :] == [-1] * (41 - used)
    types = [0] * 7 + [1] * (used - 7) + [0] * (40 - used)
    assert made.types.tolist() == types and made.unusable is None


def test_the_layout_with_a_vocabulary_of_roberta():
    model = byte_bpe()
    got = record("the cat's cats", Question="the cat", names=["cat"])
    made = window(got, model)
    pieces = model.pieces(made.tokens)
    assert pieces[:5] == ["<s>", "the", "Ġcat", "</s>", "</s>"]
    assert pieces[5:11] == ["the", "Ġcat", "'s", "Ġcat", "s", "</s>"]
    assert made.global_index.tolist() == [0, 1, 2] + [-1] * 5
    assert not made.types.any()
    # The space before a word belongs to its piece, and to no answer.
    assert made.labels["starts"][:2].tolist() == [6, -1]
    assert said(made) == ["cat"]


def test_white_space_is_one_space_and_places_are_those_of_the_file():
    text = " the\n\n cat \t sat\u3000on the  mat "
    question = "the cat"
    squeezed = record("the cat sat on the mat", names=["sat on"], Question=question)
    as_it_is = record(text, names=["sat on"], Question=question)
    for model in (byte_bpe(), tokenizer()):
        made, plain = window(as_it_is, model), window(squeezed, model)
        assert made.tokens.tolist() == plain.tokens.tolist()
        assert said(made) == ["sat\u3000on"] and said(plain) == ["sat on"]


# --- what does not fit ----------------------------------------------------------------


def test_documents_are_cut_where_the_input_is_full():
    whole, cut = window(), window(sizes=SequenceSizes(17, 8))
    assert cut.tokens[:16].tolist() == whole.tokens[:16].tolist()
    assert tokenizer().pieces(cut.tokens[16:]) == ["[SEP]"]
    assert said(cut) == ["Ann Lee"] and not (cut.document == 1).any()
    # An occurrence of which the end is cut off is none.
    assert said(window(sizes=SequenceSizes(15, 8))) == []


def test_a_cut_word_is_no_name():
    # "leeds" is lee ##d ##s.
    got = record("old leeds", names=["lee"])
    made = window(got, sizes=SequenceSizes(10, 8))
    assert tokenizer().pieces(made.tokens[7:9]) == ["old", "lee"]
    assert said(made) == [] and made.unusable == "answer not in the input"
    cut = window(record("old leeds", names=["leeds"]), sizes=SequenceSizes(10, 8))
    assert said(cut) == [] and (cut.labels["starts"] == -1).all()


def test_a_question_that_does_not_fit_is_refused():
    with pytest.raises(BadRecordError, match="question too long: 'tc_1': 5 tokens"):
        window(sizes=SequenceSizes(40, 5))
    window(sizes=SequenceSizes(40, 6))
    with pytest.raises(BadRecordError, match="question too long"):
        window(sizes=SequenceSizes(8, 6))
    assert said(window(sizes=SequenceSizes(9, 6))) == []


def test_documents_without_a_token_are_refused():
    with pytest.raises(BadRecordError, match="no text: 'tc_1'"):
        window(record("\u200b"))


def test_a_record_without_an_occurrence_is_not_trained_on():
    made = window(record("an old mill", names=["city"]))
    assert made.unusable == "answer not in the input"
    assert (made.labels["starts"] == -1).all() and (made.labels["ends"] == -1).all()


def test_the_first_occurrences_are_labels():
    text = "lee " * (MAX_OCCURRENCES + 5)
    made = window(record(text, names=["lee"]), sizes=SequenceSizes(200, 8))
    before = 7
    want = np.arange(before, before + MAX_OCCURRENCES)
    np.testing.assert_array_equal(made.labels["starts"], want)
    np.testing.assert_array_equal(made.labels["ends"], want)


# --- names ----------------------------------------------------------------------------


def test_names_are_whole_words_and_the_longest_counts():
    assert said(window()) == ["Ann Lee", "Lee", "LEE", "mill, Ton"]


@pytest.mark.parametrize(
    "text, name, found",
    [
        ("Ann, and the Annual", "ann", ["Ann"]),
        ("(York)-YORK'S Yorks", "york", ["York", "YORK"]),
        ("AC/DC and acdc", "ac dc", ["AC/DC"]),
        ("the Lord of the Rings", "lord of rings", ["Lord of the Rings"]),
        ("Lord_of_a_Rings", "The Lord of Rings", ["Lord_of_a_Rings"]),
        ("in a 1990s, 1990-s", "1990 s", ["1990-s"]),
        ("‘Ann’ Lee´s", "ann lee s", ["Ann’ Lee´s"]),
        ("Émile émile Emile", "ÉMILE", ["Émile", "émile"]),
        # Two small letters stand for one capital letter.
        ("İzmir in İzmir", "İzmir", ["İzmir", "İzmir"]),
        ("x–y and x y", "x–y", ["x–y"]),
        ("ann lee ann lee ann", "ann lee ann", ["ann lee ann"]),
        ("a the an", "the", []),
        ("nothing", "", []),
    ],
)
def test_names_are_compared_as_the_official_measure_does(text, name, found):
    spans = AnswerNames([name]).find(words_of(text))
    assert [text[start:stop] for start, stop in spans] == found


def test_a_name_that_no_run_of_pieces_spells_is_no_label():
    # To this vocabulary the word is one unknown piece, to the metric it is two words.
    text = "old lee´s mill"
    assert tokenizer().pieces(window(record(text)).tokens[8:9]) == ["[UNK]"]
    assert said(window(record(text, names=["lee"]))) == []
    assert said(window(record(text, names=["lee s"]))) == ["lee´s"]


# Sigma is spelled by what follows it.
ANY_TEXT = st.text(st.characters(exclude_characters="Σ", exclude_categories=["Cs"]))
ODD_TEXT = st.text(st.sampled_from("aAnthe TİbX_-–’'\u00a0\n0é"))


@settings(max_examples=300, deadline=None)
@given(text=ANY_TEXT | ODD_TEXT)
@example(text="1990–the–a–b İthe")
def test_words_are_those_of_the_measure_and_stand_where_they_say(text):
    words = list(words_of(text))
    assert [word.text for word in words] == normalize(text).split()
    for word in words:
        assert text[word.start : word.stop].lower() == word.text
    starts = [word.start for word in words]
    assert starts == sorted(starts)
    for limit in (0, len(text) // 2):
        early = [word for word in words if word.start < limit]
        assert list(words_of(text, limit)) == early


def by_regex(names, text) -> list[str]:
    """The names in a text, of its normal form alone."""
    forms = sorted({normalize(n) for n in names} - {""}, key=lambda f: -len(f.split()))
    if not forms:
        return []
    either = "|".join(map(re.escape, forms))
    return re.findall(rf"(?<!\S)(?:{either})(?!\S)", normalize(text))


WORDS = st.lists(
    st.sampled_from(["ann", "Ann", "the", "LEE", "lee-ann", "annual", "of", "a", "é"]),
    max_size=25,
)


@settings(max_examples=300, deadline=None)
@given(names=st.lists(WORDS.map(lambda x: x[:3]), max_size=5), words=WORDS)
def test_names_are_those_that_a_regular_expression_finds(names, words):
    names = [" ".join(name) for name in names]
    text = " ".join(words)
    spans = list(AnswerNames(names).find(words_of(text)))
    got = [normalize(text[start:stop]) for start, stop in spans]
    assert got == by_regex(names, text)
    assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False))


@pytest.mark.parametrize("vocabulary", ["bert_base_uncased", "roberta_bart"])
def test_occurrences_in_real_documents_are_those_of_a_regular_expression(vocabulary):
    folder = require_shared("data")
    model = open_tokenizer(folder / "tokenizers" / vocabulary)
    total = 0
    for name in ("web-dev", "web-train", "wikipedia-dev", "wikipedia-train"):
        for got in tq.records.read([folder / "triviaqa" / "qa" / f"{name}.json"]):
            [made] = tq.inputs.features(got, model, SequenceSizes(40_000, 64))
            assert made.example_ids[-1] == 0
            want = [f for d in got.documents for f in by_regex(got.aliases, d.text)]
            assert [normalize(x) for x in said(made)] == want[:MAX_OCCURRENCES]
            total += len(want)
    assert total > 100
