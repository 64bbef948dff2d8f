"""Scores of tags, by cases worked out by hand."""

import random

import pytest

from etc_jax.scoring.tags import score_entities, score_plain
from etc_jax.tasks.token_classification.schemes import spans_of

pytest.importorskip("seqeval")


def tags(*sentences):
    return [sentence.split() for sentence in sentences]


def test_entities_are_right_if_type_and_both_ends_are():
    gold = {"x": tags("B-per I-per O B-loc O", "O B-per"), "y": tags("B-org")}
    said = {"x": tags("B-per O O B-loc B-loc", "O B-org"), "y": tags("B-org")}
    got = score_entities(gold, said)
    # Gold: 4. Predicted: per 0-1, loc 3, loc 4, org, org. Right: loc 3, org of y.
    f1 = 2 * (2 / 5) * (2 / 4) / (2 / 5 + 2 / 4)
    assert got.metrics["precision"] == pytest.approx(2 / 5)
    assert got.metrics["recall"] == pytest.approx(2 / 4)
    assert got.metrics["f1"] == pytest.approx(f1)
    each = {"per": (0, 0, 0), "loc": (1 / 2, 1, 2 / 3), "org": (1 / 2, 1, 2 / 3)}
    for kind, values in each.items():
        for part, value in zip(("precision", "recall", "f1"), values, strict=True):
            assert got.metrics[f"{part}_{kind}"] == pytest.approx(value)
    assert got.metrics["macro_f1"] == pytest.approx(4 / 9)
    assert got.metrics["macro_precision"] == pytest.approx(1 / 3)
    assert got.metrics["macro_recall"] == pytest.approx(2 / 3)
    # Words with the same tag: 3 of 5, 1 of 2, 1 of 1.
    assert got.metrics["accuracy"] == pytest.approx(5 / 8)
    assert (got.count, got.problems()) == (2, [])


def test_schemes_do_not_matter():
    gold = {"x": tags("B-a I-a B-a O B-b")}
    for other in ("I-a I-a B-a O I-b", "B-a E-a S-a O S-b"):
        assert score_entities(gold, {"x": tags(other)}).metrics["f1"] == 1.0
    # Entities do not go on in the next sentence.
    apart = {"x": tags("O B-a", "I-a O")}
    assert score_entities(apart, {"x": tags("O B-a", "B-a O")}).metrics["f1"] == 1.0


def test_f1_is_that_of_sets_of_spans():
    rng = random.Random(3)
    every = ["O", "O", "B-a", "I-a", "B-b", "I-b"]
    makes = [[rng.choices(every, k=n) for n in (1, 4, 7, 2)] for _ in range(20)]
    gold = {str(i): x for i, x in enumerate(makes[:10])}
    said = {str(i): x for i, x in enumerate(makes[10:])}

    def spans(of):
        return {
            (i, n, *s)
            for i, x in of.items()
            for n, t in enumerate(x)
            for s in spans_of(t)
        }

    right, found = spans(gold), spans(said)
    want = 2 * len(right & found) / (len(right) + len(found))
    got = score_entities(gold, said).metrics
    assert 0 < want < 1 and got["f1"] == pytest.approx(want)
    for kind in "ab":
        both = [{x for x in of if x[-1] == kind} for of in (right, found)]
        want = 2 * len(both[0] & both[1]) / (len(both[0]) + len(both[1]))
        assert got[f"f1_{kind}"] == pytest.approx(want)


def test_a_type_that_is_only_predicted_counts_in_the_mean_alone():
    got = score_entities({"x": tags("B-a O")}, {"x": tags("B-a B-b")}).metrics
    assert got["f1_a"] == 1.0 and "f1_b" not in got
    assert got["macro_f1"] == 0.5 and got["f1"] == pytest.approx(2 / 3)


def test_missing_predictions_are_no_entities():
    gold = {"x": tags("B-a", "O"), "y": tags("B-a")}
    got = score_entities(gold, {"x": tags("B-a")})
    assert got.metrics["recall"] == 0.5 and got.metrics["precision"] == 1.0
    assert got.missing == {"tags": ("y",)}
    nothing = score_entities({"x": tags("O O")}, {"x": tags("O O")}).metrics
    assert nothing["f1"] == 0.0 and nothing["accuracy"] == 1.0


def test_plain_tags_have_accuracy_and_f1_each():
    gold = {"x": tags("DET NOUN VERB", "NOUN"), "y": tags("NOUN")}
    got = score_plain(gold, {"x": tags("DET NOUN NOUN", "ADJ"), "y": tags("NOUN")})
    assert got.metrics["accuracy"] == pytest.approx(3 / 5)
    # NOUN: 2 right of 3 predicted and 3 gold.
    want = {"f1_DET": 1.0, "f1_NOUN": 2 / 3, "f1_VERB": 0.0}
    assert {k: x for k, x in got.metrics.items() if k.startswith("f1_")} == (
        pytest.approx(want)
    )
    assert got.metrics["macro_f1"] == pytest.approx((1 + 2 / 3) / 4)
    assert score_plain(gold, {}).metrics["accuracy"] == 0.0


@pytest.mark.parametrize(
    "said, message",
    [
        ({"x": tags("O")}, "'x', sentence 1: 1 tags predicted for 2 words"),
        ({"x": tags("O O", "O")}, "tags of 2 sentences predicted, but there are 1"),
    ],
)
def test_tags_of_other_words_are_refused(said, message):
    for score in (score_entities, score_plain):
        with pytest.raises(ValueError, match=message):
            score({"x": tags("O O")}, said)
        with pytest.raises(ValueError, match="at least one record"):
            score({}, {})
