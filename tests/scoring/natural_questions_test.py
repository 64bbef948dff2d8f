"""Natural Questions figures of cases done by hand, and what is said of bad input."""

import copy

import pytest

from etc_jax.scoring import natural_questions as nq

NULL = dict.fromkeys(("start_byte", "end_byte", "start_token", "end_token"), -1)


def span(start, end, *, tokens=True, in_bytes=True):
    made = dict(NULL)
    if tokens:
        made |= {"start_token": start, "end_token": end}
    if in_bytes:
        made |= {"start_byte": 7 * start, "end_byte": 7 * end}
    return made


LONG, SHORT, OTHER = span(10, 40), span(12, 14), span(20, 21)


def said(long=NULL, short=(), yes_no="NONE"):
    return {"long_answer": long, "short_answers": list(short), "yes_no_answer": yes_no}


def gold(*annotations, name=1):
    return {"example_id": name, "annotations": list(annotations)}


def predicted(*, name=1, scores=(1.0, 1.0), **answers):
    return {
        "example_id": name,
        "long_answer_score": scores[0],
        "short_answers_score": scores[1],
        **said(**answers),
    }


def figures(records, *predictions):
    return nq.official_metrics(records, {"predictions": list(predictions)})


def f1(records, *predictions):
    found = figures(records, *predictions)
    return found["long-best-threshold-f1"], found["short-best-threshold-f1"]


ANSWERED = gold(said(LONG, [SHORT]), said(LONG, [SHORT]), said(), said(), said())


@pytest.mark.parametrize(
    "annotators, right",
    [
        ([said(LONG, [SHORT])], (0, 0)),
        ([said(LONG, [SHORT]), said()], (0, 0)),
        ([said(LONG, [SHORT]), said(LONG, [SHORT])], (1, 1)),
        ([said(LONG, [SHORT]), said(LONG)], (1, 0)),
        ([said(LONG, [SHORT]), said(span(50, 60), [OTHER]), said()], (1, 1)),
        # A null span inside a list is none; "yes" is a short answer.
        ([said(LONG, [SHORT]), said(LONG, [NULL])], (1, 0)),
        ([said(LONG, [SHORT]), said(LONG, yes_no="YES")], (1, 1)),
    ],
)
def test_two_annotators_make_an_answer_and_any_of_them_is_right(annotators, right):
    assert f1([gold(*annotators)], predicted(long=LONG, short=[SHORT])) == right


@pytest.mark.parametrize("most, warned", [(1, True), (2, False)])
def test_files_without_a_gold_answer_by_their_form_are_named(caplog, most, warned):
    records = [gold(said(LONG), name=1), gold(*[said(LONG)] * most, name=2)]
    figures(records, predicted(name=1, long=LONG), predicted(name=2, long=LONG))
    assert ("expected development files" in caplog.text) == warned


@pytest.mark.parametrize(
    "short, yes_no, right",
    [
        ([SHORT], "NONE", 0),
        ([SHORT, OTHER], "NONE", 1),
        ([OTHER, SHORT, NULL], "NONE", 1),
        ([OTHER, SHORT, span(1, 2)], "NONE", 0),
        ([], "yes", 1),
        ([], "NO", 0),
        ([], "none", 0),
    ],
)
def test_short_answers_are_a_whole_set_or_yes_or_no(short, yes_no, right):
    record = gold(said(LONG, [SHORT, OTHER]), said(LONG, yes_no="YES"))
    assert f1([record], predicted(long=LONG, short=short, yes_no=yes_no))[1] == right


@pytest.mark.parametrize(
    "long, right",
    [
        (span(10, 40, in_bytes=False), 1),
        (span(10, 40, tokens=False), 1),
        ({**LONG, "start_byte": 71}, 1),
        ({**LONG, "start_token": 11}, 1),
        ({**LONG, "start_token": 11, "start_byte": 71}, 0),
        (span(10, 39), 0),
    ],
)
def test_spans_are_equal_by_bytes_or_by_tokens(long, right):
    assert f1([ANSWERED], predicted(long=long))[0] == right


def test_the_best_threshold_and_recall_at_a_precision_by_hand():
    records = [{**ANSWERED, "example_id": i} for i in range(5)]
    scores = [5.0, 4.0, 4.0, 3.0, 1.0]
    right = [True, True, False, True, False]
    predictions = [
        predicted(name=i, long=LONG if ok else OTHER, scores=(score, 0.0))
        for i, (score, ok) in enumerate(zip(scores, right, strict=True))
    ]
    found = figures(records, *predictions)
    # From the top: 1/1 right, 2/3 (a tie), 3/4, 3/5, each of 5 answers.
    assert found["long-best-threshold"] == 3.0
    assert found["long-best-threshold-precision"] == 3 / 4
    assert found["long-best-threshold-recall"] == 3 / 5
    assert found["long-best-threshold-f1"] == pytest.approx(2 / 3)
    assert found["long-recall-at-precision>=0.5"] == 3 / 5
    assert found["long-precision-at-precision>=0.5"] == 3 / 4
    assert found["long-recall-at-precision>=0.75"] == 3 / 5
    assert found["long-recall-at-precision>=0.9"] == 1 / 5
    assert found["long-answer-precision"] == found["long-answer-recall"] == 3 / 5
    assert found["short-best-threshold-f1"] == found["short-best-threshold"] == 0.0


def test_the_headline_is_the_mean_of_both_best_f1():
    records = [ANSWERED, gold(said(), said(), name=2)]
    got = nq.score(
        records,
        {
            "predictions": [
                predicted(long=LONG, short=[OTHER], scores=(1.0, 1.0)),
                predicted(name=2, long=LONG, short=[SHORT], scores=(-9.0, -9.0)),
            ]
        },
    )
    assert got.metrics["long-best-threshold-f1"] == 1.0
    assert got.metrics["short-best-threshold-f1"] == 0.0
    assert got.metrics[nq.AVERAGE_F1] == 0.5
    assert got.count == 2 and got.problems() == []
    assert not [name for name in got.metrics if name.endswith("threshold")]
    assert all(0 <= value <= 1 for value in got.metrics.values())


def test_ids_may_be_numbers_or_text():
    assert f1([ANSWERED], predicted(name="1", long=LONG, short=[SHORT])) == (1, 1)


@pytest.mark.parametrize(
    "records, names, message",
    [
        ([1, 2], [1], "1 of 2 gold records have no prediction.*'2'"),
        ([1], [1, 3], "1 predictions are for no gold record.*'3'"),
        ([1, 1], [1], "1 gold ids occur more than once"),
        ([1], [1, 1], r"predictions, record 1 \(1\): a second prediction"),
        ([], [], "gold: at least one record expected"),
    ],
)
def test_ids_that_differ_are_named(records, names, message):
    made = [{**ANSWERED, "example_id": name} for name in records]
    with pytest.raises(ValueError, match=message):
        nq.score(made, {"predictions": [predicted(name=n) for n in names]})


@pytest.mark.parametrize(
    "change, message",
    [
        ({"long_answer_score": None}, "long_answer_score is None, expected a finite"),
        ({"short_answers_score": float("nan")}, "short_answers_score is nan"),
        ({"long_answer_score": True}, "long_answer_score is True"),
        ({"yes_no_answer": "maybe"}, "yes_no_answer is 'maybe', expected one of"),
        ({"yes_no_answer": 1}, "yes_no_answer: text expected, got a whole number"),
        ({"yes_no_answer": "yes"}, "'yes' beside short answers"),
        ({"long_answer": [1, 2]}, "long_answer: an object expected, got an array"),
        ({"short_answers": {}}, "short_answers: an array expected, got an object"),
        ({"short_answers": "x"}, "short_answers: an array expected, got text"),
        ({"short_answers": [3]}, r"short_answers\[0\]: an object expected"),
        ({"long_answer": {**LONG, "end_token": 3}}, "from token 10 to token 3"),
        ({"long_answer": {**LONG, "end_byte": -1}}, "from byte 70 to byte -1"),
        ({"long_answer": {**LONG, "end_byte": 1.0}}, "end_byte is 1.0, expected a who"),
        ({"example_id": None}, "example_id"),
    ],
)
def test_a_malformed_prediction_is_named(change, message):
    made = {**predicted(long=LONG, short=[SHORT]), **change}
    with pytest.raises(ValueError, match=message) as caught:
        figures([ANSWERED], made)
    assert "predictions, record 0" in str(caught.value)


def test_a_prediction_without_a_part_has_no_answer_but_gold_must_have_all():
    bare = {"example_id": 1, "long_answer_score": 0, "short_answers_score": 0}
    assert f1([ANSWERED], bare) == (0, 0)
    null = {**bare, "long_answer": None, "short_answers": None}
    assert f1([ANSWERED], null) == (0, 0)
    for part in ("long_answer", "short_answers", "yes_no_answer"):
        record = copy.deepcopy(ANSWERED)
        del record["annotations"][1][part]
        with pytest.raises(
            ValueError, match=rf"record 0 \(1\), annotation 1: .*{part}"
        ):
            figures([record], bare)
