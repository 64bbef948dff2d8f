"""SQuAD with distractors, from official files to official files."""

import json

import pytest

from etc_jax.tasks.squad.distractors import main
from etc_jax.tasks.squad.records import read
from etc_jax.tasks.squad.text import pair_of
from etc_jax.tasks.synthetic import squad as synthetic
from etc_jax.tasks.synthetic.__main__ import main as synthetic_main

ARTICLES = 20


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("squad") / "some.json"
    records = synthetic.records(ARTICLES, seed=3)
    synthetic.MAKER.write(path, records)
    return path


def made(file, out, *argv):
    assert main([f"--out={out}", *argv, str(file)]) == 0
    return list(read([out]))


def test_invented_files_are_squads(file):
    values = json.loads(file.read_text())
    assert values["version"] == "1.1" and len(values["data"]) == ARTICLES
    records = list(read([file]))
    assert len(records) == ARTICLES * 4
    for record in records:
        [answer] = record.answers
        # Where the file says, and asked for by what stands before it.
        assert record.context[answer.start :].startswith(answer.text)
        said = record.question.removeprefix("what is ").removesuffix(" ?")
        assert f"{said} is {answer.text}" in record.context
    again = list(synthetic.records(5, seed=3, start=2))
    assert again == values["data"][2:7]
    pair = pair_of(records[0])
    assert pair.prefix == f"question: {records[0].question}"
    assert pair.input == f"context: {records[0].context}"


def test_sizes_say_how_many_articles_there_can_be(tmp_path, capsys):
    out = tmp_path / "few.json"
    few = ("--task=squad", "--count=40", f"--out={out}", "--facts=2", "--things=2")
    assert synthetic_main([*few, "--name_words=1", "--name_pool=5"]) == 0
    records = list(read([out]))
    assert len({r.title for r in records}) == 5
    assert {len(r.title.split()) for r in records} == {1}
    assert {r.question.split()[3] for r in records} == {"drink", "food"}
    assert synthetic_main([*few, "--overwrite", "--facts=3"]) == 2
    assert "facts is 3; expected a whole number from 1 to 2" in capsys.readouterr().err


def test_the_paragraph_of_the_answer_stands_among_others(file, tmp_path):
    plain = {r.id: r for r in read([file])}
    contexts = {r.context: r.title for r in plain.values()}
    found = {
        order: made(file, tmp_path / f"{order}.json", f"--order={order}")
        for order in ("ordered", "shuffled", "alone")
    }
    places = set()
    for order, records in found.items():
        assert [r.id for r in records] == list(plain)
        for record in records:
            before = plain[record.id]
            paragraphs = record.context.split("\n")
            assert len(paragraphs) == (1 if order == "alone" else 10)
            assert len(set(paragraphs)) == len(paragraphs)
            at = paragraphs.index(before.context)
            if order == "shuffled":
                places.add(at)
            else:
                assert at == 0
            [answer] = record.answers
            assert record.context[answer.start :].startswith(answer.text)
            first = sum(len(p) + 1 for p in paragraphs[:at])
            assert answer.start == first + before.answers[0].start
            for i, other in enumerate(paragraphs):
                if i != at:
                    assert contexts[other] != before.title
                    assert answer.text not in other
    assert len(places) == 10
    # Of one order the same paragraphs as of the other.
    for a, b in zip(found["ordered"], found["shuffled"], strict=True):
        assert sorted(a.context.split("\n")) == sorted(b.context.split("\n"))


def test_draws_depend_on_the_question_and_the_seed_alone(file, tmp_path):
    how = ("--order=shuffled", "--count=3")
    first, again, other = (
        made(file, tmp_path / f"{i}.json", *how, f"--seed={seed}")
        for i, seed in enumerate((0, 0, 1))
    )
    assert first == again
    assert sum(a != b for a, b in zip(first, other, strict=True)) > len(first) / 2


@pytest.mark.parametrize(
    "argv, message",
    [
        (["--order=ordered", "--count=40"], "fewer than 40; give more files, or lower"),
        (["--order=ordered", "--count=-1"], "--count is -1; expected 0 or more"),
    ],
)
def test_what_cannot_be_is_refused(file, tmp_path, capsys, argv, message):
    assert main([f"--out={tmp_path / 'out.json'}", *argv, str(file)]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_file_is_not_replaced_unless_asked(file, tmp_path, capsys):
    out = tmp_path / "out.json"
    out.write_text("mine")
    assert main([f"--out={out}", "--order=alone", str(file)]) == 2
    assert "exists" in capsys.readouterr().err and out.read_text() == "mine"
    assert main([f"--out={out}", "--order=alone", "--overwrite", str(file)]) == 0
