"""SQuAD's official files: questions with places of answers, and what can be wrong."""

import gzip
import json

import pytest
from golden_data import require_shared

from etc_jax.datasets.records import Problems
from etc_jax.tasks.squad import records as squad

CONTEXT = "The Old Mill was built by Ann Lee. Ann Lee was a baker."
ANSWER = {"text": "Ann Lee", "answer_start": 26}


TABLE = {"id": "r1", "question": "Who was a baker?", "context": CONTEXT}


def asked(**changes):
    value = {"id": "q1", "question": "Who built the mill?", "answers": [ANSWER]}
    return {k: v for k, v in {**value, **changes}.items() if v is not None}


def paragraph(*questions, context=CONTEXT):
    return {"context": context, "qas": list(questions)}


def release(folder, *paragraphs, title="Mills"):
    path = folder / "dev.json"
    article = {"title": title, "paragraphs": list(paragraphs)}
    path.write_text(json.dumps({"data": [article], "version": "1.1"}))
    return path


def read_all(path):
    problems = Problems()
    return list(squad.read([path], problems)), problems


def test_a_record_keeps_every_field(tmp_path):
    second = {"text": "Ann Lee was a baker", "answer_start": 35}
    path = release(tmp_path, paragraph(asked(answers=[ANSWER, second])))
    [got], problems = read_all(path)
    assert got == squad.Record(
        id="q1",
        title="Mills",
        question="Who built the mill?",
        context=CONTEXT,
        answers=(("Ann Lee", 26), ("Ann Lee was a baker", 35)),
    )
    assert not problems.counts


@pytest.mark.parametrize("start", [25, -29, 500])
def test_an_answer_that_stands_elsewhere_is_named_and_has_no_place(tmp_path, start):
    wrong = {"text": "Ann Lee", "answer_start": start}
    path = release(tmp_path, paragraph(asked(answers=[wrong, ANSWER])))
    [got], problems = read_all(path)
    assert got.answers == (("Ann Lee", None), ("Ann Lee", 26))
    [message] = problems.messages["answer not at its place"]
    assert message.startswith(f"{path}, record 1: 'q1': 'Ann Lee' should be at")
    assert f"character {start}" in message


def test_places_are_characters_and_not_bytes(tmp_path):
    text = "Café 𝄞 Lee"
    answer = {"text": "Lee", "answer_start": 7}
    [got], problems = read_all(
        release(tmp_path, paragraph(asked(answers=[answer]), context=text))
    )
    assert got.answers == (("Lee", 7),) and not problems.counts


def test_a_bad_paragraph_is_named_by_its_place(tmp_path):
    path = release(
        *(tmp_path, {"context": CONTEXT}, paragraph(context=" ")),
        paragraph(asked(), "who?"),
    )
    got, problems = read_all(path)
    assert [r.id for r in got] == ["q1"]
    assert problems.counts == {"missing field": 1, "empty field": 1, "wrong type": 1}
    assert "record 4: str 'who?', expected an object" in problems.report()
    assert "article 1, paragraph 1: no 'qas'" in problems.report()
    assert "article 1, paragraph 2: 'context' is blank" in problems.report()


def test_a_bad_article_is_named_by_its_place(tmp_path):
    path = tmp_path / "dev.json"
    good = {"paragraphs": [paragraph(asked())]}
    path.write_text(json.dumps({"data": [3, {"title": "x"}, good]}))
    [got], problems = read_all(path)
    assert got.title == "" and problems.counts == {"wrong type": 1, "missing field": 1}
    assert "record 1: article 1: int '3'" in problems.report()
    assert "record 2: article 2: no 'paragraphs'" in problems.report()


@pytest.mark.parametrize(
    "text, kind",
    [
        ('{"version": "1.1"}', "not a JSON array"),
        ('{"data": []}', "not a JSON array"),
        ("{}", "not a JSON array"),
        ("[]", "broken JSON"),
        ('{"data": [{}', "file cut short"),
        ('{"data"', "file cut short"),
        ('{"data": 1 2}', "broken JSON"),
        ('{"version": 1} {', "text after the end"),
        ("", "file cut short"),
    ],
)
def test_files_of_something_else_are_named(tmp_path, text, kind):
    path = tmp_path / "dev.json"
    path.write_text(text)
    got, problems = read_all(path)
    assert not got and problems.counts[kind] == 1
    assert str(path) in problems.messages[kind][0]


def test_a_broken_archive_is_named(tmp_path):
    path = tmp_path / "dev.json.gz"
    path.write_bytes(gzip.compress(b'{"data": []}')[:-9])
    _, problems = read_all(path)
    assert problems.counts == {"file cut short": 1}


def test_members_come_in_order_whatever_surrounds_them(tmp_path, monkeypatch):
    # So that every value is cut by the end of what has been read.
    monkeypatch.setattr("etc_jax.data.input_files.CHUNK_BYTES", 1)
    value = {"a": [], "b": [1, [2], {"c": "],"}], "d": {"e": [3]}, "f": None, "g": 10}
    want = [("b", 1), ("b", [2]), ("b", {"c": "],"}), ("d", {"e": [3]})]
    want += [("f", None), ("g", 10)]
    for indent in (None, 1):
        path = tmp_path / "x.json"
        path.write_text(json.dumps(value, indent=indent))
        assert list(squad.read_members(path)) == want


@pytest.mark.parametrize("name", ["dev-v1.1.slice.json", "dev-v1.1.multiref.json.gz"])
def test_real_files_are_read_whole(name):
    path = require_shared("data/squad") / name
    packed = path.read_bytes()
    value = json.loads(gzip.decompress(packed) if name.endswith(".gz") else packed)
    want = [
        (
            q["id"],
            q["question"],
            p["context"],
            [tuple(a.values()) for a in q["answers"]],
        )
        for article in value["data"]
        for p in article["paragraphs"]
        for q in p["qas"]
    ]
    got, problems = read_all(path)
    assert not problems.counts and problems.read == len(want) > 700
    assert [(r.id, r.question, r.context) for r in got] == [x[:3] for x in want]
    for record, (*_, answers) in zip(got, want, strict=True):
        assert {frozenset(a) for a in record.answers} == {frozenset(a) for a in answers}


# --- SQuAD 2.0 ------------------------------------------------------------------------


def test_an_impossible_question_has_no_answers(tmp_path):
    plausible = {"plausible_answers": [ANSWER]}
    value = asked(answers=[], is_impossible=True, **plausible)
    [got], problems = read_all(release(tmp_path, paragraph(value)))
    assert got.answers == () and not problems.counts
    _, problems = read_all(release(tmp_path, paragraph(asked(is_impossible=True))))
    assert problems.counts == {"impossible with answers": 1}


def test_a_real_file_of_squad_2_is_read_whole():
    path = require_shared("data/squad/dev-v2.0.slice.json.gz")
    value = json.loads(gzip.decompress(path.read_bytes()))
    every = [q for a in value["data"] for p in a["paragraphs"] for q in p["qas"]]
    got, problems = read_all(path)
    assert not problems.counts and len(got) == len(every)
    none = [q["id"] for q in every if q["is_impossible"]]
    assert [r.id for r in got if r.answers == ()] == none and len(none) > 100


# --- rows of one's own files ----------------------------------------------------------


def rows_of(folder, *rows, name="own.jsonl", **columns):
    path = folder / name
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    problems = Problems()
    options = squad.SquadOptions(**columns)
    return list(squad.read([path], problems, options=options)), problems


def test_a_csv_is_read_by_the_names_of_its_columns(tmp_path):
    path = tmp_path / "own.csv"
    text = 'q,text,a,at\nWho?,"Mill, by ""Ann""\nLee.",Ann,10\nWhy?,It was.,,\n'
    path.write_text(text)
    columns = {"question_column": "q", "context_column": "text", "answer_column": "a"}
    options = squad.SquadOptions(**columns, start_column="at")
    problems = Problems()
    first, second = squad.read([path], problems, options=options)
    assert first.context == 'Mill, by "Ann"\nLee.' and first.answers == (("Ann", 10),)
    assert (first.id, second.id, second.answers) == ("own.csv:1", "own.csv:2", ())
    assert problems.counts == {"field over several lines": 1}


@pytest.mark.parametrize(
    "row, answers",
    [
        ({}, None),
        ({"answer": "a baker"}, (("a baker", 47),)),  # which occurs once
        ({"answer": "Ann Lee", "answer_start": "35"}, (("Ann Lee", 35),)),
        ({"answer": ["Ann Lee", "baker"], "answer_start": [35, 49]}, 2),
        ({"answer": None}, ()),
        ({"answer": []}, ()),
        # As files of Hugging Face's datasets and official questions have it.
        ({"answers": {"text": ["baker"], "answer_start": [49]}}, (("baker", 49),)),
        ({"answers": {"text": [], "answer_start": []}}, ()),
        ({"answers": [ANSWER]}, (("Ann Lee", 26),)),
    ],
)
def test_answers_of_a_row(tmp_path, row, answers):
    [got], problems = rows_of(tmp_path, {**TABLE, **row})
    assert not problems.counts and got.id == "r1"
    if answers == 2:
        answers = (("Ann Lee", 35), ("baker", 49))
    assert got.answers == answers


@pytest.mark.parametrize(
    "row, said",
    [
        ({"answer": "Ann Lee"}, "'Ann Lee' is 2 times in the context; expected once"),
        ({"answer": "Bob"}, "'Bob' is 0 times in the context"),
        ({"answer": "Ann Lee", "answer_start": "3"}, "should be at character 3"),
    ],
)
def test_an_answer_without_a_place_is_named_and_kept_for_the_score(tmp_path, row, said):
    [got], problems = rows_of(tmp_path, {**TABLE, **row})
    assert [a.start for a in got.answers] == [None] and said in problems.report()


def test_a_missing_column_is_told_the_others(tmp_path):
    _, problems = rows_of(tmp_path, TABLE, context_column="text")
    assert "no 'text'; fields are: context, id, question" in problems.report()
