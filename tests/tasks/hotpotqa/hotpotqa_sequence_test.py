"""HotpotQA as one sequence: layout, places of the answer, paragraphs and evidence."""

import numpy as np
import pytest
from golden_data import require_shared
from multihop_samples import HOTPOT, tokenizer, write_json
from tokenizer_samples import byte_bpe

from etc_jax.data.tokenizers.tokenizer import grown, open_tokenizer
from etc_jax.datasets.explained import Explained
from etc_jax.datasets.offsets import encode
from etc_jax.datasets.records import BadRecordError
from etc_jax.formats.sequence import SequenceSizes
from etc_jax.tasks import hotpotqa
from etc_jax.tasks.hotpotqa.records import parse
from etc_jax.tasks.hotpotqa.sequence_decoding import Outputs
from etc_jax.tasks.hotpotqa.sequence_inputs import MAX_OCCURRENCES, TOKENS, spelled

HOTPOTQA_SEQUENCE = hotpotqa.DATA_SET.in_format("sequence")
HOTPOTQA_TASK = hotpotqa.DATA_SET.in_format()

SIZES = SequenceSizes(input_length=70, global_length=20)
BERT = grown(tokenizer(), TOKENS)
TEXT = (
    "[CLS] [q] who built the mill [UNK] [/q] "
    "<t> old mill </t> the old mill was built by its first owner . [s] it burned . [s] "
    "<t> ton </t> ton is a town in norland . [s] "
    "<t> ann lee </t> ann lee was a baker . [s] she owned the old mill . [s] [SEP]"
)


def record(**changes):
    return parse({**HOTPOT, **changes}, lambda kind, message: None)


def window(sizes=SIZES, model=BERT, **changes):
    [made] = HOTPOTQA_SEQUENCE.features(record(**changes), model, sizes)
    return made


def pieces(made, model=BERT):
    used = made.example_ids > 0
    return model.pieces(made.tokens[used])


def said(made) -> list[tuple[tuple[int, int], str]]:
    """Unit and text of each labelled place of the answer."""
    found = []
    for first, last in zip(made.labels["starts"], made.labels["ends"], strict=True):
        if first >= 0:
            unit, (start, stop) = made.marked(first, last)
            found.append((unit, made.text_of(unit)[start:stop]))
    return found


# --- layout ---------------------------------------------------------------------------


def test_the_layout_with_a_vocabulary_of_bert():
    made = window()
    text = TEXT.split()
    assert pieces(made) == text
    places = {name: made.extra[name] for name in ("paragraphs", "sentences")}
    for name, token in (("paragraphs", "<t>"), ("sentences", "[s]")):
        want = [i for i, piece in enumerate(text) if piece == token]
        assert places[name].tolist() == want + [-1] * (20 - len(want))
    head = list(range(8))
    marked = [i for i, piece in enumerate(text) if piece in ("<t>", "[s]")]
    assert made.global_index.tolist() == [*head, *marked, *[-1] * 4]
    assert made.paragraphs == (0, 1, 2)
    assert made.sentences == ((0, 0), (0, 1), (1, 0), (2, 0), (2, 1))
    assert made.labels["relevant"].tolist() == [1, 0, 1] + [0] * 17
    assert made.labels["support"].tolist() == [1, 0, 0, 0, 1] + [0] * 15
    assert made.labels["answer_type"] == 0 and made.unusable is None
    assert not made.types.any()


def test_the_layout_with_a_vocabulary_of_roberta():
    model = grown(byte_bpe(), TOKENS)
    made = window(
        model=model,
        question="the cat",
        context=[["cats", ["the cat's", " the cat"]], ["the", ["cat"]]],
        supporting_facts=[["cats", 1]],
        answer="cat",
    )
    assert pieces(made, model) == [
        *("<s>", "[q]", "the", "Ġcat", "[/q]", "<t>", "cat", "s", "</t>"),
        *("the", "Ġcat", "'s", "[s]", "Ġthe", "Ġcat", "[s]"),
        *("<t>", "the", "</t>", "cat", "[s]", "</s>"),
    ]
    # The space before a word belongs to its piece, and to no answer.
    assert said(made) == [((0, 0), "cat"), ((0, 1), "cat")]


def test_tokens_of_text_stand_where_they_say():
    made = window()
    for place, unit in enumerate(made.unit.tolist()):
        start, stop = made.characters[place].tolist()
        if unit < 0:
            assert (start, stop) == (-1, -1)
            continue
        text = made.text_of(made.units[unit])[start:stop].lower()
        assert [text] == BERT.pieces(made.tokens[place : place + 1])
    assert [u for u in made.units if u[1] < 0] == [(0, -1), (1, -1), (2, -1)]


def test_a_sentence_without_text_keeps_its_token():
    context = [["Old Mill", ["", " It burned."]], *HOTPOT["context"][1:]]
    made = window(context=context, supporting_facts=[["Old Mill", 1]])
    assert made.sentences[:2] == ((0, 0), (0, 1)) and (0, 0) not in made.units
    assert made.labels["support"].tolist()[:3] == [0, 1, 0]
    assert "</t> [s] it burned . [s]" in " ".join(pieces(made))


# --- the answer -----------------------------------------------------------------------


def test_the_answer_is_labelled_in_sentences_of_supporting_paragraphs():
    # Not in the title, and not in a sentence elsewhere.
    context = [*HOTPOT["context"], ["More", ["Ann Lee left."]]]
    assert said(window(context=context)) == [((2, 0), "Ann Lee")]
    # All places of it, whether or not the sentence supports.
    context[2] = ["Ann Lee", ["Ann Lee and Ann Lee.", " Ann Lee was Ann."]]
    assert said(window(context=context)) == [
        *[((2, 0), "Ann Lee")] * 2,
        ((2, 1), "Ann Lee"),
    ]


def test_an_answer_that_they_lack_is_labelled_anywhere():
    context = [*HOTPOT["context"], ["More", ["No Ton."]]]
    assert said(window(answer="Ton", context=context)) == [
        *[((1, -1), "Ton"), ((1, 0), "Ton")],
        ((3, 0), "Ton"),
    ]


@pytest.mark.parametrize(
    "text, answer, found",
    [
        ("Annie met Ann, Ann", "Ann", ["Ann", "Ann"]),
        ("ann met Ann", "Ann", ["Ann"]),
        ("a Norlands town", "Norland", []),
        ("in 1990s", "1990", []),
        ("built (Old Mill).", "Old Mill", ["Old Mill"]),
        ("", "Ann", []),
        # Decomposed: an accent is of its letter, and each has pieces of its own in BPE.
        ("Un cafe\u0301, cafe", "cafe", ["cafe"]),
        ("Un cafe\u0301s, cafe\u0301", "cafe\u0301", ["cafe\u0301"]),
    ],
)
def test_an_answer_is_found_as_it_is_spelled_and_whole(text, answer, found):
    for model in (tokenizer(), byte_bpe()):
        [got] = encode(model, [text])
        spans = [
            (got.offsets[a][0], got.offsets[b][1]) for a, b in spelled(got, answer)
        ]
        assert [text[start:stop] for start, stop in spans] == found


def test_pieces_that_say_punctuation_too_are_the_answer():
    # ")." is one piece of this vocabulary.
    folder = require_shared("data")
    model = open_tokenizer(folder / "tokenizers/roberta_bart")
    [got] = encode(model, ["was Eminem (Evil)."])
    assert model.pieces(got.ids)[-1] == ")."
    assert list(spelled(got, "Eminem (Evil)")) == [(1, len(got) - 1)]


def test_yes_and_no_have_no_place():
    for answer, kind in (("yes", 1), ("no", 2)):
        made = window(answer=answer, question="is it a town in no country")
        assert made.labels["answer_type"] == kind and made.unusable is None
        assert (made.labels["starts"] == -1).all() and said(made) == []


def test_the_first_occurrences_are_labels():
    context = [["Ann Lee", ["lee " * (MAX_OCCURRENCES + 5)]]]
    facts = [["Ann Lee", 0]]
    made = window(
        SequenceSizes(200, 20), context=context, supporting_facts=facts, answer="lee"
    )
    assert len(said(made)) == MAX_OCCURRENCES
    assert np.array_equal(np.diff(made.labels["starts"]), np.ones(MAX_OCCURRENCES - 1))


@pytest.mark.parametrize(
    "changes, why",
    [
        ({"answer": "zebra"}, "answer not in the input"),
        ({"supporting_facts": [["Ton", 9]]}, "no supporting fact in the input"),
        ({"supporting_facts": None}, "no gold answer"),
    ],
)
def test_what_cannot_be_trained_on_is_named(changes, why):
    value = {k: v for k, v in {**HOTPOT, **changes}.items() if v is not None}
    [made] = HOTPOTQA_SEQUENCE.features(parse(value, lambda *note: None), BERT, SIZES)
    assert made.unusable == why
    if why == "no gold answer":
        assert HOTPOTQA_SEQUENCE.gold(made.record) is None
        with pytest.raises(ValueError, match="'a1' has no gold answer"):
            HOTPOTQA_SEQUENCE.gold_outputs([made])


# --- what does not fit ----------------------------------------------------------------


def crowded():
    """Of all sentences only the second one fits."""
    long = ["The Old Mill was built by its first owner Ann Lee.", " It burned."]
    return window(
        SequenceSizes(24, 16), context=[["Old Mill", long], *HOTPOT["context"][1:]]
    )


def test_sentences_that_do_not_fit_are_left_out():
    whole = window(SequenceSizes(len(TEXT.split()), 16))
    assert pieces(whole) == TEXT.split()
    short = window(SequenceSizes(len(TEXT.split()) - 1, 16))
    assert " ".join(pieces(short)) == TEXT.replace(" she owned the old mill . [s]", "")
    assert short.sentences == whole.sentences[:-1]
    few = window(SequenceSizes(70, 15))
    assert few.sentences == whole.sentences[:-1]
    # A later one may fit where one before it does not.
    some = crowded()
    assert some.paragraphs == (0, 1, 2)
    assert some.sentences == ((0, 1),)
    assert " ".join(pieces(some)).endswith("<t> ton </t> <t> ann lee </t> [SEP]")


@pytest.mark.parametrize("sizes", [SequenceSizes(8, 20), SequenceSizes(70, 7)])
def test_a_question_that_does_not_fit_is_refused(sizes):
    with pytest.raises(BadRecordError, match="question too long: 'a1': 5 tokens"):
        window(sizes)


def test_an_input_without_text_is_refused():
    with pytest.raises(BadRecordError, match="no text: 'a1'"):
        window(SequenceSizes(11, 20))


def test_a_tokenizer_that_has_not_grown_is_told_how():
    with pytest.raises(ValueError, match="grow --from=MODEL --tokens='") as error:
        window(model=grown(tokenizer(), ["[q]", "[/q]"]))
    assert "--tokens='<t>,</t>,[s]'" in str(error.value)


# --- decoding -------------------------------------------------------------------------


def outputs_for(made, **changes) -> Outputs:
    n, g = len(made.unit), len(made.extra["sentences"])
    zeros = {
        "paragraph": np.zeros((1, g)),
        "sentence": np.zeros((1, g)),
        "answer_type": np.zeros((1, 3)),
        "start": np.zeros((1, n)),
        "end": np.zeros((1, n)),
    }
    for name, values in changes.items():
        zeros[name][0, : len(values)] = values
    return Outputs(**zeros)


def test_evidence_is_of_the_two_most_relevant_paragraphs():
    made = window()
    outputs = outputs_for(made, paragraph=[-3, -1, -2], sentence=[9, 9, -5, 0.5, -1])
    [[prediction]] = HOTPOTQA_SEQUENCE.decode(outputs, [made], (0.5,))
    # The second one has no sentence at the threshold: its best one is taken.
    assert prediction["support"] == [("Ton", 0), ("Ann Lee", 0)]
    [row] = HOTPOTQA_SEQUENCE.decode(outputs, [made], (0.2, 0.9))
    assert [p["support"] for p in row] == [
        [("Ton", 0), ("Ann Lee", 0), ("Ann Lee", 1)],
        [("Ton", 0), ("Ann Lee", 0)],
    ]


def test_a_sentence_at_the_threshold_is_evidence():
    made = window()
    outputs = outputs_for(made, paragraph=[-3, -1, 2], sentence=[0, 0, 9, 3, 0])
    [[prediction]] = HOTPOTQA_SEQUENCE.decode(outputs, [made], (0.5,))
    assert prediction["support"] == [("Ton", 0), ("Ann Lee", 0), ("Ann Lee", 1)]


def test_paragraphs_of_one_title_give_a_fact_once():
    context = [["Ton", ["Ton burned."]], ["Ton", ["Ton is old."]]]
    made = window(context=context, supporting_facts=[["Ton", 0]], answer="Ton")
    [[prediction]] = HOTPOTQA_SEQUENCE.decode(outputs_for(made), [made], (0.5,))
    assert prediction["support"] == [("Ton", 0)]


def test_a_paragraph_without_sentences_gives_no_fact():
    made = crowded()
    outputs = outputs_for(made, paragraph=[0, 2, 2])
    [[prediction]] = HOTPOTQA_SEQUENCE.decode(outputs, [made], (0.0,))
    assert prediction["support"] == []


def test_a_span_lies_in_one_title_or_sentence():
    made = window()
    text = pieces(made)
    start, end = np.zeros((2, len(text)))
    # The best end stands in the next sentence, and the question is no place.
    start[text.index("first")], end[text.index("burned")] = 9, 9
    start[3] = end[3] = 20
    end[text.index("owner")] = 3
    [[got]] = HOTPOTQA_SEQUENCE.decode(
        outputs_for(made, start=start, end=end), [made], (0.5,)
    )
    assert got["answer"] == "first owner"
    for kind, word in ((1, "yes"), (2, "no")):
        types = np.eye(3)[kind]
        outputs = outputs_for(made, start=start, end=end, answer_type=types)
        [[got]] = HOTPOTQA_SEQUENCE.decode(outputs, [made], (0.5,))
        assert got["answer"] == word


def test_an_answer_shows_its_place_and_what_supports_it():
    made = window()
    [told] = HOTPOTQA_SEQUENCE.explain(
        HOTPOTQA_SEQUENCE.gold_outputs([made]), [made], 0.5
    )
    assert isinstance(told, Explained) and told.answer == "Ann Lee"
    supporting = [(d.title.text, n) for d, n in told.supporting()]
    assert supporting == [("Old Mill", 0), ("Ann Lee", 1)]
    [(text, marks)] = [
        (p.text, p.marks)
        for d in told.documents
        for p in (d.title, *d.passages)
        if p.marks
    ]
    assert text == "Ann Lee was a baker." and marks == ((0, 7),)
    made = window(answer="yes")
    [told] = HOTPOTQA_SEQUENCE.explain(
        HOTPOTQA_SEQUENCE.gold_outputs([made]), [made], 0.5
    )
    assert told.answer == "yes"
    assert not any(p.marks for d in told.documents for p in (d.title, *d.passages))


# --- upper bound ----------------------------------------------------------------------


def test_every_loss_has_its_reason(tmp_path):
    changes = [
        {"_id": "nowhere", "supporting_facts": [*HOTPOT["supporting_facts"], ["X", 0]]},
        {"_id": "unknown", "answer": "zebra"},
        {
            "_id": "three",
            "supporting_facts": [["Old Mill", 0], ["Ton", 0], ["Ann Lee", 1]],
        },
        {"_id": "one", "supporting_facts": [["Ann Lee", 1]]},
    ]
    path = write_json(tmp_path, [{**HOTPOT, **change} for change in changes])
    got = HOTPOTQA_SEQUENCE.upper_bound([path], BERT, SIZES)
    assert [tuple(loss) for loss in got.losses] == [
        ("nowhere", "supporting fact ('X', 0) points nowhere"),
        ("unknown", "answer 'zebra': answer not in the input"),
        (
            "three",
            "supporting fact ('Ann Lee', 1) stands in a third paragraph, and two are "
            "taken",
        ),
        (
            "one",
            "('Old Mill', 0) is no supporting fact, and two paragraphs must have one",
        ),
    ]
    path = write_json(tmp_path, [HOTPOT])
    small = SequenceSizes(len(TEXT.split()) - 1, 16)
    got = HOTPOTQA_SEQUENCE.upper_bound([path], BERT, small)
    assert [loss.reason for loss in got.losses] == [
        "supporting fact ('Ann Lee', 1) did not fit into the input",
        "('Ann Lee', 0) is no supporting fact, and two paragraphs must have one",
    ]


def test_gold_and_official_file_are_those_of_the_other_form():
    value = record()
    assert HOTPOTQA_SEQUENCE.gold(value) == HOTPOTQA_TASK.gold(value)
    content = HOTPOTQA_SEQUENCE.official(
        {"a1": {"answer": "x", "support": [("Ton", 0)]}}
    )
    assert content == {"answer": {"a1": "x"}, "sp": {"a1": [("Ton", 0)]}}
