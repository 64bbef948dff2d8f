"""Words and tags from CoNLL's columns, CoNLL-U, JSON lines and texts with spans."""

import gzip
import json

import pytest

from etc_jax.datasets.records import BadRecordError, Problems, RefusedError
from etc_jax.tasks import token_classification
from etc_jax.tasks.token_classification.records import (
    TokenClassificationOptions,
    parse,
    read,
)

CONLL = """\
-DOCSTART- -X- O O

EU NNP I-NP I-ORG
# NN I-NP O

Ann NNP I-NP I-PER
Lee NNP I-NP I-PER

-DOCSTART- -X- O O

Ton NNP I-NP I-LOC
"""
CONLLU = """\
# global.columns = ID FORM UPOS MISC
# newdoc id = a
# sent_id = 1
1-2\tdu\t_\t_
1\tde\tADP\t_
2\tle\tDET\t_

# newdoc id = b
1\tNew York\tPROPN\t_
2.1\tx\tX\t_
"""


def no_note(kind, message):
    raise AssertionError(f"{kind}: {message}")


def written(tmp_path, text, name="a.conll"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def records_of(path, problems=None, **options):
    return list(read([path], problems, options=TokenClassificationOptions(**options)))


def test_documents_of_columns(tmp_path):
    first, second = records_of(written(tmp_path, CONLL))
    assert (first.id, second.id) == ("a.conll:1", "a.conll:2")
    assert first.sentences == (("EU", "#"), ("Ann", "Lee"))
    assert first.tags == (("I-ORG", "O"), ("I-PER", "I-PER"))
    assert second.sentences == (("Ton",),)
    packed = tmp_path / "b.txt.gz"
    packed.write_bytes(gzip.compress(CONLL.replace("\n", "\r\n").encode()))
    assert [x.tags for x in records_of(packed)] == [first.tags, second.tags]


def test_sentences_are_records_if_wanted_or_without_documents(tmp_path):
    want = [(("EU", "#"),), (("Ann", "Lee"),), (("Ton",),)]
    path = written(tmp_path, CONLL)
    assert [x.sentences for x in records_of(path, unit="sentence")] == want
    lines = CONLL.splitlines(keepends=True)
    path = written(tmp_path, "".join(x for x in lines if "DOCSTART" not in x))
    got = records_of(path)
    assert [x.sentences for x in got] == want
    assert [x.id for x in got] == ["a.conll:1", "a.conll:2", "a.conll:3"]


def test_columns_by_number_and_by_name(tmp_path):
    path = written(tmp_path, CONLL)
    chunks = records_of(path, tag_column="3")
    assert chunks[0].tags[0] == ("I-NP", "I-NP")
    swapped = records_of(path, word_column="-1", tag_column="1")
    assert swapped[1].sentences == (("I-LOC",),) and swapped[1].tags == (("Ton",),)
    path = written(tmp_path, CONLLU, "a.conllu")
    first, second = records_of(path, word_column="FORM", tag_column="UPOS")
    assert (first.sentences, first.tags) == ((("de", "le"),), (("ADP", "DET"),))
    # A cell between tabs may hold a space; words that are not written are no words.
    assert (second.sentences, second.tags) == ((("New York",),), (("PROPN",),))


def test_words_without_tags(tmp_path):
    [record] = records_of(written(tmp_path, "Ann\nLee\n"))
    assert record.sentences == (("Ann", "Lee"),) and record.tags is None
    untagged = records_of(written(tmp_path, CONLL), tag_column="none")
    assert all(x.tags is None for x in untagged)


@pytest.mark.parametrize(
    "text, options, said",
    [
        ("a X O\nb O\n", {"tag_column": "3"}, "line 2: 2 in 'b O', expected one with"),
        (
            "a O\n",
            {"tag_column": "ner"},
            "column of tags is 'ner'; expected its number",
        ),
        ("a O\n", {"tag_column": "0"}, "column of tags is '0'; expected its number"),
        ("a\t\n", {}, "line 1: no tags in column -1"),
    ],
)
def test_a_row_that_cannot_be_used_costs_its_record(text, options, said, tmp_path):
    path = written(tmp_path, f"{text}\nc X O\n")
    problems = Problems()
    found = records_of(path, problems, **options)
    assert said in problems.report() and "a.conll, record 1" in problems.report()
    assert len(found) == (0 if options.get("tag_column") in ("ner", "0") else 1)
    with pytest.raises(BadRecordError, match="a.conll, record 1"):
        records_of(path, None, **options)


@pytest.mark.parametrize("word, kind", [(b"\xff", "not UTF-8"), (b"\0", "NUL byte")])
def test_a_line_that_is_no_text_costs_its_sentence(word, kind, tmp_path):
    path = tmp_path / "a.conll"
    path.write_bytes(b"a O\n" + word + b" O\n\nb O\n")
    problems = Problems()
    [record] = records_of(path, problems)
    assert record.sentences == (("b",),) and record.id == "a.conll:2"
    assert problems.counts == {kind: 1} and "line 2: " in problems.report()


def test_json_lines_of_words(tmp_path):
    values = [
        {"id": 7, "tokens": ["a", "b"], "tags": ["O", "B-x"]},
        {"tokens": [["a"], [], ["b"]], "tags": [["O"], [], ["B-x"]]},
        {"tokens": ["c"]},
        {"tokens": ["a", "b"], "tags": ["O"]},
        {"tokens": "ab"},
        {"words": ["a"]},
    ]
    path = written(tmp_path, "".join(json.dumps(x) + "\n" for x in values), "a.jsonl")
    problems = Problems()
    got = records_of(path, problems)
    assert [x.id for x in got] == ["7", "a.jsonl:2", "a.jsonl:3"]
    assert got[1].sentences == (("a",), ("b",)) and got[1].tags == (("O",), ("B-x",))
    assert got[2].tags is None
    assert problems.counts == {
        "tags of other words": 1,
        "wrong type": 1,
        "missing field": 1,
    }
    other = {"id": "x", "words": ["a"], "ner": ["O"]}
    options = TokenClassificationOptions(word_column="words", tag_column="ner")
    assert parse(other, no_note, options=options).tags == (("O",),)


# --- texts with spans -----------------------------------------------------------------

TEXT = "Ann Lee owned it. She was born in Ton-on-Sea."


def of_text(spans, note=no_note):
    pytest.importorskip("nupunkt")
    return parse({"id": "x", "text": TEXT, "spans": spans}, note)


def test_spans_of_a_text_become_tags():
    want = {"start": 34, "end": 44, "label": "place"}
    record = of_text([want, [0, 7, "person"]])
    first, second = record.sentences
    assert first == ("Ann", "Lee", "owned", "it", ".")
    assert second[-6:] == ("Ton", "-", "on", "-", "Sea", ".")
    assert record.tags[0] == ("B-person", "I-person", "O", "O", "O")
    assert record.tags[1][-6:] == ("B-place", *["I-place"] * 4, "O")
    starts = [TEXT[a:b] for offsets in record.text_words.offsets for a, b in offsets]
    assert starts == [*first, *second]
    assert parse({"text": TEXT}, no_note).tags is None


def test_a_span_that_cuts_words_is_all_of_them():
    notes = []
    record = of_text([[1, 6, "person"]], lambda *note: notes.append(note))
    assert record.tags[0][:3] == ("B-person", "I-person", "O")
    [(kind, message)] = notes
    assert kind == "span not at the ends of words" and "'Ann Lee'" in message


@pytest.mark.parametrize(
    "spans, said",
    [
        ([[0, 99, "a"]], "expected 0 <= start < end <= 45"),
        ([[3, 3, "a"]], "expected 0 <= start < end"),
        ([[3, 4, "a"]], "holds none"),
        ([[0, 3, "a"], [0, 7, "b"]], "shares a word with one before it"),
        ([[0, 3]], "expected \\[start, end, label\\]"),
        ([{"start": 0, "end": 3}], "no 'spans\\[0\\].label'"),
        ({"start": 0}, "expected a list"),
    ],
)
def test_spans_that_cannot_be_tags_are_named(spans, said):
    with pytest.raises(BadRecordError, match=said):
        of_text(spans)


# --- tags of files --------------------------------------------------------------------


def completed(path, **options):
    return TokenClassificationOptions(**options).completed([path])


def test_tags_and_scheme_are_found_in_the_files(tmp_path):
    got = completed(written(tmp_path, CONLL))
    assert got.scheme == "iob1"
    kinds = ("LOC", "ORG", "PER")
    assert got.labels == tuple(
        sorted(["O", *(f"{p}-{k}" for p in "BI" for k in kinds)])
    )
    plain = completed(written(tmp_path, CONLL), tag_column="2")
    assert (plain.scheme, plain.labels) == ("plain", ("NN", "NNP"))
    assert plain.task_fields()["metric"] == "accuracy"
    assert got.task_fields()["metric"] == "f1"
    # What is completed already stays as it is.
    assert got.completed([written(tmp_path, CONLL)]) == got


@pytest.mark.parametrize(
    "text, options, said",
    [
        ("a B-x\n\nb I-x\n", {}, "follow none of .*'a.conll:2', word 1"),
        ("a X\nb Y\n", {"scheme": "iob2"}, "tags without its prefixes: 'X', 'Y'"),
        ("a S-x\nb O\n", {"scheme": "iob2"}, "tags without its prefixes: 'S-x'"),
        ("a O\n", {}, "the files have 1 tags, expected 2 or more; 1 records read"),
        ("a\n", {}, "the files have 0 tags"),
        ("a X\n", {"labels": ("O", "Y")}, "'a.conll:1' has the tag 'X', .* 'O', 'Y'"),
    ],
)
def test_tags_that_do_not_fit_are_named(text, options, said, tmp_path):
    with pytest.raises(ValueError, match=said):
        completed(written(tmp_path, text), **options)


def test_what_breaks_a_given_scheme_is_noted_and_read(tmp_path):
    path = written(tmp_path, "a B-x\nb I-y\nc O\n")
    options = completed(path, scheme="iob2")
    problems = Problems()
    [record] = read([path], problems, options=options)
    assert record.tags == (("B-x", "I-y", "O"),)
    assert problems.counts == {"tag out of its scheme": 1}
    assert "'a.conll:1', sentence 1, word 2: 'I-y' after 'B-x'" in problems.report()
    assert problems.lost == 0


def test_an_unknown_tag_is_refused():
    options = TokenClassificationOptions(labels=("B-x", "I-x", "O"))
    value = {"id": "r", "tokens": ["a"], "tags": ["B-y"]}
    with pytest.raises(RefusedError, match="'r' has the tag 'B-y'.*'B-x', 'I-x', 'O'"):
        parse(value, no_note, options=options)


@pytest.mark.parametrize(
    "options, said",
    [
        ({"labels": ("a", "a")}, "labels is 'a', 'a'; expected 2 or more, each once"),
        ({"context": -1}, "context is -1; expected 0 or more"),
    ],
)
def test_options_are_checked(options, said):
    with pytest.raises(ValueError, match=said):
        TokenClassificationOptions(**options)


def test_a_file_of_another_name_is_a_release():
    release = token_classification.DATA_SET.release
    assert release("a.json") is None
