"""From logits to answers: the best span, its text, the official file."""

import json

import numpy as np
import pytest
from golden_data import require_shared
from multihop_samples import tokenizer
from tokenizer_samples import byte_bpe
from triviaqa_samples import VALUE, record

from etc_jax.data.tokenizers.tokenizer import open_tokenizer
from etc_jax.datasets.explained import Explained
from etc_jax.datasets.records import Problems
from etc_jax.datasets.spans import MAX_ANSWER_TOKENS, Outputs, best_span
from etc_jax.formats.sequence import SequenceSizes
from etc_jax.scoring import triviaqa as scoring
from etc_jax.tasks import triviaqa as tq

TASK = tq.DATA_SET.in_format("sequence")
SIZES = SequenceSizes(input_length=40, global_length=8)


def window(*args, model=None, sizes=SIZES, **changes):
    [made] = tq.inputs.features(record(*args, **changes), model or tokenizer(), sizes)
    return made


def sure_of(made, first: int, last: int) -> Outputs:
    logits = Outputs(*np.zeros((2, 1, len(made.document)), np.float32))
    logits.start[0, first] = logits.end[0, last] = 9.0
    return logits


def by_loop(start, end, document, most):
    """Every span, in float64; the first and shortest of the best ones."""
    start, end = np.float64(start), np.float64(end)
    rest = np.flatnonzero(document >= 0)
    norm = np.log(np.exp(start[rest]).sum()) + np.log(np.exp(end[rest]).sum())
    best = (-np.inf, -1, -1)
    for i in rest:
        for j in rest:
            score = start[i] + end[j] - norm
            right = i <= j < i + most and document[i] == document[j]
            if right and score > best[0] + 1e-9:
                best = (score, i, j)
    return best


@pytest.mark.parametrize("most", [1, 3, 30])
@pytest.mark.parametrize("seed", range(6))
def test_the_best_span_is_that_of_a_plain_loop(seed, most):
    rng = np.random.default_rng(seed)
    n = 25
    document = np.repeat([-1, 0, 1, -1, 2, -1], [3, 7, 6, 1, 5, 3])
    start, end = 2 * rng.normal(size=(2, n)).astype(np.float32)
    if seed % 2:
        # So that many spans are as good as each other.
        start, end = np.round(start), np.round(end)
    got = best_span(start, end, document, most=most)
    score, first, last = by_loop(start, end, document, most)
    assert (got.first, got.last) == (first, last)
    assert got.score == pytest.approx(score, abs=1e-9)


def test_only_documents_answer_whatever_the_question_says():
    made = window()
    start, end = np.zeros((2, 1, 40), np.float32)
    start[0, made.document < 0] = end[0, made.document < 0] = 99.0
    start[0, 13], end[0, 14] = 1.0, 1.0
    assert TASK.answers(Outputs(start, end), [made]) == {"tc_1": "ann lee".title()}


def test_an_answer_is_spelled_as_in_its_document():
    made = window()
    at = made.document.tolist().index(1)
    assert TASK.answers(sure_of(made, at, at + 2), [made]) == {"tc_1": "Lee was the"}
    # The white space between words is one space.
    assert TASK.answers(sure_of(made, 8, 10), [made]) == {"tc_1": "Old Mill was"}
    made = window(" the  cat's", model=byte_bpe(), Question="cat", names=["cat"])
    at = made.document.tolist().index(0)
    assert TASK.answers(sure_of(made, at, at + 2), [made]) == {"tc_1": "the cat's"}
    assert TASK.answers(sure_of(made, at + 1, at + 1), [made]) == {"tc_1": "cat"}


def test_answers_are_of_thirty_tokens_at_most():
    made = window("lee " * 60, names=["lee"], sizes=SequenceSizes(80, 8))
    at = made.document.tolist().index(0)
    [answer] = TASK.answers(sure_of(made, at, at + 29), [made]).values()
    assert len(answer.split()) == 30 == MAX_ANSWER_TOKENS
    [answer] = TASK.answers(sure_of(made, at, at + 30), [made]).values()
    assert len(answer.split()) == 1


def test_the_official_file_is_what_the_measure_reads(tmp_path):
    made = window()
    predictions = TASK.answers(TASK.gold_outputs([made]), [made])
    given = tmp_path / "predictions.json"
    TASK.write(predictions, given)
    answer = {"NormalizedAliases": ["ann lee"]}
    question = {"QuestionId": "tc_1", "Answer": answer}
    gold = scoring.truths_of({"Domain": "Wikipedia", "Data": [question]})
    got = scoring.score(gold, json.loads(given.read_text()))
    assert got.metrics["exact_match"] == 1.0


def test_an_answer_is_shown_where_it_was_found():
    windows = [window()]
    [told] = TASK.explain(TASK.gold_outputs(windows), windows, None)
    assert isinstance(told, Explained)
    assert (told.id, told.question) == ("tc_1", VALUE["Question"])
    assert told.answer == "Ann Lee"
    assert [d.title.text for d in told.documents] == ["a.txt", "b.txt"]
    first, second = told.documents
    # Lines are passages, blank ones are left out.
    assert [p.text for p in first.passages] == [
        "The  Old Mill",
        "was owned by Ann Lee.",
    ]
    [support] = [p for p in first.passages if p.is_support]
    [(start, stop)] = support.marks
    assert support.text[start:stop] == "Ann Lee" and 0 < support.probability < 1
    assert not any(p.is_support or p.marks for p in second.passages)
    assert "Ann Lee" in told.text()


def test_an_answer_over_two_lines_is_marked_in_both():
    start, end = np.zeros((2, 1, 40), np.float32)
    # "Mill" and "was" of the first document.
    start[0, 9] = end[0, 10] = 9.0
    [told] = TASK.explain(Outputs(start, end), [window()], None)
    marked = [
        passage.text[slice(*mark)]
        for document in told.documents
        for passage in document.passages
        for mark in passage.marks
    ]
    assert told.answer == "Mill was" and marked == ["Mill", "was"]


REAL = ["web-dev", "web-train", "wikipedia-dev", "wikipedia-train"]


@pytest.mark.parametrize("vocabulary", ["bert_base_uncased", "roberta_bart"])
def test_gold_answers_survive_the_way_there_and_back(vocabulary):
    """The upper bound on what is in 4096 tokens of official records is 1."""
    folder = require_shared("data")
    model = open_tokenizer(folder / "tokenizers" / vocabulary)
    problems = Problems()
    files = [folder / f"triviaqa/qa/{name}.json" for name in REAL]
    records = tq.records.read(files, problems)
    windows = [
        window for record in records for window in tq.inputs.features(record, model)
    ]
    assert problems.read == len(windows) == 18 and not problems.counts
    answerable = [w for w in windows if w.unusable is None]
    assert len(answerable) == 15
    predictions = TASK.answers(TASK.gold_outputs(answerable), answerable)
    gold = [tq.decoding.official_gold(w.record) for w in answerable]
    found = tq.decoding.score(gold, predictions)
    assert found.metrics == {"exact_match": 1.0, "f1": 1.0} and not found.problems()
    # The others get an answer too.
    others = [w for w in windows if w.unusable is not None]
    assert {w.unusable for w in others} == {"answer not in the input"}
    assert all(TASK.answers(TASK.gold_outputs(others), others).values())
