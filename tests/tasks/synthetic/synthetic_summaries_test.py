"""Invented documents in the files of data sets of summaries."""

import pytest

from etc_jax.datasets import task as task_lib
from etc_jax.datasets.records import Problems
from etc_jax.tasks.synthetic.__main__ import main
from etc_jax.tasks.synthetic.long_documents import STATEMENTS

LINES = ("arxiv", "pubmed", "squality")
FOLDERS = {
    "gov_report": "valid",
    "booksum": "val",
    "summ_screen_fd": "dev",
    "summ_screen_tms": "dev",
}


def command(name, folder, split=None, **flags) -> list[str]:
    out = folder / (f"{name}.txt" if name in LINES else name)
    flags = {"task": name, "out": out, "count": 4, "words": 300, **flags}
    if name in FOLDERS:
        flags["split"] = split or FOLDERS[name]
    return [f"--{key}={value}" for key, value in flags.items()]


def read(name, folder, capsys, split=None, **flags):
    """The records of a data set in files that the command has written."""
    assert main(command(name, folder, split, **flags)) == 0
    # The next command ends with the file to prepare.
    path = capsys.readouterr().out.split()[-1]
    problems = Problems()
    records = list(task_lib.find_task(name).read([path], problems))
    assert not problems.counts, problems.report()
    return records


@pytest.mark.parametrize("name", [*LINES, *FOLDERS])
def test_what_is_written_is_read_as_the_release(name, tmp_path, capsys):
    records = read(name, tmp_path, capsys)
    assert len({record.id for record in records}) == len(records)
    if name == "squality":
        # One about all, and one about each of four facts.
        assert len(records) == 4 * 5
        assert {len(record.references) for record in records} == {len(STATEMENTS)}
        records = records[::5]
        assert {x.prefix for x in records} == {"What is the plot of the story?"}
    assert len(records) == 4
    for record in records:
        text, summary = (x.lower() for x in (record.input, record.target))
        assert 300 <= len(text.split()) < 700
        # All sentences are said, each fact once.
        facts = [x.split() for x in summary.replace(" .", ".").split(".") if x.strip()]
        assert len(facts) == 4
        for _, trade, _, goods in facts:
            assert text.count(f" {trade} ") == 1
            assert text.replace(".", " .").count(f" {goods} ") == 1


@pytest.mark.parametrize("name", FOLDERS)
def test_splits_lie_in_one_folder_and_replace_nothing(name, tmp_path, capsys):
    ids = [
        {record.id for record in read(name, tmp_path, capsys, split, start=start)}
        for split, start in ((None, 0), ("train", 4))
    ]
    assert list(map(len, ids)) == [4, 4] and not ids[0] & ids[1]
    assert main(command(name, tmp_path)) == 2
    assert "exists; give another folder" in capsys.readouterr().err
    # The files of the first split are those of other documents.
    assert main(command(name, tmp_path, "test", words=90)) == 2
    assert "has other text; give another folder" in capsys.readouterr().err
