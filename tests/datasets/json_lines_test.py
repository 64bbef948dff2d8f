import dataclasses
import gzip
import json
import tracemalloc

import pytest
from natural_questions_samples import write_lines

from etc_jax.datasets import json_lines
from etc_jax.datasets.fields import Fields
from etc_jax.datasets.json_lines import read_line_records, read_lines
from etc_jax.datasets.records import BadRecordError, Problems


@dataclasses.dataclass(frozen=True)
class Thing:
    id: str


def parse(value, note):
    return Thing(Fields(value).text("id"))


def things(*names):
    return [{"id": name} for name in names]


def test_lines_come_out_in_order_plain_or_gzipped(tmp_path):
    values = [{"a": "\u2028 one line"}, [1], "x", None]
    for name in ("x.jsonl", "x.jsonl.gz"):
        path = write_lines(tmp_path / name, values)
        assert list(read_lines(path)) == list(enumerate(values, start=1))


def test_the_text_of_values_is_read_back_line_by_line(tmp_path):
    values = [{"a": "one\nline \u2028"}, [], "\ud800"]
    path = tmp_path / "x.jsonl"
    path.write_text(json_lines.text_of(values), encoding="utf-8")
    assert list(read_lines(path)) == list(enumerate(values, start=1))
    assert json_lines.text_of([]) == ""


def test_blank_lines_and_a_byte_order_mark_are_passed_over(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\n  \n{"a": 2}')
    assert list(read_lines(path)) == [(1, {"a": 1}), (4, {"a": 2})]


def test_a_broken_line_costs_one_record(tmp_path):
    path = write_lines(tmp_path / "x.jsonl", things("a"))
    with open(path, "ab") as file:
        file.write(b'{"id": "b"\n{"id": "\xff"}\n{"id": "c"}\n[' + b"[" * 100_000)
    problems = Problems()
    assert [r.id for r in read_line_records([path], parse, problems)] == ["a", "c"]
    assert problems.counts == {"broken line": 3}
    assert problems.messages["broken line"][0].startswith(f"{path}, record 2: ")
    with pytest.raises(BadRecordError, match="x.jsonl, record 2: .*one JSON object"):
        list(read_line_records([path], parse))


def test_a_damaged_file_gives_what_is_before_the_damage_and_the_next_file(tmp_path):
    whole = gzip.compress(json.dumps({"id": "a"}).encode() + b"\n", mtime=0)
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(whole + gzip.compress(b'{"id": "b"}\n' * 99)[:12])
    odd = tmp_path / "odd.jsonl.gz"
    odd.write_bytes(b'{"id": "z"}\n')
    last = write_lines(tmp_path / "last.jsonl", things("c", "a"))
    problems = Problems()
    found = [r.id for r in read_line_records([cut, odd, last], parse, problems)]
    assert found == ["a", "c"]
    assert problems.counts == {"file cut short": 1, "broken gzip": 1, "id twice": 1}
    assert f"first in {cut}, record 1" in problems.messages["id twice"][0]
    with pytest.raises(BadRecordError, match="fetch the file again"):
        list(read_line_records(odd, parse))


def test_a_line_without_an_end_is_not_read_into_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("ETC_JAX_MAX_RECORD_MB", "1")
    path = tmp_path / "x.jsonl"
    long = json.dumps({"id": "x" * 3_000_000})
    path.write_text(f'{{"id": "a"}}\n{long}\n{{"id": "b"}}\n{long}')
    problems, tracked = Problems(), []
    tracemalloc.start()
    for record in read_line_records([path], parse, problems):
        tracked.append((record.id, tracemalloc.get_traced_memory()[1]))
    tracemalloc.stop()
    assert [name for name, _ in tracked] == ["a", "b"] and problems.lost == 2
    assert tracked[-1][1] < 5_000_000
    first, second = problems.messages["line too long"]
    assert first.startswith(f"{path}, record 2: line 2 has 3,000,0")
    assert "1,000,000 are allowed" in first and "ETC_JAX_MAX_RECORD_MB" in first
    assert "line 4 has 3,000,0" in second


def test_a_missing_file_is_an_error_of_its_own(tmp_path):
    with pytest.raises(FileNotFoundError):
        list(read_line_records([tmp_path / "none.jsonl"], parse, Problems()))
