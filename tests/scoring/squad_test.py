"""SQuAD and TriviaQA: small cases, and what is said of bad input."""

import json

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


def test_files_are_scored_and_files_of_another_set_refused(tmp_path):
    gold, given = tmp_path / "dev.json", tmp_path / "p.json"
    gold.write_text(json.dumps({"version": "1.1", "data": GOLD}))
    given.write_text(json.dumps({"b": "42"}))
    assert squad.score_files(gold, given).metrics["f1"] == pytest.approx(1 / 3)
    given.write_text(json.dumps({"WH_1": "42"}))
    with pytest.raises(ValueError, match="p.json: .* got 1 for none"):
        squad.score_files(gold, given)
    gold.write_text(json.dumps(GOLD))
    with pytest.raises(ValueError, match="dev.json: an object expected, got an array"):
        squad.score_files(gold, given)


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
