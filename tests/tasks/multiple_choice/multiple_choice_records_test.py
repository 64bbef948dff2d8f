"""Questions with options from QuALITY's release, from tables and from JSON lines."""

import gzip
import json

import pytest

from etc_jax.datasets.records import BadRecordError, Problems
from etc_jax.tasks.multiple_choice import DATA_SET
from etc_jax.tasks.multiple_choice.decoding import option_of_text
from etc_jax.tasks.multiple_choice.inputs import ChoiceOptions
from etc_jax.tasks.multiple_choice.records import ChoiceColumns, parse, read
from etc_jax.tasks.multiple_choice.text_converter import pair_of

QUESTION = {
    "question": "Why did the frog dive?",
    "question_unique_id": "1_A_1",
    "options": ["It was cold", "A heron came", "It saw a fish"],
    "gold_label": 2,
    "difficult": 1,
}
OTHER = {**QUESTION, "question_unique_id": "1_A_2", "gold_label": 1, "difficult": 0}
ARTICLE = {"article_id": "1", "title": "The Pond", "article": "The frog sat."}


def no_note(kind, message):
    raise AssertionError(f"{kind}: {message}")


def lines(path, *values):
    path.write_text("".join(f"{json.dumps(x)}\n" for x in values), encoding="utf-8")
    return path


def records_of(path, problems=None, **options):
    return list(read([path], problems, options=ChoiceColumns(**options)))


@pytest.mark.parametrize("name", ["QuALITY.v1.0.1.htmlstripped.train", "a.jsonl"])
def test_an_article_of_the_release_is_a_record_a_question(name, tmp_path):
    path = lines(tmp_path / name, {**ARTICLE, "questions": [QUESTION, OTHER]})
    first, second = records_of(path)
    assert (first.id, second.id) == ("1_A_1", "1_A_2")
    assert first.options == ("It was cold", "A heron came", "It saw a fish")
    assert (first.label, first.is_hard) == (1, True)
    assert (second.label, second.is_hard) == (0, False)
    assert first.article == "The frog sat." and first.title == "The Pond"
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert records_of(packed) == [first, second]


def test_a_damaged_question_costs_one_record(tmp_path):
    bad = [{**QUESTION, "options": ["one"]}, {**QUESTION, "gold_label": 4}, 3, OTHER]
    values = [{**ARTICLE, "questions": bad}, {**ARTICLE, "questions": 5}, {}]
    path = lines(tmp_path / "a.dev", *values)
    problems = Problems()
    [record] = records_of(path, problems)
    assert record.id == "1_A_2" and problems.lost == 5
    assert problems.counts == {
        "too few options": 1,
        "wrong type": 3,
        "missing field": 1,
    }
    said = problems.report()
    assert "record 2: 'gold_label' is int '4', expected a whole number from 1 to 3" in (
        said
    )
    assert "no 'question'" in said
    with pytest.raises(BadRecordError, match="give it in a file named .jsonl"):
        parse(values[0], no_note)


def test_a_table_has_a_column_an_option(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(
        "nr,ask,text,A,B,C,right\n"
        "7,Who?,It was Ann.,Ann,Lee,,a\n"
        "8,Who?,It was Lee.,Ann,Lee,Tom,B\n"
        "9,Who?,It was Lee.,Ann,Lee,Tom,\n"
    )
    options = {
        "id_column": "nr",
        "question_column": "ask",
        "article_column": "text",
        "option_columns": ("A", "B", "C"),
        "label_column": "right",
        "label_is": "letter",
    }
    got = records_of(path, **options)
    assert [x.id for x in got] == ["7", "8", "9"]
    assert [x.options for x in got] == [("Ann", "Lee"), *[("Ann", "Lee", "Tom")] * 2]
    assert [x.label for x in got] == [0, 1, None]
    assert not any(x.is_hard for x in got)


@pytest.mark.parametrize(
    "kind, value, label",
    [
        ("number", 1, 0),
        ("number", "3", 2),
        ("index", 0, 0),
        ("index", "2", 2),
        ("letter", "c", 2),
        ("text", "A heron came", 1),
        ("number", None, None),
        ("letter", "", None),
        ("number", 0, "from 1 to 3"),
        ("number", True, "from 1 to 3"),
        ("number", "B", "from 1 to 3"),
        ("index", 3, "from 0 to 2"),
        ("letter", "D", "a letter from A to C"),
        ("letter", "ab", "a letter from A to C"),
        ("text", "a heron", "one of the 3 options"),
    ],
)
def test_labels_of_every_kind(kind, value, label):
    value = {**QUESTION, **ARTICLE, "gold_label": value}
    options = ChoiceColumns(label_is=kind)
    if isinstance(label, str):
        with pytest.raises(BadRecordError, match=label):
            parse(value, no_note, options=options)
    else:
        assert parse(value, no_note, options=options).label == label


def test_one_option_is_no_choice():
    with pytest.raises(ValueError, match="most_options is 1; expected 2 to 64"):
        ChoiceOptions(most_options=1)


def test_the_most_options_are_found_in_the_files(tmp_path):
    two = {**OTHER, **ARTICLE, "options": ["a", "b"]}
    path = lines(tmp_path / "a.jsonl", two, {**QUESTION, **ARTICLE})
    assert ChoiceOptions().completed([path]).most_options == 3
    assert ChoiceOptions(most_options=5).completed([path]).most_options == 5
    with pytest.raises(ValueError, match="no question to read; 0 records read"):
        ChoiceOptions().completed([lines(tmp_path / "b.jsonl", {})])


# --- as text --------------------------------------------------------------------------


def test_options_are_read_as_in_scrolls():
    pair = pair_of(parse({**QUESTION, **ARTICLE}, no_note))
    assert pair.prefix == (
        "Why did the frog dive?\n\n"
        " (A) It was cold\n (B) A heron came\n (C) It saw a fish\n\n"
    )
    assert (pair.input, pair.target) == ("The frog sat.", "A heron came")


def test_a_written_text_means_the_option_that_it_is_most_like():
    options = ("a red fish", "the heron", "fish")
    for text, number in (
        ("Heron!", 2),  # once normalised
        ("fish", 3),  # not the first with a fish in it
        ("it was a red thing", 1),
        ("the red heron came", 2),  # an F1 of 1/2, and 2/5 of the first
        ("nobody", 0),
        ("", 0),
    ):
        assert option_of_text(text, options) == number, text


def test_written_texts_are_scored_as_options():
    task = DATA_SET.in_format("text_to_text")
    values = [{**x, **ARTICLE} for x in (QUESTION, OTHER)]
    records = [parse(x, no_note) for x in values]
    windows = [type("W", (), {"record": x}) for x in records]
    answers = task.answers(["a heron  came.", "It saw a fish"], windows)
    assert answers == {"1_A_1": 2, "1_A_2": 3}
    metrics = task.score(
        [task.gold(x) for x in records], task.official(answers)
    ).metrics
    assert metrics == {"accuracy": 0.5, "hard_accuracy": 1.0}


def test_questions_that_are_missing_or_unread_are_wrong():
    records = [parse({**x, **ARTICLE}, no_note) for x in (QUESTION, OTHER)]
    gold = [*map(DATA_SET.gold, records), DATA_SET.unread_gold("x")]
    scores = DATA_SET.score(gold, {"1_A_1": 2, "x": 0})
    assert scores.metrics == {"accuracy": 1 / 3, "hard_accuracy": 1.0}
    assert scores.missing == {"option": ("1_A_2",)}
    assert "hard_accuracy" not in DATA_SET.score(gold[1:], {}).metrics
