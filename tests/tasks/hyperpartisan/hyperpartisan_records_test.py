"""Hyperpartisan articles: cleaning, XML with its truth, and all that can be wrong."""

import collections
import gzip
import html
import itertools
import json
import pathlib
import re
import string
import tracemalloc

import pytest
from classification_samples import ARTICLE, article_xml, release, truth_xml
from golden_data import require_shared
from hypothesis import given, strategies as st

from etc_jax.datasets.records import BadRecordError, Problems
from etc_jax.tasks import hyperpartisan as hp

ARTICLES = [
    article_xml("0000001", "Top <p>One <a href='u'>two</a>.</p> <p>Three &amp; 4</p>"),
    article_xml("0000002", "<p>Five</p>", title="Six & seven"),
]
TRUTH = [truth_xml("0000001", "true"), truth_xml("0000002", "false")]


def read_all(*paths):
    problems = Problems()
    return list(hp.records.read(paths, problems)), problems


# --- cleaning -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, want",
    [
        ("  a \n\t b\u00a0c ", "a b c"),
        ("he/she and and/or/else", "and /else"),
        ("24/7 a/1 a / b", "24/7 a/1 a / b"),
        ("see http://1.2/3?a=b now", "see now"),
        # A pair of words with a slash goes first, be it in a link.
        ("see http://x.y/z?a=b now", "see ?a=b now"),
        ("see www.x.org, and (https://x) end", "see and ( end"),
        ("http www href", "http w href"),
        ("a href='u'>b", "a"),
        ("wwwhttp://x end", "w end"),
        ("a&#160;b", "ab"),
        ("No!!! Why?!?! So... end", "No! Why! So. end"),
        ("sooo gooood, yesss!", "so gooood, yes!"),
        ("good aa 11 -- aab", "good aa 11 -- aab"),
        ("1000 and 2,000 and 20,0001", "10 and 2,0 and 20,0001"),
        ("--- a --- b", "--- a --- b"),
        ("a---b x### y###z", "a-b x### y#z"),
        ("", ""),
    ],
)
def test_cleaning_by_hand(text, want):
    assert hp.records.clean(text) == want


def cleaned_slowly(text: str) -> str:
    """The same, a character after the other."""
    text = without_joined(text).replace("&#160;", "")
    words = text.split()
    for begin in ("http", "www", "href"):
        cut = []
        for word in words:
            at = word.find(begin)
            cut.append(word[:at] if 0 <= at < len(word) - len(begin) else word)
        words = [word for word in cut if word]
    return " ".join(map(without_repeats, words))


def without_joined(text: str) -> str:
    kept, at = [], 0
    while at < len(text):
        stop = at
        while stop < len(text) and text[stop] in string.ascii_letters:
            stop += 1
        behind = text[stop + 1 : stop + 2]
        if stop > at and text[stop : stop + 1] == "/" and behind:
            if behind in string.ascii_letters:
                stop += 1
                while stop < len(text) and text[stop] in string.ascii_letters:
                    stop += 1
                kept.append(" ")
                at = stop
                continue
        kept.append(text[at : max(stop, at + 1)])
        at = max(stop, at + 1)
    return "".join(kept)


def is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def without_repeats(word: str) -> str:
    pairs = zip(word, [*word[1:], ""], strict=True)
    marks = ("!", "?", ".")
    word = "".join(c for c, d in pairs if c not in marks or d not in marks)
    first = next((i for i, c in enumerate(word) if is_word(c)), len(word))
    kept, at = [word[:first]], first
    for char, run in itertools.groupby(word[first:]):
        length = len(list(run))
        at += length
        behind = at < len(word) and is_word(word[at])
        is_end = is_word(char) != behind
        kept.append(char if length >= 3 and is_end else char * length)
    return "".join(kept)


FRAGMENTS = ["a", "b", "Z", "1", "0", "é", "_", "/", "-", ".", "!", "?", "'", "&#160;"]
FRAGMENTS += [" ", "\n", "\u00a0", "http", "ht", "tp", "www", "w", "href", "://", "###"]


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=30).map("".join))
def test_cleaning_equals_a_loop_over_characters(text):
    assert hp.records.clean(text) == cleaned_slowly(text)


@pytest.mark.parametrize("text", ["ab-" * 100_000, "a" * 100_000 + "b"])
def test_a_long_word_is_cleaned_in_time(text):
    # A search from each place of the word would take minutes.
    assert hp.records.clean(text) == text


# --- files ----------------------------------------------------------------------------


@pytest.mark.parametrize("gz", ["", ".gz"])
def test_articles_are_read_with_the_truth_beside_them(tmp_path, gz):
    got, problems = read_all(release(tmp_path, ARTICLES, TRUTH, gz=gz))
    assert got == [
        hp.records.Record("0000001", "T", "Top One two. Three & 4", "true"),
        hp.records.Record("0000002", "Six & seven", "Five", "false"),
    ]
    assert not problems.counts and problems.read == 2


def test_one_of_both_files_may_be_packed(tmp_path):
    path = release(tmp_path, ARTICLES, TRUTH)
    truth = tmp_path / "ground-truth-x.xml"
    packed = tmp_path / "ground-truth-x.xml.gz"
    packed.write_bytes(gzip.compress(truth.read_bytes()))
    truth.unlink()
    assert [r.label for r in read_all(path)[0]] == ["true", "false"]


def test_without_a_file_of_the_truth_there_is_no_label(tmp_path):
    got, problems = read_all(release(tmp_path, ARTICLES))
    assert [r.label for r in got] == [None, None] and not problems.counts


def test_an_article_without_truth_and_truth_without_an_article_are_named(tmp_path):
    truth = [TRUTH[0], truth_xml("0000007", "true")]
    path = release(tmp_path, ARTICLES, truth)
    got, problems = read_all(path)
    assert [r.id for r in got] == ["0000001"] and problems.lost == 2
    assert problems.messages == {
        "article without truth": [f"{path}, record 2: '0000002'"],
        "truth without article": [
            f"{path}, record 3: '0000007', of {tmp_path}/ground-truth-x.xml"
        ],
    }


@pytest.mark.parametrize(
    "article, truth, kind, message",
    [
        (ARTICLES[1], truth_xml("0000002", "maybe"), "unknown label", "'maybe', exp"),
        (article_xml("0000002", "<p> </p>"), TRUTH[1], "empty article", "no text left"),
        (article_xml("0000002", "www.x"), TRUTH[1], "empty article", "'0000002' has"),
        (article_xml("0000001", "again"), None, "id twice", "'0000001', first in"),
        ("<article>x</article>", None, "missing attribute", "has no 'id'"),
        ("<item id='0000002'>x</item>", None, "unknown element", "<item>, expected"),
        (ARTICLES[1], TRUTH[1] * 2, "truth twice", "'0000002', in"),
    ],
)
def test_a_bad_article_is_named(tmp_path, article, truth, kind, message):
    path = release(tmp_path, [ARTICLES[0], article], [TRUTH[0], truth or ""])
    got, problems = read_all(path)
    assert [r.id for r in got] == ["0000001"] and problems.counts == {kind: 1}
    [told] = problems.messages[kind]
    assert told.startswith(f"{path}, record 2: ") and message in told
    with pytest.raises(BadRecordError, match="record 2"):
        list(hp.records.read([path]))


@pytest.mark.parametrize("kind", ["articles", "ground-truth"])
@pytest.mark.parametrize(
    "change, want, message",
    [
        (lambda x: x[: x.index(b"</articles>")], "file cut short", ", line "),
        (lambda x: x[: x.index(b"0000002")], "file cut short", ", line "),
        (lambda x: x.replace(b"</articles>", b"</x>"), "broken XML", "mismatched tag"),
        (lambda x: x.replace(b"0000002", b"\xff\xfe"), "broken XML", "invalid token"),
        (lambda x: b"", "file cut short", "line 1: no element found"),
        (lambda x: b"hello", "broken XML", "line 1: syntax error"),
        (lambda x: b"<html></html>", "unknown file", "<html>, expected <articles>"),
    ],
)
def test_a_file_that_is_not_whole_is_named(tmp_path, kind, change, want, message):
    path = release(tmp_path, ARTICLES, TRUTH)
    broken = tmp_path / f"{kind}-x.xml"
    broken.write_bytes(change(broken.read_bytes()))
    got, problems = read_all(path)
    # Nothing is read of articles the truth of which is broken.
    assert kind == "articles" or not got
    assert problems.counts == {want: 1}
    [told] = problems.messages[want]
    assert told.startswith(str(broken)) and message in told


def test_the_line_of_broken_xml_is_named(tmp_path):
    path = release(tmp_path, [*ARTICLES, article_xml("3", "<p>x</q>")], TRUTH)
    got, problems = read_all(path)
    assert [r.id for r in got] == ["0000001", "0000002"]
    [told] = problems.messages["broken XML"]
    # Two lines of head, and three of each article.
    assert told.startswith(f"{path}, line 10: mismatched tag")


def test_a_packed_file_that_is_damaged_is_named(tmp_path):
    path = release(tmp_path, ARTICLES * 50, gz=".gz")
    packed = pathlib.Path(path)
    packed.write_bytes(packed.read_bytes()[:-20])
    assert "file cut short" in read_all(path)[1].counts
    packed.write_bytes(b"no gzip")
    assert "broken gzip" in read_all(path)[1].counts


def test_truth_without_an_id_is_named(tmp_path):
    path = release(tmp_path, ARTICLES, [TRUTH[0], "<article hyperpartisan='true'/>"])
    got, problems = read_all(path)
    assert not got
    [told] = problems.messages["missing attribute"]
    assert told.startswith(f"{tmp_path}/ground-truth-x.xml, record 2: ")


def test_an_article_of_another_name_is_refused(tmp_path):
    release(tmp_path, ARTICLES, TRUTH)
    _, problems = read_all(tmp_path / "ground-truth-x.xml")
    [told] = problems.messages["unknown file"]
    assert "ground-truth-x.xml: expected a name such as articles-training" in told
    with pytest.raises(FileNotFoundError):
        read_all(tmp_path / "articles-y.xml")


def test_entities_neither_grow_nor_read_files(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("s3cret")
    grown = "".join(f'<!ENTITY x{i} "{f"&x{i - 1};" * 10}">' for i in range(1, 10))
    heads = {
        "grow": f'<!ENTITY x0 "{"x" * 99}">{grown}<!ENTITY e "&x9;">',
        "read": f'<!ENTITY e SYSTEM "file://{secret}">',
    }
    for name, head in heads.items():
        text = f"<!DOCTYPE articles [{head}]><articles>{article_xml('1', '&e;')}"
        got, problems = read_all(release(tmp_path, f"{text}</articles>", name=name))
        assert not got and problems.counts == {"broken XML": 1}, name


def test_memory_does_not_grow_with_the_file(tmp_path):
    peaks = []
    for count in (20, 200):
        articles = [article_xml(str(i), "<p>ab</p>" * 500) for i in range(count)]
        path = release(tmp_path, articles, name=str(count))
        tracemalloc.start()
        try:
            assert sum(1 for _ in hp.records.read([path])) == count
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0], peaks


# --- JSON lines -----------------------------------------------------------------------


def test_lines_are_read_and_cleaned_too(tmp_path):
    path = tmp_path / "train.jsonl"
    values = [
        {**ARTICLE, "text": "sooo  and/or old", "label": "true"},
        {"id": "2", "text": "x"},
        {"id": "3", "text": "x", "label": True},
    ]
    path.write_text("".join(f"{json.dumps(value)}\n" for value in values))
    got, problems = read_all(path)
    assert got == [
        hp.records.Record("0000001", "Mills", "so old", "true"),
        hp.records.Record("2", "", "x", None),
    ]
    [told] = problems.messages["unknown label"]
    assert "record 3: '3': bool 'True', expected 'false' or 'true'" in told


# --- real files -----------------------------------------------------------------------


def test_real_articles_are_read_whole():
    folder = require_shared("data/hyperpartisan")
    got, problems = read_all(folder / "articles-train_dev.xml.gz")
    assert not problems.counts and problems.read == len(got) == 580
    texts = {
        kind: gzip.open(
            folder / f"{kind}-train_dev.xml.gz", "rt", encoding="utf-8"
        ).read()
        for kind in ("articles", "ground-truth")
    }
    # Without an XML parser.
    ids = re.findall(r'<article id="(\d+)"', texts["articles"])
    assert [r.id for r in got] == ids
    pairs = re.findall(r'hyperpartisan="(\w+)" id="(\d+)"', texts["ground-truth"])
    truth = {name: label for label, name in pairs}
    assert {r.id: r.label for r in got} == truth
    counts = collections.Counter(r.label for r in got)
    assert counts["true"] == texts["ground-truth"].count('"true"')
    for record in got:
        assert "  " not in record.text and "<p>" not in record.text
        assert record.text == record.text.strip() != ""


def test_real_texts_are_cleaned_as_by_a_loop():
    folder = require_shared("data/hyperpartisan")
    xml = gzip.open(folder / "articles-train_dev.xml.gz", "rt", encoding="utf-8").read()
    bodies = re.findall(r"<article [^>]*>(.*?)</article>", xml, re.DOTALL)
    got, _ = read_all(folder / "articles-train_dev.xml.gz")
    assert len(bodies) == len(got)
    for body, record in zip(bodies[::4], got[::4], strict=True):
        raw = html.unescape(re.sub(r"<[^>]*>", "", body))
        assert record.text == cleaned_slowly(raw), record.id


def test_the_official_sample_is_read():
    path = require_shared("data/hyperpartisan")
    path = path / "articles-training-byarticle-20181122.xml"
    got, problems = read_all(path)
    assert [(r.id, r.title, r.label) for r in got] == [
        (f"000000{i}", f"Example article {i}", "true") for i in (1, 2, 3)
    ]
    assert not problems.counts and got[2].text.startswith("This is a sample article")
