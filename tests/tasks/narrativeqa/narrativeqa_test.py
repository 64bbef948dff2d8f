"""NarrativeQA's release: stories cut out of pages, summaries, sets, what is wrong."""

import csv

import pytest
from golden_data import require_shared
from text_sets import STORY, narrativeqa_file

from etc_jax.datasets import pairs
from etc_jax.datasets.records import BadRecordError, Problems
from etc_jax.datasets.task import find_task
from etc_jax.tasks.narrativeqa import split, stories

TASK = find_task("narrativeqa")


def test_a_question_is_read_with_its_story_or_the_summary(tmp_path):
    path = narrativeqa_file(tmp_path)
    first, second = TASK.read([path])
    assert pairs.joined(first) == f"Who owned the mill?\n\n{STORY}"
    assert first.references == ["Ann Lee", "Lee, Ann"] and second.id == "m1:1"
    summaries = TASK.with_options({"text": "summary"})
    assert {x.input for x in summaries.read([path])} == {"A mill, burned."}
    assert [p.name for p in TASK.companions(path)] == [
        "documents.csv",
        "summaries.csv",
        "tmp",
    ]


@pytest.mark.parametrize(
    "content, story, lacking",
    [
        (
            b"Ads The\n Frog: x The end. y The end . z",
            "The\n Frog: x The end. y The end .",
            [],
        ),
        (b"Ads The end. The Frog: x The end.", "The Frog: x The end.", []),
        (b"\xef\xbb\xbfAds x The end. z", "Ads x The end.", ["story_start"]),
        (b"Ads The Frog: x z", "The Frog: x z", ["story_end"]),
        (b"A m\xfchle \x96 The Frog: \x93x", "The Frog: “x", ["story_end"]),
        (
            "A mühle <pre>The Frog: ä &amp; b<br/>c<STYLE>no</STYLE>"
            " The end.</pre>".encode(),
            "The Frog: ä & b\nc The end.",
            [],
        ),
    ],
)
def test_a_story_is_cut_out_of_its_page(content, story, lacking, tmp_path):
    path = tmp_path / "m.content"
    path.write_bytes(content)
    assert stories.read(path, "The Frog :", "The end .") == (story, lacking)


def test_marks_that_are_not_in_a_page_are_counted(tmp_path):
    path = narrativeqa_file(tmp_path)
    (tmp_path / "tmp" / "m1.content").write_text("THE MILL Ann Lee owned it.")
    problems = Problems()
    assert len(list(TASK.read([path], problems))) == 2
    assert problems.counts == {"mark not in the story": 2} and not problems.lost
    assert "story_end of 'm1:0'" in problems.messages["mark not in the story"][0]


def test_the_stub_of_the_release_is_read(tmp_path):
    """Three questions; of the stories there are only the beginnings."""
    folder = require_shared("data/narrativeqa")
    with open(folder / "qaps.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with open(folder / "documents.dummy.csv", encoding="utf-8", newline="") as file:
        starts = {x["document_id"]: x["story_start"] for x in csv.DictReader(file)}
    for name in ("tmp", "third_party"):
        (tmp_path / name).symlink_to(folder / name)
    (tmp_path / "documents.csv").symlink_to(folder / "documents.dummy.csv")
    assert split.main([f"--out={tmp_path}", str(folder / "qaps.csv")]) == 0
    for row in rows:
        problems = Problems()
        [record] = TASK.read([tmp_path / f"qaps_{row['set']}.csv"], problems)
        assert record.prefix == row["question"]
        assert record.references == [row["answer1"], row["answer2"]]
        start = starts[row["document_id"]].split()
        missing = problems.counts["mark not in the story"]
        assert missing == 2 or record.input.split()[:3] == start


def test_a_table_of_several_sets_is_to_be_divided(tmp_path, capsys):
    path = narrativeqa_file(tmp_path, "qaps.csv")
    path.write_text(path.read_text() + 'm1,test,Why?,so,"so,\nso",x,x,x\n')
    with pytest.raises(BadRecordError, match="'valid' and 'test'; divide it by python"):
        list(TASK.read([path]))
    assert split.main([f"--out={tmp_path}", str(path)]) == 0
    assert "0 of train, 2 of valid, 1 of test" in capsys.readouterr().out
    assert len(list(TASK.read([tmp_path / "qaps_valid.csv"]))) == 2
    [record] = TASK.read([tmp_path / "qaps_test.csv"])
    assert record.references == ["so", "so,\nso"]
    assert split.main([f"--out={tmp_path}", str(path)]) == 2
    assert "qaps_train.csv exists" in capsys.readouterr().err


def test_what_is_missing_is_named(tmp_path):
    path = narrativeqa_file(tmp_path)
    (tmp_path / "tmp" / "m1.content").unlink()
    problems = Problems()
    assert not list(TASK.read([path], problems)) and problems.lost == 2
    [message, _] = problems.messages["no story"]
    assert "record 1: there is no " in message and "--text=summary" in message
    (tmp_path / "documents.csv").write_text(
        "document_id,story_start,story_end\nx,a,b\n"
    )
    with pytest.raises(BadRecordError, match="unknown document: .*'m1' is not in doc"):
        list(TASK.read([path]))
    (tmp_path / "documents.csv").unlink()
    with pytest.raises(FileNotFoundError, match="documents.csv"):
        list(TASK.read([path]))


def test_a_set_that_there_is_not_is_named(tmp_path, capsys):
    path = narrativeqa_file(tmp_path, "qaps.csv")
    path.write_text(path.read_text().replace("valid", "dev"))
    assert split.main([f"--out={tmp_path}", str(path)]) == 2
    said = capsys.readouterr().err
    assert "record 1: 'set' is str 'dev', expected one of train, valid, test" in said
