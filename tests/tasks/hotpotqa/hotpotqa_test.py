import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from multihop_samples import HOTPOT, tokenizer, write_json
from tokenizer_samples import official_model, sentence_pieces

from etc_jax.data.windows.token_types import SENTENCE_TYPE, TITLE_TYPE
from etc_jax.datasets.records import BadRecordError, Problems
from etc_jax.formats.structured import StructuredSizes
from etc_jax.tasks import hotpotqa as hp
from etc_jax.tasks.hotpotqa.decoding import best_span, text_of
from etc_jax.tasks.hotpotqa.inputs import NO, SPAN, YES
from etc_jax.tasks.hotpotqa.records import parse

TASK = hp.DATA_SET.in_format("structured")
SIZES = StructuredSizes(long_length=80, global_length=40)


def record(**changes):
    return parse({**HOTPOT, **changes}, lambda kind, message: None)


def window(sizes=SIZES, official_quirks=False, **changes):
    [made] = hp.inputs.features(
        record(**changes), tokenizer(), sizes, official_quirks=official_quirks
    )
    return made


def pieces(made) -> list[str]:
    return tokenizer().pieces(made.tokens.long)


def gold_text(made) -> str:
    return text_of(made, int(made.labels["begin"]), int(made.labels["end"]))


# --- reading --------------------------------------------------------------------------


def test_a_record_keeps_every_field(tmp_path):
    [got] = hp.records.read(write_json(tmp_path, [HOTPOT]))
    assert (got.id, got.question, got.answer) == (
        "a1",
        "Who built the mill?",
        "Ann Lee",
    )
    assert got.paragraphs[2] == hp.records.Paragraph(
        "Ann Lee", ("Ann Lee was a baker.", " She owned the Old Mill.")
    )
    assert got.support == (("Old Mill", 0), ("Ann Lee", 1))
    assert (got.type, got.level) == ("bridge", "hard")


def test_facts_that_point_nowhere_are_counted_and_not_labelled(tmp_path):
    facts = [["Old Mill", 0], ["Old Mill", 2], ["Ann Lee", -1], ["Nowhere", 0]]
    path = write_json(tmp_path, [{**HOTPOT, "supporting_facts": facts}])
    problems = Problems()
    [got] = hp.records.read([path], problems)
    assert problems.counts == {"supporting fact that points nowhere": 3}
    assert got.support == tuple((t, i) for t, i in facts)
    [made] = hp.inputs.features(got, tokenizer(), SIZES)
    labelled = made.paragraph[made.labels["support"] == 1]
    assert labelled.tolist() == [0, 0, 0]
    [official] = hp.inputs.features(got, tokenizer(), SIZES, official_quirks=True)
    assert official.labels["support"].sum() == 5


def test_empty_paragraphs_and_repeated_titles_are_counted(tmp_path):
    context = [*HOTPOT["context"], ["Old Mill", []], ["Blank", [" "]]]
    path = write_json(tmp_path, [{**HOTPOT, "context": context}])
    problems = Problems()
    [got] = hp.records.read([path], problems)
    assert problems.counts == {"empty paragraph": 2, "title twice in a context": 1}
    [made] = hp.inputs.features(got, tokenizer(), SIZES)
    predictions = TASK.answers(hp.decoding.gold_outputs([made]), [made])
    assert predictions["a1"]["support"] == [("Old Mill", 0), ("Ann Lee", 1)]


# --- features -------------------------------------------------------------------------


def test_the_layout_of_an_input():
    made = window()
    assert pieces(made)[:17] == [
        *("[CLS]", "who", "built", "the", "mill", "[UNK]"),
        *("old", "mill", "the", "old", "mill", "was", "built", "by", "its", "first"),
        "owner",
    ]
    # CLS, the question's tokens, then paragraph, title and sentences of each context.
    ids = [8, *[3] * 5, 5, 1, 1, 1, 5, 1, 1, 5, 1, 1, 1]
    assert made.tokens.global_.tolist() == ids + [0] * (40 - len(ids))
    assert made.types.global_.tolist() == [0] * 40
    assert made.types.long[:10].tolist() == [1, 3, 3, 3, 3, 3, 2, 2, 1, 1]
    assert made.sentence[6:17].tolist() == [-1, -1, 0, 1, -1, -1, 0, -1, -1, 0, 1]
    assert made.paragraph[:8].tolist() == [-1] * 6 + [0, 0]
    assert made.structure.links[:8].tolist() == [
        *([-1, -1], [1, -1], [2, -1], [3, -1], [4, -1], [5, -1]),
        *([7, 6], [7, 6]),
    ]


def test_labels_mark_the_facts_and_what_stands_above_them():
    made = window()
    where = np.flatnonzero(made.labels["support"])
    assert [(int(made.paragraph[i]), int(made.sentence[i])) for i in where] == [
        *((0, -1), (0, -1), (0, 0)),
        *((2, -1), (2, -1), (2, 1)),
    ]
    assert made.labels["answer_type"] == SPAN
    # The title of a supporting paragraph, before the sentence that follows it.
    assert gold_text(made) == "Ann Lee" and made.unusable is None
    assert made.types.long[made.labels["begin"]] == TITLE_TYPE


def test_every_long_token_of_a_sentence_points_at_its_text():
    made = window()
    for i in range(6, int((made.tokens.long > 0).sum())):
        text = text_of(made, i, i)
        piece = pieces(made)[i].removeprefix("##")
        assert text.lower() == piece or (piece == "[UNK]" and text)


@pytest.mark.parametrize("word, kind", [("yes", YES), ("no", NO)])
def test_yes_and_no_have_no_span_but_officially(word, kind):
    context = [["Old Mill", [f"It was {word} mill."]], *HOTPOT["context"][1:]]
    made = window(answer=word, context=context)
    assert made.labels["answer_type"] == kind and made.unusable is None
    assert (made.labels["begin"], made.labels["end"]) == (0, 0)
    assert (hp.inputs.bio_labels(made) == 2).all()
    official = window(answer=word, context=context, official_quirks=True)
    assert gold_text(official) == word and official.labels["answer_type"] == kind


def test_an_answer_that_spells_whole_pieces_comes_first():
    sentences = ["It owned operas.", " The opera burned."]
    changes = {
        "answer": "opera",
        "context": [["Mill", sentences]],
        "supporting_facts": [["Mill", 0], ["Mill", 1]],
    }
    made = window(**changes)
    assert gold_text(made) == "opera"
    assert [text_of(made, *s) for s in made.spans] == ["opera", "opera"]
    assert (
        made.structure.links[made.spans[0][0], 0]
        == made.structure.links[made.labels["begin"], 0]
    )


def test_answers_outside_of_supporting_text_cannot_be_trained_on():
    made = window(answer="Norland")
    assert made.unusable == "answer not in the supporting text of the input"
    assert (made.labels["begin"], made.labels["end"]) == (0, 0)
    assert window(answer="zebra").unusable == made.unusable
    nowhere = window(supporting_facts=[["Nowhere", 3]])
    assert nowhere.unusable == "no supporting fact in the input"


def skipping():
    """The first sentence of a context is too long, the second is not."""
    sentences = ["Ann Lee owned " + "the mill " * 30 + ".", " Ann Lee was a baker."]
    return {
        "context": [["Mill", sentences]],
        "supporting_facts": [["Mill", 0], ["Mill", 1]],
    }


def test_a_sentence_left_out_shifts_nothing():
    made = window(StructuredSizes(30, 40), **skipping())
    predictions = TASK.answers(hp.decoding.gold_outputs([made]), [made])
    assert predictions["a1"]["support"] == [("Mill", 1)]
    assert gold_text(made) == "Ann Lee"
    assert predictions["a1"]["answer"] == "Ann Lee"


def test_officially_a_sentence_left_out_shifts_indices_and_is_searched():
    made = window(StructuredSizes(30, 40), official_quirks=True, **skipping())
    predictions = TASK.answers(hp.decoding.gold_outputs([made]), [made])
    assert predictions["a1"]["support"] == [("Mill", 0)]
    assert made.spans[0] == made.spans[1] and len(made.spans) == 2


def test_sentences_stop_where_global_tokens_do():
    made = window(StructuredSizes(80, 9))
    assert (made.tokens.global_ > 0).all()
    # CLS, 5 of the question, paragraph, title, one sentence.
    assert made.sentence.tolist() == [-1] * 8 + [0]
    assert made.unusable == "answer not in the supporting text of the input"


def test_a_question_that_does_not_fit_is_refused():
    for sizes in (StructuredSizes(5, 40), StructuredSizes(80, 5)):
        with pytest.raises(BadRecordError, match="question too long: 'a1': 5 tokens"):
            window(sizes)


def test_sentencepiece_has_its_own_special_ids_and_the_same_text():
    model = sentence_pieces(official_model())
    [made] = hp.inputs.features(record(), model, StructuredSizes(300, 60))
    ids = set(made.tokens.global_.tolist())
    assert ids == {40, 41, 43, 1, 0}
    assert gold_text(made).strip() == "Ann Lee"
    for quirks in (False, True):
        [made] = hp.inputs.features(
            record(), model, StructuredSizes(300, 60), official_quirks=quirks
        )
        predictions = TASK.answers(hp.decoding.gold_outputs([made]), [made])
        assert predictions["a1"]["answer"].strip() == "Ann Lee"


def test_bio_labels_mark_every_place():
    made = window(answer="Old Mill")
    codes = hp.inputs.bio_labels(made)
    texts, i = [], 0
    while i < len(codes):
        if codes[i] == 0:
            stop = i + 1
            while stop < len(codes) and codes[stop] == 1:
                stop += 1
            texts.append(text_of(made, i, stop - 1))
            i = stop
        else:
            assert codes[i] == 2
            i += 1
    assert texts == ["Old Mill"] * 3 and len(made.spans) == 3


# --- decoding -------------------------------------------------------------------------


def by_brute_force(logits, made, support, max_tokens):
    """Every pair of places, in order; a later one wins a tie."""
    best, found = -np.inf, None
    sentence = made.structure.links[:, 0]
    for i in range(len(logits)):
        for j in range(i, len(logits)):
            inside = made.types.long[i] in (SENTENCE_TYPE, TITLE_TYPE)
            inside &= sentence[i] >= 0 and sentence[i] == sentence[j]
            if not inside or not support[sentence[i]] or j - i + 1 > max_tokens:
                continue
            score = logits[i, 0] + logits[j, 1]
            if score >= best:
                best, found = score, (i, j)
    return found


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**31), max_tokens=st.integers(1, 12), ties=st.booleans())
def test_the_best_span_is_that_of_a_plain_search(seed, max_tokens, ties):
    rng, made = np.random.default_rng(seed), window()
    shape = (SIZES.long_length, 2)
    logits = rng.integers(0, 3, shape) if ties else rng.normal(size=shape)
    support = rng.integers(0, 2, SIZES.global_length).astype(bool)
    want = by_brute_force(logits, made, support, max_tokens)
    assert best_span(logits, made, support, max_tokens) == want


def test_looking_at_the_best_places_only_may_miss_the_best_span():
    made = window()
    logits = np.zeros((SIZES.long_length, 2))
    sentence = np.flatnonzero(made.structure.links[:, 0] == 8)
    logits[0] = 9.0  # the best begin and end are no text
    logits[sentence[2]] = 1.0
    support = np.ones(SIZES.global_length, bool)
    assert best_span(logits, made, support) == (sentence[2], sentence[2])
    assert best_span(logits, made, support, top=1) is None
    assert best_span(logits, made, support, top=2) == (sentence[2], sentence[2])


def test_no_supporting_sentence_means_no_answer():
    made = window()
    gold = hp.decoding.gold_outputs([made])
    outputs = gold._replace(support=np.full_like(gold.support, -5.0))
    predictions = TASK.answers(outputs, [made])
    assert predictions == {"a1": {"answer": "", "support": []}}
    everything = TASK.answers(outputs, [made], 0.0)
    assert len(everything["a1"]["support"]) == 5
    assert everything["a1"]["answer"] == "Ann Lee"


def test_the_type_decides_between_words_and_span():
    made = window()
    gold = hp.decoding.gold_outputs([made])
    for kind, text in ((SPAN, "Ann Lee"), (YES, "yes"), (NO, "no")):
        outputs = gold._replace(answer_type=np.eye(3)[[kind]])
        assert TASK.answers(outputs, [made])["a1"]["answer"] == text
