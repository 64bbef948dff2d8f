"""Data sets of summaries: what in their releases is their own to get wrong."""

import pytest
from golden_data import require_shared
from multihop_samples import tokenizer
from natural_questions_samples import write_lines
from text_sets import SUMMARIES, write_files

from etc_jax.cli.prepare import prepare
from etc_jax.datasets import task as task_lib
from etc_jax.datasets.file_summary import summarised
from etc_jax.datasets.json_lines import read_lines
from etc_jax.datasets.records import BadRecordError, Problems
from etc_jax.formats.text_to_text import TextToTextSizes


def read(name, *paths):
    problems = Problems()
    records = list(task_lib.find_task(name).read(paths, problems))
    return [record.id for record in records], problems


# Those whose records have files of their own: what is removed costs the first record.
FILES = {
    "gov_report": "gov-report/crs/R00001.json",
    "booksum": "scripts/finished_summaries/notes/The Pond/section_0.txt",
    "summ_screen_fd": "SummScreen_raw/fd/e1.json",
    "summ_screen_tms": "SummScreen_raw/tms/e1.json",
}


@pytest.mark.parametrize("name", FILES)
def test_a_text_that_is_not_there_is_counted_named_and_lost(name, tmp_path):
    listed = SUMMARIES[name].write(tmp_path)
    (tmp_path / FILES[name]).unlink()
    ids, problems = read(name, listed)
    assert ids == [SUMMARIES[name].records[1]["id"]]
    assert problems.counts == {"missing file": 1} and problems.lost == 1
    [message] = problems.messages["missing file"]
    assert str(listed) in message and FILES[name] in message
    # Such a record is one of those that scores are means over.
    assert summarised(task_lib.find_task(name), [listed]).unreadable == 1


@pytest.mark.parametrize("name", FILES)
def test_a_list_without_its_folder_says_where_it_should_be(name, tmp_path):
    listed = SUMMARIES[name].write(tmp_path)
    folder = FILES[name].rpartition("/")[0].partition("/notes")[0]
    (tmp_path / folder).rename(tmp_path / "elsewhere")
    with pytest.raises(BadRecordError, match="not beside it or above; expected"):
        list(task_lib.find_task(name).read([listed], None))


@pytest.mark.parametrize("name", FILES)
def test_texts_that_changed_make_another_cache(name, tmp_path):
    listed = SUMMARIES[name].write(tmp_path)
    task, sizes = task_lib.find_task(name), TextToTextSizes(32, 8)

    def digest(out):
        cache = prepare(task, [listed], tokenizer(), tmp_path / out, sizes=sizes)
        return cache.header["made_by"]["files"]

    before = digest("one")
    path = tmp_path / FILES[name]
    path.write_text(path.read_text("utf-8").replace(".", "!"), encoding="utf-8")
    assert digest("two") != before


@pytest.mark.parametrize("folder", ["gov_report", "summ_screen_fd"])
def test_a_folder_of_records_is_read_whole(folder, tmp_path):
    SUMMARIES[folder].write(tmp_path)
    ids, problems = read(folder, (tmp_path / FILES[folder]).parent)
    more = ["e3"] if folder == "summ_screen_fd" else []
    expected = {record["id"] for record in SUMMARIES[folder].records} | {*more}
    assert {*ids} == expected and not problems.counts


def test_reports_of_both_agencies_have_the_text_of_the_official_samples():
    folder = require_shared("data/invented_samples/gov_report/gov-report/split_ids")
    task = task_lib.find_task("gov_report")
    crs, gao = task.read([folder / "crs_test.ids", folder / "gao_test.ids"], None)
    assert crs.input.split("\n") == [
        *("Canals charge tolls.", "History", "Tolls began early.", "Reform"),
        "Rates fell by half.",
    ]
    assert gao.input.split("\n") == [
        *("Background", "Paint keeps steel dry."),
        *("Each bridge is checked twice a year.", "Who checks"),
        *("Three offices share the work.", "Findings"),
        "Nine of ten checks were late.",
    ]
    assert gao.target == "Late checks cost money.\nNine of ten checks were late."


def test_sections_may_be_nested_deeply(tmp_path):
    section = {"section_title": "", "paragraphs": ["The end."], "subsections": []}
    for depth in range(300):
        section = {**section, "paragraphs": [f"{depth}"], "subsections": [section]}
    report = {"id": "a", "reports": section, "summary": ["Short."]}
    write_files(tmp_path, {"crs_x.ids": "a", "crs/a.json": report})
    [record] = task_lib.find_task("gov_report").read([tmp_path / "crs_x.ids"], None)
    assert record.input.split("\n") == [*map(str, range(299, -1, -1)), "The end."]


def test_papers_without_text_are_passed_over_and_counted(tmp_path):
    paper = {"article_id": "a", "article_text": [" "], "abstract_text": ["<S> x </S>"]}
    papers = [paper, {**paper, "article_id": "b", "article_text": []}]
    papers.append({**paper, "article_id": "c", "article_text": ["some text ."]})
    papers.append({**papers[-1], "article_id": "d", "abstract_text": ["<S>  </S>"]})
    path = write_lines(tmp_path / "test.txt", papers)
    ids, problems = read("arxiv", path)
    assert ids == ["c"]
    assert problems.counts == {"empty article": 2, "no abstract": 1}
    # What is empty in the release is nothing that a model was to write.
    assert problems.lost == 1


@pytest.mark.parametrize(
    "name, file, count",
    [
        ("arxiv", "scientific_papers/arxiv/val.txt.gz", 2),
        ("pubmed", "scientific_papers/pubmed/train.txt.gz", 2),
        ("squality", "squality/dev.slice.jsonl.gz", 75),
        (
            "booksum",
            "invented_samples/booksum/chapter_summary_aligned_val_split.jsonl",
            1,
        ),
    ],
)
def test_official_slices_are_read_without_a_problem(name, file, count):
    path = require_shared("data") / file
    records = list(task_lib.find_task(name).read([path], None))
    assert len(records) == count
    assert {len(record.references) for record in records} == {
        4 if name == "squality" else 1
    }
    assert not any("<S>" in text for x in records for text in x.references)


def test_alignments_without_their_texts_are_refused():
    path = require_shared("data/booksum/chapter_val.slice.jsonl")
    with pytest.raises(BadRecordError, match="expected all_chapterized_books, and"):
        list(task_lib.find_task("booksum").read([path], None))


def test_questions_of_a_story_without_answers_are_to_be_answered(tmp_path):
    [(_, passage)] = read_lines(SUMMARIES["squality"].write(tmp_path))
    for question in passage["questions"]:
        del question["responses"]
    path = write_lines(tmp_path / "test.jsonl", [passage])
    task = task_lib.find_task("squality")
    assert [task.gold(record) for record in task.read([path], None)] == [None, None]


def test_a_question_that_cannot_be_used_costs_no_other(tmp_path):
    [(_, passage)] = read_lines(SUMMARIES["squality"].write(tmp_path))
    passage["questions"][0]["responses"][1]["response_text"] = " "
    path = write_lines(tmp_path / "dev.jsonl", [passage])
    ids, problems = read("squality", path)
    assert ids == ["63833_2"] and problems.counts == {"empty field": 1}
