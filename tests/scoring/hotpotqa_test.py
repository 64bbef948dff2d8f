"""HotpotQA figures of small cases done by hand, and what is said of bad input."""

import pytest

from etc_jax.scoring import hotpotqa

FACTS = [["Mill", 0], ["Ann", 2]]


def record(identity="x", answer="Ann Lee", facts=FACTS):
    return {"_id": identity, "answer": answer, "supporting_facts": facts}


def predicted(answers, facts):
    return {"answer": answers, "sp": facts}


def test_joint_figures_are_products_within_a_record():
    got = hotpotqa.score(
        [record()], predicted({"x": "Lee"}, {"x": [*FACTS, ["Ann", 0], ["Ann", 1]]})
    ).metrics
    # Answer: precision 1, recall 1/2. Facts: precision 2/4, recall 1.
    assert (got["prec"], got["recall"], got["em"]) == (1, 1 / 2, 0)
    assert (got["sp_prec"], got["sp_recall"], got["sp_em"]) == (1 / 2, 1, 0)
    assert (got["joint_prec"], got["joint_recall"]) == (1 / 2, 1 / 2)
    assert got["joint_f1"] == 1 / 2
    assert got["f1"] == got["sp_f1"] == pytest.approx(2 / 3)


def test_joint_f1_is_a_mean_over_records_and_not_made_of_means():
    got = hotpotqa.score(
        [record("x"), record("y")],
        predicted({"x": "Ann Lee", "y": "wrong"}, {"x": [], "y": FACTS}),
    ).metrics
    assert got["f1"] == got["sp_f1"] == 0.5
    assert got["joint_f1"] == got["joint_em"] == 0


def test_gold_as_prediction_is_perfect():
    gold = [record("x", "yes"), record("y", facts=[["Ann", 1], ["Ann", 1]])]
    got = hotpotqa.score(
        gold,
        predicted(
            {r["_id"]: r["answer"] for r in gold},
            {r["_id"]: r["supporting_facts"] for r in gold},
        ),
    )
    assert set(got.metrics.values()) == {1.0}
    assert got.problems() == []
    got.require_same_ids()


def test_missing_and_surplus_ids_are_counted_and_named():
    got = hotpotqa.score(
        [record("x"), record("y"), record("z")],
        predicted({"x": "Ann Lee", "q": "?"}, {"x": FACTS, "y": FACTS}),
    )
    assert got.metrics["em"] == got.metrics["joint_em"] == pytest.approx(1 / 3)
    assert got.metrics["sp_em"] == pytest.approx(2 / 3)
    assert got.missing == {"answer": ("y", "z"), "supporting facts": ("z",)}
    assert got.surplus == ("q",)
    assert "2 of 3 gold records have no answer" in got.report()
    assert "'y', 'z'" in got.report()
    with pytest.raises(ValueError, match="1 predictions are for no gold record.*'q'"):
        got.require_same_ids()


def test_repeated_gold_ids_count_each_time_and_are_named():
    got = hotpotqa.score(
        [record("x"), record("x", "Bob")], predicted({"x": "Bob"}, {"x": FACTS})
    )
    assert got.metrics["em"] == 0.5
    assert got.repeated == ("x",)
    assert "occur more than once" in got.report()


def test_many_missing_ids_are_not_all_written_out():
    gold = [record(f"n{i}") for i in range(100)]
    text = hotpotqa.score(gold, predicted({}, {})).report()
    assert "'n4' and 95 more" in text and "'n5'" not in text


@pytest.mark.parametrize(
    "gold, message",
    [
        ([], "at least one record"),
        ({"a": 1}, "gold: an array expected, got an object"),
        ([record(), 3], "gold, record 1: an object expected, got a whole number"),
        ([{"answer": "a"}], r"record 0: no field '_id'; fields are: answer"),
        ([record(answer=None)], r"record 0 \(x\), field 'answer': text .* got null"),
        ([record(facts=[["Mill", "0"]])], r"record 0 \(x\).*\['Mill', '0'\]"),
        ([record(facts=[["Mill", True]])], "a supporting fact is"),
        ([record(facts=[["Mill"]])], "a supporting fact is"),
    ],
)
def test_bad_gold_is_named(gold, message):
    with pytest.raises(ValueError, match=message):
        hotpotqa.score(gold, predicted({}, {}))


@pytest.mark.parametrize(
    "predictions, message",
    [
        ([], "predictions: an object expected, got an array"),
        ({"answer": {}}, "no field 'sp'; fields are: answer"),
        (predicted({"x": 3}, {}), "answer of 'x': text expected"),
        (predicted({}, {"x": "Mill"}), "sp of 'x': an array expected"),
        (predicted({}, {"x": [[0, "Mill"]]}), r"sp of 'x': a supporting fact"),
    ],
)
def test_bad_predictions_are_named(predictions, message):
    with pytest.raises(ValueError, match=message):
        hotpotqa.score([record()], predictions)
