"""SCROLLS: rows of several references, the average, and bad input.

Its scores are compared with golden cases in `goldens_test.py`.
"""

import pytest

from etc_jax.scoring import scrolls, texts

ROWS = [
    {"id": "b", "pid": "b_0", "output": "Pond corpus"},
    {"id": "a", "pid": "a_0", "output": "Yes"},
    {"id": "b", "pid": "b_1", "output": "a lake"},
]


def test_rows_of_equal_id_are_references_of_one_another():
    gold = scrolls.gold_of(ROWS, "dev")
    assert gold == [
        {"id": "b", "references": ["Pond corpus", "a lake"]},
        {"id": "a", "references": ["Yes"]},
    ]
    found = texts.scorer(scrolls.METRICS["qasper"])(
        gold, {"b": "the lake", "a": "yes, it is"}
    )
    assert found.metrics == {"f1": (1 + 1 / 2) / 2}
    with pytest.raises(ValueError, match=r"test, record 0 \(c\), field 'output': text"):
        scrolls.gold_of([{"id": "c", "output": None}], "test")


def test_hard_questions_are_scored_and_not_averaged():
    official = scrolls.official_metrics("quality_hard", ["x", "y"], [["x"], ["z"]])
    assert official["exact_match"] == 50 and "scrolls_score" not in official
    scores = {name: float(i) for i, name in enumerate(scrolls.AVERAGED)}
    assert scrolls.average(scores | {"quality_hard": 50.0}) == 3


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda: scrolls.official_metrics("qusum", [], []),
            "data_set is 'qusum'; .* 'qmsum'",
        ),
        (lambda: scrolls.official_metrics("qmsum", ["a"], []), "1 predictions with re"),
        (lambda: scrolls.official_metrics("qmsum", [], []), "at least one record"),
        (lambda: scrolls.average({"qmsum": 1.0}), "no score of gov_report, summ_scre"),
        (lambda: scrolls.average({"qsum": 1.0}), "data_set is 'qsum'; expected one of"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
