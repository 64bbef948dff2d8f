"""Files of others are read within bounds, whatever they hold."""

import gzip
import hashlib
import io
import json
import os
import threading
import tracemalloc
import zipfile

import pytest

from etc_jax.data import digests, input_files
from etc_jax.data.bytes import stream as byte_stream
from etc_jax.data.input_files import (
    BadRecordError,
    lines,
    max_record_bytes,
    open_input,
    read_whole,
)
from etc_jax.data.text.sources import read_documents
from etc_jax.datasets.json_lines import read_lines
from etc_jax.datasets.json_objects import read_members
from etc_jax.datasets.records import read_array
from etc_jax.prediction.raw_records import read_inputs
from etc_jax.tasks.coreference.records import read_parts
from etc_jax.tasks.hyperpartisan.records import read_values

MB = 1_000_000
PART = b"#begin document (a); part 0\n"


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setenv(input_files.VARIABLE, "1")


def drained(read_fn, path) -> tuple[str, int]:
    """(the error, or the faults that came, peak of the memory)."""
    tracemalloc.start()
    told = []
    try:
        for item in read_fn(path):
            told += [str(x) for x in item if isinstance(x, BadRecordError)]
            told += [item.fault] if getattr(item, "fault", None) else []
            del item
    except ValueError as e:
        told.append(str(e))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return "\n".join(told), peak


def raw(path):
    return read_inputs([str(path)])


def documents(path):
    return ((document.name,) for document in read_documents([path]))


# What a file begins with, and what then goes on: one record without an end.
ENDLESS = {
    "array": (read_array, "a.json", b'[{"a": "', b"x" * 64),
    "object": (read_members, "a.json", b'{"data": [[', b"[1],"),
    "lines": (read_lines, "a.jsonl", b'{"a": "', b"x" * 64),
    "predict": (raw, "a.json", b'{"a": "', b"x" * 64),
    "predict_small": (raw, "a.json", b"[[", b"[],"),
    "columns": (read_parts, "a_conll", PART, b"a 0 0 w - - (1)\n"),
    "column": (read_parts, "a_conll", PART, b"x" * 64),
    "xml": (read_values, "articles-x.xml", b"<articles><article id='1'>", b"<p/>"),
    "xml_text": (read_values, "articles-x.xml", b"<articles><article>", b"x" * 64),
    "xml_deep": (read_values, "articles-x.xml", b"<articles>", b"<p>"),
    "jsonl": (documents, "b.jsonl", b'{"text": "', b"x" * 64),
    "text": (documents, "b.txt", b"", b"ab\n"),
}


@pytest.mark.parametrize("name", ENDLESS)
@pytest.mark.full(
    but=["array", "object", "lines", "predict*", "column*", "xml_*", "jsonl", "text"]
)
def test_a_record_without_an_end_is_an_error_and_takes_little_memory(name, tmp_path):
    read_fn, file, begin, more = ENDLESS[name]
    path = tmp_path / file
    path.write_bytes(begin + more * (6 * MB // len(more)))
    told, peak = drained(read_fn, path)
    kinds = ("too large", "too long", "elements 1001 deep")
    assert any(kind in told for kind in kinds), told[:300]
    if "deep" not in told:
        assert "1,000,000" in told or "4,000,000" in told
        assert input_files.VARIABLE in told
    # Small values take many times their text, and no more than that of one record.
    assert peak < 45 * MB


@pytest.mark.parametrize("name", ENDLESS)
@pytest.mark.full(
    but=["array", "object", "lines", "predict*", "column*", "xml_*", "jsonl", "text"]
)
def test_a_file_that_is_packed_as_no_text_is_ends_early(name, tmp_path, monkeypatch):
    monkeypatch.setattr(input_files, "_ALWAYS_UNPACKED", MB)
    read_fn, file, begin, more = ENDLESS[name]
    path = tmp_path / f"{file}.gz"
    path.write_bytes(gzip.compress(begin + more * (8 * MB // len(more)), 9))
    monkeypatch.setattr(input_files, "MOST_UNPACKED_PER_PACKED", 50)
    assert path.stat().st_size < MB // 20
    told, peak = drained(read_fn, path)
    bounds = ("packed too densely", "too large", "1001 deep")
    assert any(kind in told for kind in bounds), told[:300]
    assert peak < 45 * MB


def test_text_that_packs_well_is_read(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    rows = [json.dumps({"text": f"the same words in row {i}"}) for i in range(100_000)]
    path.write_bytes(gzip.compress("\n".join(rows).encode(), 9))
    assert sum(1 for _ in read_lines(path)) == 100_000


def test_a_zip_that_is_packed_as_no_text_is_refused(tmp_path):
    path = tmp_path / "enwik.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("enwik", bytes(32 * MB))
    with pytest.raises(ValueError, match="enwik.zip: .* bytes become 32,000,000"):
        byte_stream.open_bytes([str(path)])


def test_lines_after_one_that_is_too_long_are_read():
    file = io.BytesIO(b"\xef\xbb\xbfa\n" + b"x" * (3 * MB) + b"\nb\n" + b"y" * (2 * MB))
    found = list(lines(file))
    assert [number for number, _ in found] == [1, 2, 3, 4]
    assert found[0][1] == b"a\n" and found[2][1] == b"b\n"
    assert "line 2 has 3,000,001 bytes" in str(found[1][1])
    assert "line 4 has 2,000,000 bytes" in str(found[3][1])


def test_a_line_may_have_just_the_bound():
    for size, is_whole in ((MB, True), (MB + 1, False)):
        [(_, line)] = lines(io.BytesIO(b"x" * size))
        assert isinstance(line, bytes) == is_whole


@pytest.mark.parametrize("given", ["0", "-1", "x", "1.5", "²", "1" * 30])
def test_the_option_is_checked(given, monkeypatch):
    monkeypatch.setenv(input_files.VARIABLE, given)
    with pytest.raises(ValueError, match=f"{input_files.VARIABLE} is .*megabytes"):
        max_record_bytes()


def test_the_option_may_be_left_out_and_set(monkeypatch):
    monkeypatch.delenv(input_files.VARIABLE)
    assert max_record_bytes() == 64 * MB
    monkeypatch.setenv(input_files.VARIABLE, "200")
    assert max_record_bytes() == 200 * MB


def test_a_pipe_is_unpacked(tmp_path):
    path = tmp_path / "a.gz"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(gzip.compress(b"ab\n"),))
    writer.start()
    with open_input(path) as file:
        assert file.read() == b"ab\n"
    writer.join()


def test_small_files_are_read_whole_and_large_ones_named(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("\u00e9")
    assert read_whole(path) == "\u00e9"
    path.write_bytes(b"\xff")
    with pytest.raises(BadRecordError, match="not UTF-8"):
        read_whole(path)
    path.write_bytes(bytes(MB + 1))
    with pytest.raises(BadRecordError, match="text too large: the file has 1,000,001"):
        read_whole(path)


def test_messages_do_not_fill_the_screen():
    error = BadRecordError("kind", "x" * 10**6).at("file")
    assert len(str(error)) < 2100 and str(error).startswith("kind: file: xxx")


# --- files in zip archives ------------------------------------------------------------


def zipped(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("qasper")
        for name, text in members.items():
            archive.writestr(name.replace("_in_", "qasper/"), text)
    return path


LINES = {"_in_dev.jsonl": '{"id": 1}\n{"id": 2}\n', "_in_test.jsonl": '{"id": 3}\n'}


@pytest.mark.parametrize("name", ["dev.jsonl", "qasper/dev.jsonl"])
def test_a_file_in_an_archive_is_read_as_one_in_a_folder(tmp_path, name):
    path = zipped(tmp_path / "qasper.zip", **LINES)
    assert [x for _, x in read_lines(path / name)] == [{"id": 1}, {"id": 2}]
    content = LINES["_in_dev.jsonl"].encode()
    assert digests.digest(path / name) == (
        path.stat().st_size,
        hashlib.sha256(content).hexdigest(),
    )
    assert digests.sha256_of(path) == hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_one_file_of_an_archive_need_not_be_named(tmp_path):
    path = zipped(tmp_path / "a.zip", **{"_in_dev.jsonl": LINES["_in_dev.jsonl"]})
    with open_input(path) as file:
        assert file.read() == LINES["_in_dev.jsonl"].encode()


@pytest.mark.parametrize("name", ["", "train.jsonl"])
def test_the_files_of_an_archive_are_told(tmp_path, name):
    path = zipped(tmp_path / "qasper.zip", **LINES)
    named = f"{path}/qasper/dev.jsonl, {path}/qasper/test.jsonl"
    with pytest.raises(BadRecordError, match=f"qasper.zip holds .* one of: {named}"):
        list(read_lines(path / name))


def test_a_name_that_two_files_of_an_archive_have_is_refused(tmp_path):
    path = zipped(tmp_path / "a.zip", **LINES, **{"other/dev.jsonl": ""})
    with pytest.raises(BadRecordError, match="2 files 'dev.jsonl', .*a.zip/other/dev"):
        list(read_lines(path / "dev.jsonl"))
    assert not list(read_lines(path / "other/dev.jsonl"))


@pytest.mark.parametrize("place", [0.3, 0.6, 1.0])
def test_a_damaged_archive_is_named(tmp_path, place):
    rows = {"_in_dev.jsonl": "".join(f'{{"id": {i * i}}}\n' for i in range(3000))}
    path = zipped(tmp_path / "qasper.zip", **rows)
    whole = path.read_bytes()
    if place == 1:
        path.write_bytes(whole[:-30])
    else:
        at = int(place * len(whole))
        path.write_bytes(whole[:at] + bytes(99) + whole[at + 99 :])
    with pytest.raises(BadRecordError, match="broken zip: .*qasper.zip/dev.jsonl, aft"):
        list(read_lines(path / "dev.jsonl"))


def test_a_file_in_an_archive_that_is_packed_as_no_text_is_refused(tmp_path):
    path = zipped(tmp_path / "a.zip", **{"_in_dev.jsonl": bytes(32 * MB)})
    with pytest.raises(BadRecordError, match="bytes become 32,000,000"):
        list(read_lines(path / "dev.jsonl"))


def test_of_a_file_in_an_archive_no_more_than_a_line_is_held(tmp_path):
    rows = [f'{{"id": "{os.urandom(150).hex()}"}}\n' for _ in range(40_000)]
    path = zipped(tmp_path / "a.zip", **{"_in_dev.jsonl": "".join(rows)})
    del rows
    told, peak = drained(read_lines, path / "dev.jsonl")
    assert not told and peak < 6 * MB
