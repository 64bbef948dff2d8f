import json

import pytest

from etc_jax.datasets.task import find_task
from etc_jax.prediction.answer_parts import Answer
from etc_jax.prediction.scoreboard import Reported, problems_of, settle, with_wrong
from etc_jax.scoring.result import Scores
from etc_jax.tasks import hotpotqa, natural_questions, wikihop

HOTPOTQA_TASK = hotpotqa.DATA_SET.in_format()
NATURAL_QUESTIONS_TASK = natural_questions.DATA_SET.in_format()
WIKIHOP_TASK = wikihop.DATA_SET.in_format()

GOLD = [
    {"_id": "a", "answer": "Rome", "supporting_facts": [["T", 0]]},
    {"_id": "b", "answer": "yes", "supporting_facts": [["T", 0], ["U", 1]]},
]
RIGHT = {"a": {"answer": "rome", "support": [["T", 0]]}}
RIGHT["b"] = {"answer": "yes", "support": [["T", 0], ["U", 1]]}
NONE = {"answer": "", "support": []}


def answers(of_a, of_b):
    return [Answer("a", of_a, None), Answer("b", of_b, None)]


def test_the_best_setting_is_taken_and_the_first_of_equal_ones():
    found = answers([NONE, RIGHT["a"], RIGHT["a"]], [RIGHT["b"]] * 3)
    got = settle(HOTPOTQA_TASK, found, GOLD, settings=(0.1, 0.2, 0.3))
    assert got.setting == 0.2 and got.thresholds is None
    assert [s.metrics["joint_f1"] for s in got.scores] == [0.5, 1.0, 1.0]
    assert got.chosen is got.scores[1]
    assert got.official == {
        "answer": {"a": "rome", "b": "yes"},
        "sp": {"a": [["T", 0]], "b": [["T", 0], ["U", 1]]},
    }


def test_a_fixed_setting_is_taken_whatever_the_figures():
    found = answers([NONE, RIGHT["a"]], [NONE, RIGHT["b"]])
    got = settle(HOTPOTQA_TASK, found, GOLD, settings=(0.1, 0.2), fixed=0.1)
    assert got.setting == 0.1 and got.chosen.metrics["joint_f1"] == 0.0
    assert got.official["answer"] == {"a": "", "b": ""}


def test_without_gold_the_setting_is_that_of_the_task():
    found = answers([NONE, RIGHT["a"]], [NONE, RIGHT["b"]])
    got = settle(HOTPOTQA_TASK, found, None, settings=(0.1, 0.4))
    assert got.setting == 0.4 and got.scores is got.chosen is None
    assert got.official["answer"] == {"a": "rome", "b": "yes"}
    one = settle(WIKIHOP_TASK, [Answer("w", ["x"], None)], None, settings=(None,))
    assert one.official == {"w": "x"} and one.setting is None


def test_a_record_that_cannot_be_read_adds_nothing_to_the_sums():
    found = answers([RIGHT["a"]], [NONE])
    got = settle(HOTPOTQA_TASK, found, GOLD, settings=(0.4,), unreadable=2)
    assert got.chosen.count == 4
    # What the official scorer says of a file with two more records.
    more = [{**GOLD[0], "_id": f"more{i}"} for i in range(2)]
    want = HOTPOTQA_TASK.score([*GOLD, *more], got.official).metrics
    assert got.chosen.metrics == pytest.approx(want, abs=1e-15)


def test_without_means_an_unreadable_record_is_a_question_without_a_right_answer():
    span = {"start_byte": 1, "end_byte": 5, "start_token": 0, "end_token": 2}
    said = {"long_answer": span, "short_answers": [span], "yes_no_answer": "NONE"}
    gold = [{"example_id": "a", "annotations": [said, said]}]
    right = {**natural_questions.decoding.NO_ANSWER, "long": [0, 2], "long_score": 3.0}
    answer = Answer("a", [right], None)
    got = settle(
        NATURAL_QUESTIONS_TASK,
        [answer],
        gold,
        settings=(None,),
        unreadable=3,
    )
    assert got.chosen.count == 4
    metrics = got.chosen.metrics
    assert metrics["long-best-threshold-precision"] == 1.0
    assert metrics["long-best-threshold-recall"] == 0.25
    assert metrics["long-best-threshold-f1"] == 0.4  # not 1 / 4
    assert got.thresholds == {
        "long-best-threshold": 3.0,
        "short-best-threshold": 0.0,
    }
    # They are in the figures alone.
    assert [p["example_id"] for p in got.official["predictions"]] == ["a"]


def test_figures_without_such_records_stay_as_they_are():
    scores = Scores({"x": 0.1}, 3, {})
    assert with_wrong(scores, 0) is scores


def test_problems_are_gathered_by_kind():
    problems = [("long", "m1"), None, ("odd", "m2"), ("long", "m3")]
    found = [Answer(str(i), [], problem) for i, problem in enumerate(problems)]
    assert problems_of(found) == {"long": ["m1", "m3"], "odd": ["m2"]}


def test_what_is_reported_with_rouge_counts_records_that_were_not_read():
    pytest.importorskip("rouge_score")
    task = find_task("text_to_text").with_options({"measure": "rouge"})
    gold = [{"id": x, "references": ["The mill burned. It stood."]} for x in "abc"]
    texts = {"a": "The mills burned. It stood.", "b": "frogs"}
    found = [Answer(name, [texts.get(name, "")], None) for name in "abc"]
    got = settle(task, found, gold, settings=(None,), unreadable=1)
    reported = Reported.of(got.chosen, 1)
    low, high = reported.intervals["rouge1"]
    assert 0 <= low < got.chosen.metrics["rouge1"] < high <= 1
    stemmed = reported.conventions["files2rouge"]
    # Of four records one is right, once "mills" is stemmed.
    assert stemmed.metrics["rouge1"] == stemmed.metrics["rougeLsum"] == 1 / 4
    assert got.chosen.metrics["rouge1"] == pytest.approx(4 / 5 / 4)
    saved = json.loads(json.dumps(reported.as_json()))
    assert saved["intervals"]["rouge1"] == [low, high]
    signature = saved["conventions"]["files2rouge"]["signatures"]["rouge"]
    assert "|stemmer:yes|sentences:full_stops|" in signature
    bounds, convention = reported.lines()
    assert bounds.startswith(f"95 % intervals: rouge1 {100 * low:.2f} to ")
    assert convention == (
        "as files2rouge has it: rouge1 25.00, rouge2 25.00, rougeLsum 25.00"
    )


def test_nothing_more_is_reported_with_metrics_that_have_no_more():
    found = answers([RIGHT["a"]], [RIGHT["b"]])
    got = settle(HOTPOTQA_TASK, found, GOLD, settings=(0.4,))
    reported = Reported.of(got.chosen, 0)
    assert reported.as_json() == {} and list(reported.lines()) == []
