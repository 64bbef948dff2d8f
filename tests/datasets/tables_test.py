"""CSV, TSV and JSON lines with named columns, and everything that can be wrong."""

import csv
import gzip
import io
import json
import re

import pytest

from etc_jax.data.input_files import VARIABLE, BadRecordError
from etc_jax.datasets.records import Problems
from etc_jax.datasets.tables import Row, TableOptions, read_rows
from etc_jax.tasks.classification import records as classification

PLAIN = TableOptions()


def read(path, options=PLAIN):
    """(values of rows, errors) in order."""
    found = [row for _, row in read_rows(path, options)]
    rows = [row.values for row in found if isinstance(row, Row)]
    return rows, [str(row) for row in found if isinstance(row, BadRecordError)]


def write(folder, content, name="a.csv"):
    path = folder / name
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz"])
def test_what_the_csv_module_writes_is_read_back(tmp_path, end, mark, name):
    rows = [
        {"x": 'he said "no", then\nleft', "y": "日本 "},
        {"x": "", "y": "a\tb"},
        {"x": "c" * 200_000, "y": ","},  # longer than the module takes by default
    ]
    file = io.StringIO()
    delimiter = "\t" if "tsv" in name else ","
    writer = csv.DictWriter(file, ("x", "y"), delimiter=delimiter, lineterminator=end)
    writer.writeheader()
    writer.writerows(rows)
    before = csv.field_size_limit()
    path = write(tmp_path, mark + file.getvalue(), name)
    assert read(path) == (rows, []) and csv.field_size_limit() == before
    names = [row.name for _, row in read_rows(path, PLAIN)]
    assert names == [f"{name}:{i}" for i in (1, 2, 3)]


def test_json_lines_give_their_objects(tmp_path):
    values = [{"x": "a", "y": ["b", 1]}, {"x": None}]
    path = write(tmp_path, "\n".join(map(json.dumps, values)), "a.jsonl.gz")
    assert read(path) == (values, [])


def test_a_delimiter_may_be_said_and_quotes_may_be_text(tmp_path):
    path = write(tmp_path, 'x;y\n"a";b"\n', "a.txt")
    assert read(path, TableOptions(delimiter=";", quotes=False)) == (
        [{"x": '"a"', "y": 'b"'}],
        [],
    )
    tabs = write(tmp_path, 'x\ty\n"a\tb\n', "a.csv")
    said = TableOptions(delimiter="tab", quotes=False)
    assert read(tabs, said) == ([{"x": '"a', "y": "b"}], [])
    with pytest.raises(BadRecordError, match="unknown file: .*a.txt: expected .*csv"):
        read(path)


@pytest.mark.parametrize("wrong", ["tabs", '"', "\n"])
def test_a_delimiter_is_one_character(wrong):
    with pytest.raises(ValueError, match='delimiter is .*; expected one .* or "tab"'):
        TableOptions(delimiter=wrong)


@pytest.mark.parametrize(
    "damaged, said",
    [
        ("only one", "wrong number of columns: 1, expected 2: text, y z"),
        ("a,b,c", "wrong number of columns: 3, expected 2: text, y z"),
        ('"a"b,c', "broken row: line 3: ',' expected after '\"'"),
        ("a\rb,c", "broken row: line 3: new-line character seen in unquoted field"),
        (b"caf\xe9,c", "not UTF-8: line 3: 'utf-8' codec can't decode"),
        ("a\0b,c", "NUL byte: line 3: 1 in it, expected text in UTF-8"),
    ],
)
def test_a_damaged_row_is_named_and_the_others_are_read(tmp_path, damaged, said):
    damaged = damaged if isinstance(damaged, bytes) else damaged.encode()
    path = write(tmp_path, b"text,y z\na,b\n" + damaged + b"\n\nc,d\n")
    rows, errors = read(path)
    assert rows == [{"text": "a", "y z": "b"}, {"text": "c", "y z": "d"}]
    assert len(errors) == 1 and errors[0].startswith(said)
    assert [number for number, _ in read_rows(path, PLAIN)] == [1, 2, 3]


# A quote stands before the text t1 in line 3: what line 21 is, which of the texts t0 to
# t20 are read, and what is said.
STRAY = {
    "never closed": ("t19,n", [0, *range(2, 21)], "broken row: line 3: .* to line 22"),
    "closed by a field": ('"t19",n', [0, *range(2, 21)], "line 3: .* to line 21"),
    "closed like a field": (
        't19",n',
        [0, 20],
        "rows in a field: .* line 3 to line 21, and each of the 17 lines",
    ),
    "among other lines": ("t19", [0], "quote never closed: .* line 3 .* line 22"),
}


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
@pytest.mark.parametrize("line, left, said", STRAY.values(), ids=STRAY)
def test_a_stray_quote_takes_no_rows_without_a_word(tmp_path, name, line, left, said):
    lines = ["text,label", *(f"t{i},{'pn'[i % 2]}" for i in range(21))]
    lines[2], lines[20] = f'"{lines[2]}', line
    content = "".join(f"{line}\n" for line in lines)
    path = write(tmp_path, content.replace(",", "\t" if "tsv" in name else ","), name)
    found = []
    try:
        found += (row for _, row in read_rows(path, PLAIN))
    except BadRecordError as error:
        found.append(error)
    texts = [row.values["text"] for row in found if isinstance(row, Row)]
    assert texts == [f"t{i}" for i in left]
    [error] = [str(x) for x in found if isinstance(x, BadRecordError)]
    assert re.search(said, error) and "--no-quotes" in error


def test_fields_over_several_lines_are_counted_and_said(tmp_path):
    text = "a text, with a comma in each line,\n" * 50 + "\n'quoted ' too"
    table = f'text,label\none,p\n"{text}",n\nthree,p\n"a\nb",n\n'
    path = write(tmp_path, table)
    rows, errors = read(path)
    assert errors == [] and [row["label"] for row in rows] == ["p", "n", "p", "n"]
    assert rows[1]["text"] == text
    problems = Problems()
    records = classification.read([path], problems)
    assert [record.label for record in records] == ["p", "n", "p", "n"]
    assert problems.counts == {"field over several lines": 2} and problems.lost == 0
    first, _ = problems.messages["field over several lines"]
    assert first.endswith("a.csv, record 2: lines 3 to 54 are one row, by its quotes")


def test_a_line_that_is_no_text_does_not_cut_its_row_in_two(tmp_path):
    rows, errors = read(write(tmp_path, b'x,y\n"a\n\xe9\nb",c\nd,e\n'))
    assert rows == [{"x": "d", "y": "e"}]
    assert len(errors) == 1 and errors[0].startswith("not UTF-8: line 3:")


@pytest.mark.parametrize("length, line", [(400_000, 5), (1_100_000, 3)])
def test_a_row_that_is_too_large_ends_the_file(tmp_path, monkeypatch, length, line):
    monkeypatch.setenv(VARIABLE, "1")
    text = "z" * length
    path = write(tmp_path, f'x,y\na,b\n"{text}\n{text}\n{text}",b\nc,d\n')
    found = []
    said = (
        f"record too large: .*a.csv, after record 1: .*line {line} has 1,.*{VARIABLE}"
    )
    with pytest.raises(BadRecordError, match=said):
        found.extend(read_rows(path, PLAIN))
    assert [row.values for _, row in found] == [{"x": "a", "y": "b"}]


@pytest.mark.parametrize(
    "content, said",
    [
        ("", "broken header: .*a.csv, after record 0: no first line with names of col"),
        ("x,y,x\na,b,c\n", "names 'x' twice; .* a name of its own: x, y, x"),
        (b"caf\xe9,y\na,b\n", "broken header: .* line 1: 'utf-8' codec"),
    ],
)
def test_a_first_line_that_names_no_columns_ends_the_file(tmp_path, content, said):
    with pytest.raises(BadRecordError, match=said):
        read(write(tmp_path, content))


def test_a_compressed_file_that_is_cut_short_ends_after_its_rows(tmp_path):
    path = write(tmp_path, "x,y\n" + "a,b\n" * 3, "a.csv.gz")
    path.write_bytes(path.read_bytes()[:-6])
    found = []
    with pytest.raises(BadRecordError, match="file cut short: .*after record "):
        found.extend(read_rows(path, PLAIN))
