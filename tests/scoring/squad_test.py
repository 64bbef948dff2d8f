"""SQuAD and TriviaQA: small cases, and what is said of bad input."""

import numpy as np
import pytest

from etc_jax.scoring import squad, triviaqa


def articles(**questions):
    asked = [
        {"id": identity, "answers": [{"text": text} for text in truths]}
        for identity, truths in questions.items()
    ]
    return [{"title": "t", "paragraphs": [{"context": "c", "qas": asked}]}]


GOLD = articles(a=["red barn", "the big red barn"], b=["42"], c=["x"])


def test_the_best_answer_counts_and_missing_ones_are_wrong_and_named():
    found = squad.score(GOLD, {"a": "a big, red barn!", "b": "42 43", "d": "?"})
    assert found.metrics["exact_match"] == pytest.approx(1 / 3)
    assert found.metrics["f1"] == pytest.approx((1 + 2 / 3) / 3)
    assert found.missing == {"answer": ("c",)} and found.surplus == ("d",)


@pytest.mark.parametrize(
    "gold, predictions, message",
    [
        ([], {}, "at least one question"),
        ([{}], {}, "gold, article 0: no field 'paragraphs'"),
        (articles(a=[]), {}, r"paragraph 0, record 0 \(a\): at least one answer"),
        (GOLD, {"a": 3}, "answer of 'a': text expected, got a whole number"),
    ],
)
def test_bad_questions_are_named(gold, predictions, message):
    with pytest.raises(ValueError, match=message):
        squad.score(gold, predictions)


# --- SQuAD 2.0 ------------------------------------------------------------------------

TWO = [("a", ["the red barn", "barn"]), ("b", []), ("c", ["1990s"]), ("d", [])]


def test_no_answer_is_right_for_questions_that_have_none():
    given = {"a": "A red, barn", "b": "", "c": "", "d": "a barn"}
    metrics = squad.score_answers(TWO, given).metrics
    assert metrics == {
        **{"exact": 0.5, "f1": 0.5, "HasAns_exact": 0.5, "HasAns_f1": 0.5},
        **{"NoAns_exact": 0.5, "NoAns_f1": 0.5},
    }
    # What normalisation leaves nothing of is no answer, as in the official script.
    assert squad.score_answers(TWO, {"b": "The ."}).metrics["NoAns_f1"] == 0.5
    only = squad.score_answers([("b", [])], {"b": ""}).metrics
    assert only == {"exact": 1.0, "f1": 1.0, "NoAns_exact": 1.0, "NoAns_f1": 1.0}


def test_the_best_threshold_of_a_case_by_hand():
    texts = {"a": "barn", "b": "x", "c": "in the 1990s", "d": "y"}
    odds = {"a": -3.0, "b": 2.0, "c": 0.5, "d": -1.0}
    found = squad.score_answers(TWO, texts, squad.NullOdds(odds, texts)).metrics
    # a alone, or a, d and c, of which c is right in F1 by two thirds.
    assert found["best_exact"] == 3 / 4 and found["best_f1"] == 3 / 4
    best = squad.best_thresholds(TWO, squad.NullOdds(odds, texts))
    assert best == {"best_exact": (0.75, -3.0), "best_f1": (0.75, -3.0)}
    odds["c"] = -2.0
    best = squad.best_thresholds(TWO, squad.NullOdds(odds, texts))
    assert best["best_exact"] == (0.75, -3.0)
    assert best["best_f1"] == (pytest.approx((1 + 2 / 3 + 2) / 4), -2.0)


@pytest.mark.parametrize("seed", range(4))
def test_the_best_threshold_is_that_of_trying_them_all(seed):
    rng = np.random.default_rng(seed)
    words = ["red barn", "barn", "a red mill", "mill", "the"]
    gold = [
        (str(i), [] if rng.random() < 0.5 else list(rng.choice(words[:4], 2)))
        for i in range(30)
    ]
    texts = {name: str(rng.choice(words)) for name, _ in gold}
    odds = {
        name: float(x) for (name, _), x in zip(gold, rng.normal(size=30), strict=True)
    }
    best = squad.best_thresholds(gold, squad.NullOdds(odds, texts))
    for metric, name in (("exact", "best_exact"), ("f1", "best_f1")):
        tried = {}
        for limit in [min(odds.values()) - 1, *odds.values()]:
            given = {k: x if odds[k] <= limit else "" for k, x in texts.items()}
            # "the" is an answer to the official search, if none to the score.
            tried[limit] = sum(
                (not given[k])
                if not truths
                else squad.score_answers(
                    [(k, truths), ("", [])], {k: given[k]}
                ).metrics[f"HasAns_{metric}"]
                for k, truths in gold
            )
        value, threshold = best[name]
        assert value == pytest.approx(max(tried.values()) / 30)
        assert tried[threshold] == pytest.approx(30 * value)


def test_impossible_questions_of_a_release_need_no_answer():
    gold = articles(a=["red barn"], b=[])
    gold[0]["paragraphs"][0]["qas"][1]["is_impossible"] = True
    metrics = squad.score(gold, {"a": "barn", "b": ""}).metrics
    assert metrics["NoAns_exact"] == 1 and metrics["HasAns_exact"] == 0


def release(domain, *aliases, **more):
    answer = {"NormalizedAliases": list(aliases), **more}
    pages = {
        "EntityPages": [{"Filename": "E.txt"}],
        "SearchResults": [{"Filename": "s/1.txt"}, {"Filename": "s/2.txt"}],
    }
    return {
        "Domain": domain,
        "Data": [{"QuestionId": "tc_1", "Answer": answer, **pages}],
    }


def test_wikipedia_counts_questions_and_the_web_their_documents():
    truths = ["ann lee", "Mrs. Lee"]
    wikipedia = release("Wikipedia", "ann lee", HumanAnswers=["Mrs. Lee"])
    assert triviaqa.truths_of(wikipedia) == {"tc_1": truths}
    web = triviaqa.truths_of(release("Web", "ann lee", HumanAnswers=["Mrs. Lee"]))
    keys = ["tc_1--E.txt", "tc_1--s/1.txt", "tc_1--s/2.txt"]
    assert web == dict.fromkeys(keys, truths)
    found = triviaqa.score(web, {"tc_1--s/1.txt": "The mrs Lee", "tc_1--E.txt": "lee"})
    assert found.metrics["exact_match"] == pytest.approx(1 / 3)
    assert found.metrics["f1"] == pytest.approx((1 + 2 / 3) / 3)


def test_marks_are_spaces_as_they_are_not_in_squad():
    assert triviaqa.normalize("AC/DC's _The_ ‘Back’") == "ac dc s back"


@pytest.mark.parametrize(
    "gold, message",
    [
        ({"Data": []}, "no field 'Domain'"),
        (release("Wikipedia"), r"\(tc_1\): at least one alias"),
        (release("Wikipedia", 3), "an alias: text expected"),
        ({"Domain": "Wikipedia", "Data": [{}]}, "record 0: no field 'QuestionId'"),
    ],
)
def test_bad_releases_are_named(gold, message):
    with pytest.raises(ValueError, match=message):
        triviaqa.truths_of(gold)


def test_there_must_be_something_to_score_against():
    with pytest.raises(ValueError, match="at least one question"):
        triviaqa.score({}, {})
