"""SCROLLS's own form: archives, queries before a blank line, test files."""

import json
import zipfile

import pytest
from golden_data import require_shared
from text_sets import lines_of, scrolls_lines

from etc_jax.datasets import pairs
from etc_jax.datasets.json_lines import read_lines
from etc_jax.datasets.records import BadRecordError, Problems
from etc_jax.datasets.task import find_task
from etc_jax.scoring.scrolls import AVERAGED, METRICS, gold_of
from etc_jax.tasks.scrolls import records

INVENTED = "data/invented_samples/scrolls"
SLICES = (
    "gov_report/validation.slice",
    "summ_screen_fd/validation.slice",
    "qasper/validation.slice",
    "qmsum/validation.derived",
    "quality/validation.derived",
)


def read(name, *paths):
    return list(find_task(f"scrolls_{name}").read(paths))


def same_texts(name, path):
    """The records of a file, each of which is read as SCROLLS has it."""
    rows = [row for _, row in read_lines(path)]
    of_id = {row["id"]: row["input"] for row in rows}
    found = read(name, path)
    assert {record.id: pairs.joined(record) for record in found} == of_id
    assert all((x.prefix is None) == (name in SUMMARIES) for x in found)
    return rows, found


SUMMARIES = ("gov_report", "summ_screen_fd")


@pytest.mark.parametrize("part", SLICES)
def test_slices_are_read_character_for_character(part):
    path = require_shared(f"data/scrolls/{part}.jsonl.gz")
    rows, found = same_texts(part.partition("/")[0], path)
    task = find_task(f"scrolls_{part.partition('/')[0]}")
    assert [task.gold(record) for record in found] == gold_of(rows, str(path))
    if part.startswith("quality"):
        for record in found:
            question, _, options = record.prefix.partition("\n\n")
            letters = [line[:5] for line in options.split("\n")]
            assert letters == [" (A) ", " (B) ", " (C) ", " (D) "] and question
            assert record.target in [line[5:] for line in options.split("\n")]


@pytest.mark.parametrize("name", AVERAGED)
def test_each_task_of_the_archives_is_read(name, tmp_path):
    folder = require_shared(f"{INVENTED}/{name}")
    archive = tmp_path / f"{name}.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        for file in folder.iterdir():
            opened.write(file, f"{name}/{file.name}")
    rows, found = same_texts(name, folder / "validation.jsonl")
    assert read(name, archive / "validation.jsonl") == found
    task = find_task(f"scrolls_{name}")
    assert [task.gold(record) for record in found] == gold_of(rows, "rows")
    _, hidden = same_texts(name, archive / "test.jsonl")
    assert hidden and all(task.gold(record) is None for record in hidden)
    assert task.metric in ("geometric_mean", METRICS[name])


@pytest.mark.parametrize("suffix", ["", ".zip"])
def test_a_split_is_to_be_named(suffix, tmp_path):
    folder = require_shared(f"{INVENTED}/qasper")
    path = folder
    if suffix:
        path = tmp_path / "qasper.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for file in folder.iterdir():
                archive.write(file, f"qasper/{file.name}")
    with pytest.raises(BadRecordError, match=r"test\.jsonl, .*validation\.jsonl"):
        read("qasper", path)


def test_the_query_of_quality_ends_after_its_last_option():
    query = "Why?\n\n (A) a (D)\n (B) b\n\n (D) c\n (C) d\n (D) e"
    text = f"{query}\n\n\nOnce,\n\n (A) x\n (D) y\n\nz"
    assert text[: records.with_options(text)] == query


@pytest.mark.parametrize("name", sorted(AVERAGED.keys() - set(SUMMARIES)))
def test_an_input_without_a_query_is_named(name, tmp_path):
    [_, _, good] = scrolls_lines(name)
    bad = {**good, "id": "bad", "input": "The mill\nstands in Ton."}
    path = tmp_path / "dev.jsonl"
    path.write_text(lines_of([good, bad]))
    problems = Problems()
    [record] = find_task(f"scrolls_{name}").read([path], problems)
    assert record.id == good["id"] and problems.counts == {"no query": 1}
    assert "dev.jsonl, record 2" in problems.messages["no query"][0]


def test_an_output_that_is_no_text_is_named(tmp_path):
    path = tmp_path / "dev.jsonl"
    path.write_text(json.dumps({**scrolls_lines("qasper")[0], "output": ["a"]}))
    with pytest.raises(BadRecordError, match="record 1: 'output' is list"):
        read("qasper", path)
