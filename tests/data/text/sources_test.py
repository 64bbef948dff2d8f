import gzip
import json
import os
import re
import string

import pytest
from golden_data import require_shared
from hypothesis import assume, given, settings, strategies as st

from etc_jax.data.text import sources
from etc_jax.data.text.corpus import Document

POEM = "First line\n  second line \n\n\nSecond  paragraph.\r\n\r\nThird.\n"
POEM_PARAGRAPHS = ("First line second line", "Second  paragraph.", "Third.")


def _write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def _jsonl(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_a_text_file_is_a_document_of_paragraphs(tmp_path):
    path = _write(tmp_path / "poems" / "one.txt", POEM)
    source = sources.read_documents(path)
    assert list(source) == [Document("poems/one.txt", POEM_PARAGRAPHS)]
    assert source.name == "poems"


def test_a_line_can_be_a_document(tmp_path):
    path = _write(tmp_path / "d" / "lines.txt", "One.\n\n Two. \nThree.")
    source = sources.read_documents(path, document_border="line")
    assert list(source) == [
        Document("d/lines.txt:1", ("One.",)),
        Document("d/lines.txt:3", ("Two.",)),
        Document("d/lines.txt:4", ("Three.",)),
    ]
    assert source.counts["d/lines.txt"].empty == 1


def test_a_row_is_a_document(tmp_path):
    content = _jsonl({"id": "a", "text": POEM}, {"id": 7, "text": "Two."}, {"text": ""})
    path = _write(tmp_path / "d" / "rows.jsonl", content.replace("\n{", "\n\n{", 1))
    source = sources.read_documents(path)
    assert list(source) == [
        Document("d/rows.jsonl:1", POEM_PARAGRAPHS),
        Document("d/rows.jsonl:3", ("Two.",)),
    ]
    assert source.counts["d/rows.jsonl"] == sources.FileCounts(
        documents=2, empty=1, chars=len(content) + 1
    )


def test_fields_and_names_are_chosen(tmp_path):
    rows = _jsonl({"id": "a/b", "body": "One."}, {"id": 7, "body": "Two."})
    path = _write(tmp_path / "d" / "rows.data", rows)
    source = sources.read_documents(
        path, format="jsonl", text_field="body", name_field="id", name="mine"
    )
    assert [d.name for d in source] == ["mine/a/b", "mine/7"]
    assert {d.source for d in source} == {"mine"}


def test_gzip_gives_the_documents_of_the_plain_file(tmp_path):
    for name, content in (("a.txt", POEM), ("b.jsonl", _jsonl({"text": POEM}))):
        plain = sources.read_documents(_write(tmp_path / "p" / name, content))
        packed = sources.read_documents(
            _write(tmp_path / "g" / f"{name}.gz", content), name="p"
        )
        assert list(plain) == list(packed)
        assert plain.counts == packed.counts


def test_files_come_in_a_fixed_order_each_once(tmp_path):
    for name in ("b/2.txt", "a/3.txt", "a/1.txt", "c.txt", "a/x.md", ".hidden.txt"):
        _write(tmp_path / "top" / name, name)
    top = tmp_path / "top"
    source = sources.read_documents([top / "c.txt", top / "**" / "*.txt"])
    assert [d.paragraphs[0] for d in source] == ["c.txt", "a/1.txt", "a/3.txt"] + [
        "b/2.txt"
    ]
    names = [d.name for d in source]
    assert names == ["top/c.txt", "top/a/1.txt", "top/a/3.txt", "top/b/2.txt"]


@pytest.mark.parametrize("border", ["file", "line"])
def test_files_without_any_text_are_named(tmp_path, border):
    paths = [_write(tmp_path / f"{i}.txt", " \n\n \t\n") for i in range(5)]
    named = f"{re.escape(str(paths[0]))}, .*2.txt and 2 more, only white space"
    with pytest.raises(ValueError, match=f"no text in {named}"):
        list(sources.read_documents(paths, document_border=border))
    text = _write(tmp_path / "z.txt", "One.")
    found = sources.read_documents([*paths, text], document_border=border)
    assert [d.paragraphs for d in found] == [("One.",)]


def test_brackets_in_a_name_are_no_wildcard(tmp_path):
    path = _write(tmp_path / "d" / "a[1].txt", "One.")
    _write(tmp_path / "d" / "a1.txt", "Another.")
    assert [d.paragraphs for d in sources.read_documents(path)] == [("One.",)]


words = st.text(string.ascii_letters + " éßλ中\t", max_size=12)


@settings(max_examples=60, deadline=None)
@given(lines=st.lists(words, max_size=20), ending=st.sampled_from(["\n", "\r\n"]))
def test_every_line_appears_once(tmp_path_factory, lines, ending):
    folder = tmp_path_factory.mktemp("lines")
    text = ending.join(lines)
    _write(folder / "a.txt", text)
    _write(folder / "b.jsonl.gz", _jsonl({"text": text}))
    wanted = [line.strip() for line in lines if line.strip()]
    assume(wanted)
    for name, border in (("a.txt", "file"), ("a.txt", "line"), ("b.jsonl.gz", "file")):
        source = sources.read_documents(folder / name, document_border=border)
        got = [p for d in source for p in d.paragraphs]
        assert " ".join(got) == " ".join(wanted)
        if border == "line":
            assert got == wanted
        assert not any("\n" in p for p in got)


def test_illegible_characters_are_replaced_and_counted(tmp_path):
    # An invalid byte, a real U+FFFD, a NUL, and of an unfinished character one mark.
    content = b"a\xffb \xef\xbf\xbd c\0d \xe2\x82 e\n" + b"x" * 4000
    path = _write(tmp_path / "d" / "a.txt", content)
    source = sources.read_documents(path)
    (document,) = source
    assert document.paragraphs[0].startswith("a\ufffdb \ufffd c\ufffdd \ufffd e x")
    assert document.replaced_chars == 3
    assert source.counts["d/a.txt"].replaced_chars == 3
    assert "3 replaced" in source.report()


def test_escapes_that_are_no_text_are_replaced_and_counted(tmp_path):
    row = '{"text": "a\\u0000b\\ud800c\\ud83d\\ude00' + "x" * 4000 + '"}'
    source = sources.read_documents(_write(tmp_path / "d" / "a.jsonl", row))
    (document,) = source
    assert document.paragraphs[0].startswith("a\ufffdb\ufffdc\U0001f600xx")
    assert document.replaced_chars == 2 == source.counts["d/a.jsonl"].replaced_chars


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
def test_too_many_illegible_characters_are_an_error(tmp_path, name):
    def content(legible):
        text = b"x" * legible + b"\xff\0"
        return b'{"text": "' + text + b'"}\n' if name == "a.jsonl" else text

    path = _write(tmp_path / name, content(2100))
    assert [d.replaced_chars for d in sources.read_documents(path)] == [2]
    path = _write(tmp_path / name, content(1000))
    message = rf"{re.escape(str(path))}: 2 of \d+ characters \(0.20%\) are NUL or no"
    with pytest.raises(ValueError, match=f"{message}.*at most 0.10%.*UTF-8"):
        list(sources.read_documents(path))
    assert list(sources.read_documents(path, max_replaced_share=0.01))


def test_another_encoding_is_an_error(tmp_path):
    path = _write(tmp_path / "a.txt", "some text".encode("utf-16"))
    with pytest.raises(ValueError, match="a.txt: it begins with the .* UTF-16"):
        list(sources.read_documents(path))


def test_a_byte_order_mark_is_no_text(tmp_path):
    path = _write(tmp_path / "a.txt", "One.".encode("utf-8-sig"))
    assert [d.paragraphs for d in sources.read_documents(path)] == [("One.",)]


@pytest.mark.parametrize(
    "line, message",
    [
        ("{broken", r"rows.jsonl:2: not JSON \(Expecting property name .*"),
        ("[" * 100_000, r"rows.jsonl:2: not JSON \(nested too deeply"),
        ('["text"]', "rows.jsonl:2: expected a JSON object, got list"),
        (
            '{"id": 1, "body": "x"}',
            "rows.jsonl:2: no field 'text', there are 'id', 'body'; set text_field",
        ),
        (
            '{"text": ["x"]}',
            "rows.jsonl:2: field 'text' is list, expected a string; .* set text_field",
        ),
        ('{"text": null}', "rows.jsonl:2: field 'text' is NoneType, expected a string"),
        (
            '{"text": "x", "id": 1.5}',
            "rows.jsonl:2: field 'id' is float, expected a string or integer",
        ),
    ],
)
def test_a_bad_row_is_named(tmp_path, line, message):
    good = _jsonl({"text": "One.", "id": 1})
    path = _write(tmp_path / "rows.jsonl", good + line + "\n")
    name_field = "id" if '"id": 1.5' in line else None
    source = iter(sources.read_documents(path, name_field=name_field))
    assert next(source).paragraphs == ("One.",)
    with pytest.raises(ValueError, match=message):
        next(source)


def test_no_matching_file_is_an_error(tmp_path):
    message = f"no file matches '\\*.txt' in folder {re.escape(str(tmp_path))}, which e"
    with pytest.raises(FileNotFoundError, match=message):
        sources.read_documents(tmp_path / "*.txt")
    with pytest.raises(FileNotFoundError, match="gone, which does not exist"):
        sources.read_documents(tmp_path / "gone" / "a.txt")
    with pytest.raises(FileNotFoundError, match=r"is a folder; give the files in it"):
        sources.read_documents(tmp_path)
    with pytest.raises(ValueError, match="'s3://b/a.txt'; expected a path of"):
        sources.read_documents("s3://b/a.txt")
    with pytest.raises(ValueError, match="no patterns given"):
        sources.read_documents([])


def test_options_are_checked(tmp_path):
    path = _write(tmp_path / "a.csv", "x")
    with pytest.raises(ValueError, match=r"a.csv: the ending '.csv' does not tell"):
        sources.read_documents(path)
    with pytest.raises(ValueError, match="format is 'csv'; expected one of auto, text"):
        sources.read_documents(path, format="csv")
    with pytest.raises(ValueError, match="document_border is 'page'; expected one of"):
        sources.read_documents(path, format="text", document_border="page")


def test_two_files_of_one_name_are_an_error(tmp_path):
    _write(tmp_path / "d" / "a.txt", "x")
    _write(tmp_path / "d" / "a.txt.gz", "x")
    with pytest.raises(ValueError, match="a.txt and .*a.txt.gz would both be named"):
        sources.read_documents(tmp_path / "d" / "*")


@pytest.mark.parametrize("damage", ["cut", "flipped", "plain", "empty"])
def test_a_broken_gzip_file_is_named(tmp_path, damage):
    path = _write(tmp_path / "a.txt.gz", "".join(f"line {i}\n" for i in range(9999)))
    data = bytearray(path.read_bytes())
    if damage == "cut":
        data = data[:-100]
    elif damage == "flipped":
        data[len(data) // 2] ^= 0xFF
    else:
        data = b"plain text" if damage == "plain" else b""
    path.write_bytes(data)
    with pytest.raises(
        ValueError,
        match=r"(file cut short|broken gzip): .*/a.txt.gz: .*; fetch the file again",
    ):
        list(sources.read_documents(path))


def test_a_document_too_long_for_memory_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("ETC_JAX_MAX_RECORD_MB", "1")
    path = _write(tmp_path / "a.txt", f"{'a line of text ' * 1000}\n" * 300)
    with pytest.raises(ValueError, match="a.txt is one document of more than 4,000,00"):
        list(sources.read_documents(path))
    assert len(list(sources.read_documents(path, document_border="line"))) == 300


def test_description_depends_on_content_and_options_not_on_place(tmp_path):
    first = _write(tmp_path / "1" / "d" / "a.txt", "One.")
    second = _write(tmp_path / "2" / "d" / "a.txt", "One.")
    os.utime(second, (0, 0))
    described = sources.read_documents(first).describe()
    assert described == sources.read_documents(second).describe()
    assert json.loads(json.dumps(described)) == described
    lines = sources.read_documents(first, document_border="line").describe()
    second.write_text("Two.")
    others = [lines, sources.read_documents(second).describe()]
    assert described not in others and others[0] != others[1]


def test_equal_files_are_found_under_other_names(tmp_path):
    a = sources.read_documents(_write(tmp_path / "d" / "a.txt", "One.")).describe()
    _write(tmp_path / "e" / "b.txt", "One.")
    _write(tmp_path / "e" / "c.txt", "Two.")
    b = sources.read_documents(tmp_path / "e" / "*.txt").describe()
    assert sources.equal_files(a, b) == ["e/b.txt"]


def test_reading_again_counts_anew(tmp_path):
    source = sources.read_documents(_write(tmp_path / "d" / "a.txt", "One.\xe9"))
    first = list(source), source.report()
    assert first == (list(source), source.report())
    assert first[1].splitlines() == [
        "d/a.txt: 1 documents (0 empty), 5 chars, 0 replaced (0.0000%)",
        "total: 1 documents (0 empty), 5 chars, 0 replaced (0.0000%)",
    ]


def test_real_books_are_read_whole():
    folder = require_shared("data/books_pd")
    source = sources.read_documents(folder / "*.jsonl.gz", name_field="id")
    documents = list(source)
    rows = []
    for path in sorted(folder.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as handle:
            rows += [json.loads(line) for line in handle]
    assert [d.name for d in documents] == [f"books_pd/{row['id']}" for row in rows]
    for document, row in zip(documents, rows, strict=True):
        assert " ".join(document.paragraphs).split() == row["text"].split()
    assert sum(c.replaced_chars for c in source.counts.values()) == 0
