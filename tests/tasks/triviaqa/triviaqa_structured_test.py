"""TriviaQA as structured inputs: layout, places of the answer, what learns them."""

import jax
import numpy as np
import pytest
from golden_data import require_shared
from learning import batch_of, evaluated, learner_of, random_params
from multihop_samples import small_etc, split_at_stops, tokenizer
from tokenizer_samples import sentence_pieces
from triviaqa_samples import record

from etc_jax.data.tokenizers.tokenizer import open_tokenizer
from etc_jax.datasets.records import BadRecordError
from etc_jax.datasets.spans import Outputs
from etc_jax.formats.structured import StructuredSizes
from etc_jax.tasks import triviaqa as tq

TASK = tq.DATA_SET.in_format("structured")
SIZES = StructuredSizes(32, 16)
# [CLS] and "Who owned the mill?"
ABOVE = 6


def split(paragraphs):
    return [s for p in paragraphs for s in split_at_stops(p)]


def window(got=None, model=None, sizes=SIZES):
    made = tq.inputs.features(
        got or record(), model or tokenizer(), sizes, split_fn=split
    )
    return made[0]


def said(made) -> list[str]:
    """The text of each occurrence, as the documents spell it."""
    pairs = zip(made.labels["starts"], made.labels["ends"], strict=True)
    places = [made.span_of(a, b) for a, b in pairs if a >= 0]
    return [made.record.documents[i].text[a:b] for i, (a, b) in places]


# --- layout ---------------------------------------------------------------------------


def test_documents_and_sentences_have_global_tokens():
    made = window()
    pieces = tokenizer().pieces(made.tokens.long)
    assert pieces[:6] == ["[CLS]", "who", "owned", "the", "mill", "[UNK]"]
    # Sentences end at lines too.
    first = "the old mill was owned by ann lee .".split()
    second = "lee was the lee of the old mill , ton .".split()
    assert pieces[6:29] == [*first, *second, "lee", "##d", "##s"]
    assert pieces[29:] == ["[PAD]"] * 3
    roles = "cls", *["question"] * 5, "paragraph", *["sentence"] * 2
    roles += "paragraph", *["sentence"] * 2
    ids = [tokenizer().special_id(role) for role in roles]
    assert made.tokens.global_.tolist() == [*ids, *[0] * 4]
    sentence, document = made.structure.links.T.tolist()
    of_sentences = [7] * 3 + [8] * 6 + [10] * 11 + [11] * 3
    assert sentence == [-1, 1, 2, 3, 4, 5, *of_sentences, *[-1] * 3]
    assert document == [-1] * 6 + [6] * 9 + [9] * 14 + [-1] * 3


def test_question_and_documents_are_groups_of_their_own():
    structure = window().structure
    groups = [1, *[2] * 5, *[3] * 9, *[4] * 14, *[0] * 3]
    assert structure.long_segment_ids.tolist() == groups
    assert structure.order_ids.tolist() == [1, *[2] * 5, *[3] * 3, *[4] * 3, *[0] * 4]
    assert structure.exempt_g2l.tolist() == [True] + [False] * 15


def test_names_of_the_answer_are_labels_with_the_way_back_to_the_text():
    made = window()
    assert said(made) == ["Ann Lee", "Lee", "LEE", "mill, Ton"]
    assert made.labels["starts"][:5].tolist() == [12, 15, 18, 22, -1]
    assert made.labels["ends"][:5].tolist() == [13, 15, 18, 24, -1]
    assert made.document.tolist() == [-1] * 6 + [0] * 9 + [1] * 14 + [-1] * 3
    assert made.unusable is None


def test_a_model_of_sentence_pieces_reads_the_same_answers():
    text = " \u4e2d  \u4e2d the  mill\n\u4e2d. the mill"
    got = record(text, names=["\u4e2d mill"])
    made = window(got, sentence_pieces(), StructuredSizes(40, 24))
    # White space as the text has it; the second one goes on in the next sentence.
    assert said(made) == ["\u4e2d the  mill", "\u4e2d. the mill"]
    used = made.document >= 0
    starts, stops = made.characters[used].T
    assert (starts <= stops).all() and stops[-1] == len(text)
    sentences = made.structure.links[used, 0]
    assert sorted(set((sentences - sentences.min()).tolist())) == [0, 1, 2]


def test_real_documents_have_the_answers_of_the_other_format():
    pytest.importorskip("nupunkt")
    folder = require_shared("data")
    model = open_tokenizer(folder / "tokenizers" / "bert_base_uncased")
    sizes, count = StructuredSizes(3000, 200), 0
    names = ("wikipedia-dev", "wikipedia-train", "web-train")
    for got in tq.records.read(
        [folder / "triviaqa" / "qa" / f"{x}.json" for x in names]
    ):
        [made] = tq.inputs.features(got, model, sizes)
        # The other format has two separators more.
        [other] = tq.inputs.features(
            got, model, type(tq.inputs.SIZES)(sizes.long_length + 2, 200)
        )
        np.testing.assert_array_equal(
            made.document[made.document >= 0], other.document[other.document >= 0]
        )
        assert said(made) == said(other)
        sentence, document = made.structure.links[made.document >= 0].T
        assert (sentence > document).all() and (np.diff(sentence) >= 0).all()
        count += len(said(made))
    assert count > 20


# --- what does not fit ----------------------------------------------------------------


def test_sentences_without_room_share_the_token_before_them():
    made = window(sizes=StructuredSizes(32, ABOVE + 4))
    sentence, document = made.structure.links[ABOVE:29].T.tolist()
    # The second document keeps its two.
    assert sentence == [7] * 9 + [9] * 14
    assert document == [6] * 9 + [8] * 14
    assert made.structure.global_example_ids.all()
    five = (
        window(sizes=StructuredSizes(32, ABOVE + 5))
        .structure.links[ABOVE:29, 0]
        .tolist()
    )
    assert five == [7] * 3 + [8] * 6 + [10] * 14


def test_documents_without_two_global_tokens_are_not_read():
    made = window(sizes=StructuredSizes(32, ABOVE + 3))
    assert sorted(set(made.document.tolist())) == [-1, 0]
    assert said(made) == ["Ann Lee"]
    assert made.structure.links[ABOVE:15, 0].tolist() == [7] * 3 + [8] * 6


def test_documents_are_cut_where_the_input_is_full():
    whole, cut = window(), window(sizes=StructuredSizes(14, 16))
    assert cut.tokens.long.tolist() == whole.tokens.long[:14].tolist()
    assert said(cut) == ["Ann Lee"] and not (cut.document == 1).any()
    assert cut.tokens.global_.astype(bool).sum() == ABOVE + 3
    # An occurrence of which the end is cut off is none.
    cut = window(sizes=StructuredSizes(13, 16))
    assert said(cut) == [] and cut.unusable == "answer not in the input"


def test_what_cannot_be_an_input_is_named():
    for sizes in (StructuredSizes(32, ABOVE + 1), StructuredSizes(ABOVE, 16)):
        with pytest.raises(BadRecordError, match="question too long: 'tc_1': 5 tok"):
            window(sizes=sizes)
    window(sizes=StructuredSizes(ABOVE + 1, ABOVE + 2))
    with pytest.raises(BadRecordError, match="no text: 'tc_1'"):
        window(record("\u200b"))
    with pytest.raises(ValueError, match="do not spell the text"):
        tq.inputs.features(record(), tokenizer(), SIZES, split_fn=lambda _: ["x"])


# --- what learns it -------------------------------------------------------------------


def test_the_loss_is_that_of_all_places_together():
    windows = [
        window(),
        window(record("the mill of Lee", names=["mill", "lee"])),
        window(record("no name")),
    ]
    given, learner = batch_of(windows, (1, 1, 0)), learner_of(TASK, small_etc())
    assert learner.problems(given) == []
    loss, sums, grads, outputs = evaluated(learner)(random_params(learner), given)
    want = 0.0
    for row, length in ((0, 29), (1, 10)):
        for logits, name in zip(outputs, ("starts", "ends"), strict=True):
            places = given["labels"][name][row]
            p = np.exp(np.asarray(logits[row, :length], np.float64))
            want -= np.log(p[places[places >= 0]].sum() / p.sum()) / 2
    np.testing.assert_allclose(loss, want / 2, rtol=1e-5)
    assert set(sums) == {"loss", "start_loss", "end_loss", "span_accuracy"}
    assert float(sums["loss"][1]) == float(sums["span_accuracy"][1]) == 2
    leaves = jax.tree.leaves(grads)
    assert all(np.isfinite(x).all() for x in leaves)
    assert all(np.any(x) for x in jax.tree.leaves(grads["head"]["answer_span"]))


def test_the_best_span_is_read_as_in_one_sequence():
    made = window()
    outputs = Outputs(*np.zeros((2, 1, SIZES.long_length), np.float32))
    outputs.start[0, 22] = outputs.end[0, 24] = 9.0
    assert TASK.answers(outputs, [made]) == {"tc_1": "mill, Ton"}
    # No answer begins in the question, nor goes over into another document.
    outputs.start[0, 2] = 99.0
    assert TASK.answers(outputs, [made]) == {"tc_1": "mill, Ton"}
    [told] = TASK.explain(outputs, [made], None)
    marked = [p for d in told.documents for p in d.passages if p.marks]
    assert told.answer == "mill, Ton" and len(marked) == 1
