"""Invented TriviaQA items: of the official form, answerable, and only by reading."""

import json
import random
import re

import pytest
from golden_data import require_shared
from synthetic_solver import _NAME, answer_hotpotqa, read

from etc_jax.datasets.records import Problems
from etc_jax.scoring import triviaqa as scoring
from etc_jax.tasks import triviaqa as tq
from etc_jax.tasks.synthetic.__main__ import main
from etc_jax.tasks.synthetic.triviaqa import TriviaqaSizes, records, write_release
from etc_jax.tasks.triviaqa.inputs import AnswerNames, words_of

TASK = tq.DATA_SET.in_format("sequence")

COUNT = 120


@pytest.fixture(scope="module")
def items():
    return list(records(COUNT, seed=1))


@pytest.fixture(scope="module")
def release(items, tmp_path_factory):
    folder = tmp_path_factory.mktemp("triviaqa")
    return write_release(folder, items, split="dev")


def context_of(item) -> list[tuple[str, list[str]]]:
    """(entity, sentences) of each document, by its text alone."""
    split = [re.split(r"(?<=\.)\s+", d["Text"]) for d in item["Documents"]]
    return [(re.match(_NAME, sentences[0])[0], sentences) for sentences in split]


def solved(item) -> tuple[str, str]:
    """(answer, document) of a question, by taking its templates apart."""
    record = {"question": item["Question"], "context": context_of(item)}
    answer, support = answer_hotpotqa(record)
    return answer, support[-1][0]


def test_fields_are_those_of_the_release(release):
    path = require_shared("data/triviaqa/qa/wikipedia-dev.json")
    real, made = (json.loads(p.read_text(encoding="utf-8")) for p in (path, release))
    assert list(real) == list(made)
    assert {k: v for k, v in made.items() if k != "Data"} == {
        k: v for k, v in real.items() if k != "Data"
    }
    [*_, question] = real["Data"]
    for item in made["Data"]:
        assert set(item) == set(question)
        assert set(item["Answer"]) == set(question["Answer"])
        assert set(item["EntityPages"][0]) == set(question["EntityPages"][0])
        for answer in (item["Answer"], question["Answer"]):
            normal = {scoring.normalize(alias) for alias in answer["Aliases"]}
            assert set(answer["NormalizedAliases"]) <= normal


def test_files_are_read_as_they_were_made(release, items):
    problems = Problems()
    got = list(tq.records.read([release], problems))
    assert not problems.counts and problems.read == COUNT
    assert got == [tq.records.parse(item, lambda kind, message: None) for item in items]


def test_following_the_relation_answers_everything(items):
    for item in items:
        answer, _ = solved(item)
        assert answer == item["Answer"]["Value"]


def test_the_answer_stands_far_into_a_document_and_more_than_once(items):
    parts = 0
    for item in items:
        _, title = solved(item)
        [text] = [d["Text"] for d in item["Documents"] if d["Title"] == title]
        names = AnswerNames(item["Answer"]["NormalizedAliases"])
        found = [text[a:b] for a, b in names.find(words_of(text))]
        assert len(found) == 3
        parts += len({*found}) > 1
        first = text.index(found[0])
        assert len(text[:first].split()) > 150
    assert parts > COUNT / 4


def test_how_often_a_name_is_told_says_nothing(items):
    """Knowing the right document and its names, the most frequent one is no help."""
    rng = random.Random(0)
    right = expected = 0
    for item in items:
        _, title = solved(item)
        [context] = [c for c in context_of(item) if c[0] == title]
        told = {fact.value for fact in read([context]).values()}
        values = sorted(value for value in told if not value.isdigit())
        text = " ".join(context[1])
        counts = [text.count(value.split()[0]) for value in values]
        most = [v for v, n in zip(values, counts, strict=True) if n == max(counts)]
        right += rng.choice(most) == item["Answer"]["Value"]
        expected += 1 / len(values)
    print(f"right: {right}, by chance: {expected:.1f} of {COUNT}")
    assert abs(right - expected) < 0.12 * COUNT


@pytest.mark.parametrize("sizes", [{"words": 3000}, {"hops": (2, 3), "contexts": 8}])
def test_items_of_other_sizes_are_answerable(sizes):
    for item in records(10, seed=0, sizes=TriviaqaSizes(**sizes)):
        assert solved(item)[0] == item["Answer"]["Value"]
        words = sum(len(d["Text"].split()) for d in item["Documents"])
        assert words >= sizes.get("words", 0)


def test_the_command_writes_a_release(tmp_path, capsys):
    args = ["--task=triviaqa", "--count=3", "--seed=4", "--split=train"]
    args.append(f"--out={tmp_path}")
    assert main(args) == 0
    path = tmp_path / "qa" / "wikipedia-train.json"
    assert str(path) in capsys.readouterr().out
    assert [r.id for r in tq.records.read([path])] == ["syn_4_0", "syn_4_1", "syn_4_2"]
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    (tmp_path / "file").touch()
    assert main([*args[:-1], f"--out={tmp_path}/file"]) == 2
