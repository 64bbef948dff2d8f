import dataclasses
import gzip
import json
import tracemalloc

import pytest
from hypothesis import given, settings, strategies as st

from etc_jax.data import input_files
from etc_jax.datasets.fields import LIST, STRING, Fields
from etc_jax.datasets.records import BadRecordError, Problems, read_array, read_records

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@dataclasses.dataclass(frozen=True)
class Thing:
    id: str
    size: int


def parse(value, note):
    fields = Fields(value)
    if fields.get("id", STRING) == "odd":
        note("odd thing", "its id")
    return Thing(fields.text("id"), len(fields.get("size", LIST)))


def written(tmp_path, text: str):
    path = tmp_path / "file.json"
    path.write_text(text, encoding="utf-8")
    return path


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(JSON, max_size=6),
    indent=st.sampled_from([None, 2]),
    ascii_only=st.booleans(),
    chunk=st.integers(1, 40),
)
def test_any_array_comes_out_whatever_the_chunk(
    tmp_path_factory, values, indent, ascii_only, chunk
):
    path = tmp_path_factory.mktemp("array") / "x.json"
    text = json.dumps(values, indent=indent, ensure_ascii=ascii_only)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(input_files, "CHUNK_BYTES", chunk)
        try:
            got = list(read_array(path))
        except BadRecordError as e:
            assert e.kind == "broken JSON" and "utf-8" in e.message
            with pytest.raises(UnicodeDecodeError):
                path.read_text(encoding="utf-8")
            return
    assert got == list(enumerate(values, start=1))


def test_a_gzipped_file_and_one_with_a_byte_order_mark_are_read(tmp_path):
    packed = tmp_path / "x.json.gz"
    packed.write_bytes(gzip.compress(b"[1, 2]"))
    marked = tmp_path / "y.json"
    marked.write_bytes(b"\xef\xbb\xbf[3]")
    assert [v for _, v in read_array(packed)] == [1, 2]
    assert [v for _, v in read_array(marked)] == [3]


@pytest.mark.parametrize(
    "text, kind, number, message",
    [
        ('[{"a": 1}, {"b": [1, 2', "file cut short", 1, "Expecting ','"),
        ('[{"a": 1}, "unfinis', "file cut short", 1, "Unterminated string"),
        ('[{"a": 1},', "file cut short", 1, "the end in line 1, expected a value"),
        ('[{"a": 1}', "file cut short", 1, "the end in line 1, expected ','"),
        ("[", "file cut short", 0, "the end in line 1, expected a value"),
        ('[{"a": 1} {"b": 2}]', "broken JSON", 1, "'{' in line 1, expected ','"),
        ('{"a": 1}', "not a JSON array", 0, "begins with '{'"),
        ("", "not a JSON array", 0, "begins with ''"),
        ('[{"a": 1}] x', "text after the end", 1, "'x'"),
    ],
)
def test_a_broken_file_is_named_with_the_record(tmp_path, text, kind, number, message):
    path = written(tmp_path, text)
    seen = []
    with pytest.raises(BadRecordError) as error:
        seen += [v for _, v in read_array(path)]
        for _, value in read_array(path):
            seen.append(value)
    assert error.value.kind == kind
    assert str(path) in str(error.value) and message in str(error.value)
    assert f"record {number}" in str(error.value)


def test_records_before_the_break_come_out(tmp_path):
    path = written(tmp_path, '[{"id": "a", "size": []}, {"id": "b", "si')
    problems = Problems()
    assert [r.id for r in read_records([path], parse, problems)] == ["a"]
    assert problems.read == 1
    assert problems.counts == {"file cut short": 1}


def test_bytes_that_are_no_utf8_are_named(tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(b'["\xff\xfe"]')
    with pytest.raises(BadRecordError, match="broken JSON.*after record 0: no UTF-8"):
        list(read_array(path))


def gzipped_and_spoilt() -> bytes:
    whole = bytearray(gzip.compress(json.dumps(list(range(10_000))).encode()))
    whole[len(whole) // 2] ^= 0xFF
    return bytes(whole)


@pytest.mark.parametrize(
    "name, content, want",
    [
        ("spoilt.json.gz", gzipped_and_spoilt(), "broken JSON"),
        ("plain.json.gz", b"[1]", "broken gzip"),
        ("empty.json.gz", b"", "file cut short"),
        ("long_number.json", b"[" + b"1" * 5000 + b"]", "broken JSON"),
        ("deep.json", b"[" * 100_000, "broken JSON"),
    ],
)
def test_a_file_that_cannot_be_unpacked_or_read_is_counted(
    tmp_path, name, content, want
):
    path = tmp_path / name
    path.write_bytes(content)
    problems = Problems()
    assert list(read_records([path], parse, problems)) == []
    [(kind, [message])] = [
        (k, m) for k, m in problems.messages.items() if k != "wrong type"
    ]
    assert kind == want and str(path) in message


def test_an_id_that_comes_again_in_another_file_is_told_with_its_first_place(tmp_path):
    paths = [tmp_path / "one.json", tmp_path / "two.json"]
    for path, names in zip(paths, ("ab", "cb"), strict=True):
        path.write_text(json.dumps([{"id": name, "size": []} for name in names]))
    problems = Problems()
    assert [r.id for r in read_records(paths, parse, problems)] == ["a", "b", "c"]
    [message] = problems.messages["id twice"]
    assert f"'b', first in {paths[0]}, record 2" in message


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        list(read_records(tmp_path / "none.json", parse, Problems()))


def test_a_broken_record_is_told_without_reading_to_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(input_files, "CHUNK_BYTES", 16)
    path = written(tmp_path, '[{"a": 1, "b" 2}' + " " * 1000 + '"no end')
    with pytest.raises(BadRecordError, match="broken JSON.*record 0: .*':'.* line 1"):
        list(read_array(path))


BAD = [
    ({"size": []}, "missing field", "no 'id'; fields are: size"),
    ({"id": 3, "size": []}, "wrong type", "'id' is int '3', expected a string"),
    ({"id": " ", "size": []}, "empty field", "'id' is blank"),
    ({"id": "a", "size": {}}, "wrong type", "'size' is dict '{}', expected a list"),
    ("text", "wrong type", "str 'text', expected an object"),
]


@pytest.mark.parametrize("value, kind, message", BAD)
def test_a_bad_record_is_raised_with_its_place(tmp_path, value, kind, message):
    path = written(tmp_path, json.dumps([{"id": "ok", "size": []}, value]))
    with pytest.raises(BadRecordError) as error:
        list(read_records(path, parse))
    assert error.value.kind == kind
    assert str(error.value).startswith(f"{kind}: {path}, record 2: ")
    assert message in str(error.value)


def test_bad_records_are_counted_and_the_others_come_out(tmp_path):
    good = [{"id": f"g{i}", "size": []} for i in range(3)]
    twice = {"id": "g0", "size": [1]}
    path = written(tmp_path, json.dumps([*good, *(v for v, _, _ in BAD), twice]))
    problems = Problems(most=1)
    got = list(read_records([path], parse, problems))
    assert [r.id for r in got] == ["g0", "g1", "g2"]
    assert problems.read == 3
    assert problems.counts == {
        "wrong type": 3,
        "missing field": 1,
        "empty field": 1,
        "id twice": 1,
    }
    assert [len(m) for m in problems.messages.values()] == [1] * 4
    report = problems.report()
    assert report.startswith("3 records read, 6 problems\n  3 x wrong type")
    assert f"{path}, record 9: 'g0', first in {path}, record 1" in report


def test_an_id_is_refused_in_a_second_file_too(tmp_path):
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path in paths:
        path.write_text(json.dumps([{"id": "x", "size": []}]))
    with pytest.raises(BadRecordError, match="id twice.*b.json, record 1.*a.json"):
        list(read_records(paths, parse))


def test_what_is_odd_is_counted_and_the_record_stays(tmp_path):
    path = written(tmp_path, json.dumps([{"id": "odd", "size": []}]))
    problems = Problems()
    assert [r.id for r in read_records([path], parse, problems)] == ["odd"]
    assert problems.counts == {"odd thing": 1} and problems.read == 1
    assert [r.id for r in read_records([path], parse)] == ["odd"]


def test_memory_does_not_grow_with_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(input_files, "CHUNK_BYTES", 1 << 14)
    record = json.dumps({"id": "x", "text": "word " * 400})
    peaks = []
    for number in (200, 2000):
        path = written(tmp_path, "[" + ",\n".join([record] * number) + "]")
        tracemalloc.start()
        assert sum(1 for _ in read_array(path)) == number
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0] < 400_000
