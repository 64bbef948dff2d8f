"""Texts a line and JSON lines, as people's programs write them."""

import gzip
import io
import re
import sys

import pytest

from etc_jax.data.input_files import BadRecordError
from etc_jax.datasets.tables import Row
from etc_jax.datasets.texts import read_texts

PLAIN = b"red green\n\nblue\n"
WANT = [
    ("{0}, line 1", Row({"x": "red green"}, "{0}:1")),
    ("{0}, line 2", Row({"x": ""}, "{0}:2")),
    ("{0}, line 3", Row({"x": "blue"}, "{0}:3")),
]


def read(tmp_path, monkeypatch, name, content):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(content)
    return list(read_texts(name, "x", lambda row: row))


def named(name):
    return [
        (where.format(name), r._replace(name=r.name.format(name))) for where, r in WANT
    ]


@pytest.mark.parametrize(
    "name, content",
    [
        ("a.txt", PLAIN),
        ("a", b"\xef\xbb\xbf" + PLAIN),
        ("a.txt", PLAIN.replace(b"\n", b"\r\n")),
        ("a.txt", b" red green\t\n   \nblue"),
        ("a.txt.gz", gzip.compress(PLAIN, mtime=0)),
    ],
)
def test_each_line_is_a_text_however_it_was_written(
    tmp_path, monkeypatch, name, content
):
    assert read(tmp_path, monkeypatch, name, content) == named(name)


def test_standard_input_has_a_text_a_line(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PLAIN)))
    wheres, rows = zip(*read_texts("-", "x", lambda row: row), strict=True)
    assert wheres[0] == "standard input, line 1" and rows == tuple(
        row for _, row in named("-")
    )


def test_nothing_but_a_line_feed_ends_a_line(tmp_path, monkeypatch):
    text = "red\rgreen\u2028blue\u0085black\x0cwhite"
    [(_, row)] = read(tmp_path, monkeypatch, "a.txt", f"{text}\n".encode())
    assert row.values == {"x": text}


def test_objects_of_json_lines_come_with_their_line(tmp_path, monkeypatch):
    lines = b'\xef\xbb\xbf{"x": "red\\u2028green", "id": 3}\n\n[\n{"y": 1}\n'
    first, broken, last = read(tmp_path, monkeypatch, "a.jsonl", lines)
    assert first == (
        "a.jsonl, line 1",
        Row({"x": "red\u2028green", "id": 3}, "a.jsonl:1"),
    )
    assert broken[0] == "a.jsonl, line 3" and broken[1].kind == "broken line"
    assert last == ("a.jsonl, line 4", Row({"y": 1}, "a.jsonl:4"))


@pytest.mark.parametrize(
    "line, said",
    [
        (b"caf\xe9", "not UTF-8: a.txt: line 2: 'utf-8' codec can't decode byte 0xe9"),
        (b"a\0b\0", "NUL byte: a.txt: line 2: 2 in it, expected text in UTF-8"),
    ],
)
def test_a_line_that_is_no_text_costs_no_other(tmp_path, monkeypatch, line, said):
    content = b"red\n" + line + b"\nblue\n"
    (_, first), (where, error), (_, last) = read(
        tmp_path, monkeypatch, "a.txt", content
    )
    assert first.values == {"x": "red"} and last == Row({"x": "blue"}, "a.txt:3")
    assert where == "a.txt" and str(error).startswith(said)


@pytest.mark.parametrize(
    "name, content, said",
    [
        ("a.txt", "red\n".encode("utf-16"), "file not in UTF-8: a.txt: .* UTF-16"),
        ("a.txt", "red\n".encode("utf-16-be"), "NUL byte: a.txt: line 1"),
        ("a.csv", b"\xfe\xff\0r\0\n", "file not in UTF-8: a.csv: .* UTF-16"),
        ("a.jsonl", "{}\n".encode("utf-32"), "file not in UTF-8: a.jsonl.* UTF-32"),
        ("a.txt", b"red\rgreen\r", "no line feed: a.txt: carriage returns alone"),
        (
            "a.txt.gz",
            gzip.compress(PLAIN, mtime=0)[:-9],
            "file cut short: a.txt.gz, after line 3: ",
        ),
        ("a.txt.gz", PLAIN, "broken gzip: a.txt.gz: "),
    ],
)
def test_a_file_that_is_no_text_in_utf_8_is_named(
    tmp_path, monkeypatch, name, content, said
):
    try:
        found = [str(row) for _, row in read(tmp_path, monkeypatch, name, content)]
    except BadRecordError as error:
        found = [str(error)]
    assert any(re.match(said, x) for x in found), found
