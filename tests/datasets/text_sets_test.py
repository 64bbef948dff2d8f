"""Data sets of text to text: what is read of official files, and what is right."""

import dataclasses
import gzip
import json
import pathlib
import random

import mutations
import pytest
from multihop_samples import tokenizer
from text_sets import TEXT_SETS, lines_of

from etc_jax.datasets import pairs, task as task_lib
from etc_jax.datasets.pairs import PairOptions
from etc_jax.datasets.records import BadRecordError, Problems
from etc_jax.formats.text_to_text import TextToTextSizes, TextToTextWindow
from etc_jax.prediction.raw_records import read_inputs

SIZES = TextToTextSizes(input_length=32, target_length=8)
ROWS = pytest.mark.parametrize("name", TEXT_SETS)


def task_of(name):
    return task_lib.find_task(name).with_options(TEXT_SETS[name].options)


def records_of(name):
    task = task_of(name)
    return [task.parse(value, lambda *note: None) for value in TEXT_SETS[name].records]


@ROWS
def test_records_of_official_files_and_of_lines_are_the_same(name, tmp_path):
    task, expected = task_of(name), records_of(name)
    official = TEXT_SETS[name].write(tmp_path)
    problems = Problems()
    assert list(task.read([official], problems)) == expected
    assert not problems.counts and len(expected) > 1
    # As predict reads them.
    raw = list(read_inputs([str(official)], task.release))
    assert [task.parse(each.value, lambda *note: None) for each in raw] == expected
    own = tmp_path / "own.jsonl"
    own.write_text(lines_of(TEXT_SETS[name].records))
    assert list(task.read([own], None)) == expected


@ROWS
def test_right_texts_score_full_marks_and_none_is_wrong(name, tmp_path):
    if TEXT_SETS[name].package is not None:
        pytest.importorskip(TEXT_SETS[name].package)
    task, records = task_of(name), records_of(name)
    gold = [task.gold(record) for record in records]
    right = {record.id: record.references[-1] for record in records}
    assert task.score(gold, task.official(right)).metrics[task.metric] == 1
    none = {record.id: task.no_answer for record in records}
    assert task.score(gold, task.official(none)).metrics[task.metric] == 0
    bound = task.upper_bound([TEXT_SETS[name].write(tmp_path)], tokenizer(), SIZES)
    assert bound.scores.metrics[task.metric] == 1 and not bound.losses


@ROWS
def test_of_a_file_that_is_cut_short_the_records_before_are_read(name, tmp_path):
    task, expected = task_of(name), records_of(name)
    path = pathlib.Path(TEXT_SETS[name].write(tmp_path))
    whole = path.read_bytes()
    for share in (0.2, 0.5, 0.9):
        path.write_bytes(whole[: int(share * len(whole))])
        problems = Problems()
        records = list(task.read([path], problems))
        assert problems.counts and len(records) <= len(expected)
        first = [dataclasses.replace(x, others=()) for x in records]
        assert (
            first
            == [dataclasses.replace(x, others=()) for x in expected][: len(records)]
        )


@ROWS
def test_a_record_without_a_right_text_is_answered_and_not_learnt(name):
    task = task_of(name)
    value = {k: x for k, x in TEXT_SETS[name].records[0].items() if k != "target"}
    record = task.parse(value, lambda *note: None)
    [window] = task.features(record, tokenizer(), SIZES)
    assert task.gold(record) is None and window.unusable == "no target"


@ROWS
def test_what_is_wrong_with_files_is_named_by_file_and_nothing_else_is_raised(
    name, tmp_path
):
    task = task_of(name)
    for seed in range(12):
        rng = random.Random(f"{name} {seed}")
        folder = tmp_path / str(seed)
        folder.mkdir()
        official = pathlib.Path(TEXT_SETS[name].write(folder))
        file = rng.choice(sorted(x for x in folder.rglob("*") if x.is_file()))
        file.write_bytes(_spoilt(file, rng))
        problems = Problems()
        for record in task.read([official], problems):
            try:
                task.features(record, tokenizer(), SIZES)
            except BadRecordError as e:
                assert e.message
        messages = [x for some in problems.messages.values() for x in some]
        assert all(str(folder) in message for message in messages), messages
        faults = [x for x in read_inputs([str(official)], task.release) if x.fault]
        assert all(str(folder) in fault.where for fault in faults)


def _spoilt(file: pathlib.Path, rng: random.Random) -> bytes:
    """The bytes of a file, some of which, or one of whose values, are others."""
    data, is_packed = file.read_bytes(), file.suffix == ".gz"
    data = gzip.decompress(data) if is_packed else data
    try:
        texts = [data.decode()] if file.suffix == ".json" else data.decode().split("\n")
        number = rng.randrange(len(texts))
        value = json.loads(texts[number])
    except ValueError:
        data = mutations.damaged(data, rng)
    else:
        texts[number] = mutations.spelled(mutations.mutated(value, rng), rng)
        data = "\n".join(texts).encode("utf-8", "surrogatepass")
    return gzip.compress(data) if is_packed else data


# --- records --------------------------------------------------------------------------


def windows(record, **options) -> list[TextToTextWindow]:
    task = task_lib.find_task("text_to_text").with_options(options)
    return task.features(record, tokenizer(), SIZES)


def test_each_right_text_is_learnt_if_asked_for():
    record = pairs.parse(
        {"input": "the mill", "target": ["the old mill", "it burned"]}, None
    )
    first, second = windows(record, every_target=True)
    assert (first.input_tokens == second.input_tokens).all()
    assert (first.target_tokens != second.target_tokens).any()
    [alone] = windows(record)
    assert (alone.target_tokens == first.target_tokens).all()
    # A choice of what is learnt makes no other input.
    task = task_lib.find_task("text_to_text")
    asked = task.with_options({"every_target": True, "measure": "rouge"})
    assert asked.shaping(SIZES) == task.shaping(SIZES)
    assert asked.metric == "geometric_mean"


def test_lines_of_one_id_that_differ_in_more_are_no_one_record(tmp_path):
    path = tmp_path / "own.jsonl"
    line = {"id": "a", "input": "the mill", "target": "x"}
    path.write_text(lines_of([line, {**line, "input": "the frog"}]))
    with pytest.raises(
        BadRecordError, match=r"own.jsonl, record 2: 'a', first in .* 1"
    ):
        list(task_lib.find_task("text_to_text").read([path], None))


def test_records_before_a_break_come_out_before_the_error():
    def broken():
        yield 1, {"id": "a", "input": "x", "target": "y"}
        raise BadRecordError("file cut short", "here")

    records = pairs.joined_references(broken())
    assert next(records) == (1, {"id": "a", "input": "x", "target": "y"})
    with pytest.raises(BadRecordError, match="here"):
        next(records)


def test_a_prefix_stands_before_the_input_as_the_data_set_says():
    pair = pairs.parse({"input": "mill", "prefix": "who?"}, None, between="\n\n")
    assert pairs.joined(pair) == "who?\n\nmill"
    apart = pairs.encoded(pair, tokenizer(), PairOptions(prefix_length=4))
    assert apart.prefix_tokens


@pytest.mark.parametrize("target", [[], ["a", 3], 3, {"a": 1}])
def test_a_target_is_a_text_or_a_list_of_some(target):
    with pytest.raises(BadRecordError, match="'target"):
        pairs.parse({"input": "mill", "target": target}, None)
