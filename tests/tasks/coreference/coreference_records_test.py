"""CoNLL files: read, counted against a regular expression, and written."""

import collections
import gzip
import re

import numpy as np
import pytest
from coreference_samples import TON, conll_2012, litbank, record_of, write_text
from golden_data import require_shared
from hypothesis import given, settings, strategies as st

from etc_jax.datasets.records import BadRecordError, Problems
from etc_jax.tasks.coreference import read
from etc_jax.tasks.coreference.records import Record
from etc_jax.tasks.coreference.writing import write


def test_both_kinds_of_file_say_the_same(tmp_path):
    texts = conll_2012() + conll_2012(TON, part="001") + litbank()
    mill, ton, bank = read(write_text(tmp_path, texts))
    assert mill == Record(
        document="bn/a/00/a_0001",
        part="000",
        sentences=(
            ("Ann", "Lee", "owned", "the", "mill"),
            ("She", "built", "it", "."),
            ("Her", "owner", "burned"),
        ),
        speakers=("Ann_Lee",) * 3,
        clusters=(((0, 1), (5, 5), (9, 9)), ((3, 4), (7, 7)), ((9, 10),)),
    )
    assert mill.id == "(bn/a/00/a_0001); part 000"
    assert ton.id == "(bn/a/00/a_0001); part 001"
    assert bank.clusters == ton.clusters == (((0, 0), (2, 3), (4, 4)), ((7, 7),))
    assert bank.sentences == ton.sentences
    assert (bank.id, bank.speakers) == ("(2_ton_brat); part 0", (None, None))


def test_a_file_may_be_gzipped_and_end_its_lines_in_other_ways(tmp_path):
    text = "\ufeff" + conll_2012().replace("\n", "\r\n")
    path = tmp_path / "a_gold_conll.gz"
    path.write_bytes(gzip.compress(text.encode("utf-8")))
    [got] = read([path])
    assert got == record_of(tmp_path, conll_2012())


def test_a_space_that_is_not_ascii_is_part_of_a_word(tmp_path):
    sentences = ((("New\u00a0York", "(1)"), ("\u2028", "-")),)
    for form in (conll_2012, litbank):
        [got] = read(write_text(tmp_path, form(sentences)))
        assert got.sentences == (("New\u00a0York", "\u2028"),)


def marked(*cells):
    return ((*((f"w{i}", cell) for i, cell in enumerate(cells)),),)


@pytest.mark.parametrize(
    "cells, clusters",
    [
        (("(1", "(1", "1)", "1)"), [[(0, 3), (1, 2)]]),
        (("(1|(1", "1)", "1)"), [[(0, 1), (0, 2)]]),
        (("(1", "(1|1)", "1)"), [[(0, 2), (1, 1)]]),
        (("(1", "1)|(1", "1)"), [[(0, 2), (1, 1)]]),
        (("(1", "(2", "1)", "2)"), [[(0, 2)], [(1, 3)]]),
        (("(1|(2)", "1)", "(2)"), [[(0, 0), (2, 2)], [(0, 1)]]),
        (("_", "", "-") * 2, []),
    ],
)
def test_brackets_are_paired_as_the_official_scorer_does(tmp_path, cells, clusters):
    if "" not in cells:
        assert record_of(tmp_path, conll_2012(marked(*cells))).clusters == tuple(
            map(tuple, clusters)
        )
    got = record_of(tmp_path, litbank(marked(*cells)))
    assert got.clusters == tuple(map(tuple, clusters))


BAD = {
    "bracket closes nothing": (marked("(1)", "1)"), "line 3: '1)' without '(1'"),
    "bracket never closed": (marked("(1", "(1", "1)"), "line 2: '(1' without '1)'"),
    "mention in two clusters": (
        marked("(1|(2", "1)|2)"),
        "line 3: words (0, 1) are in clusters 1 and 2",
    ),
    "broken coreference": (marked("(1", "1)|x"), "line 3: '1)|x', expected '-'"),
    "no text": ((), "line 1: no row up to #end"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_part_is_named_and_the_next_one_read(tmp_path, kind):
    sentences, message = BAD[kind]
    path = write_text(tmp_path, conll_2012(sentences) + litbank())
    problems = Problems()
    assert [r.id for r in read(path, problems)] == ["(2_ton_brat); part 0"]
    assert problems.counts == {kind: 1}
    assert (problems.read, problems.lost) == (1, 1)
    [text] = problems.messages[kind]
    assert text.startswith(f"{path}, record 1: {message}")
    with pytest.raises(BadRecordError, match=re.escape(message)):
        list(read(path))


GOOD = conll_2012()
ROW = "bn/a/00/a_0001   0   2   owned"
BROKEN = {
    "too few columns": (GOOD.replace(ROW, "a 0 owned\nx"), "line 4: 3 columns in 'a"),
    "no word": (litbank().replace("\tis\t", "\t\t"), "line 3: column 4 is empty"),
    "broken #begin": (GOOD.replace("(bn", "bn", 1), "line 1: '#begin document bn/a"),
    "end without a part": (f"\n#end document\n{GOOD}", "line 2: b'#end document'"),
    "rows outside of a part": (
        f"{GOOD}\na 0 0 Ann -\na 0 1 Lee -\n",
        "line 19: b'a 0 0 Ann -'; expected before it #begin",
    ),
    "part without an end": (
        GOOD.replace("#end document\n", "") + litbank(),
        "line 17: a part begins inside of that of line 1",
    ),
    "file cut short": (
        GOOD + litbank().replace("#end document\n", ""),
        "line 18: a part begins that has no #end; fetch",
    ),
    "id twice": (GOOD + GOOD, "'(bn/a/00/a_0001); part 000', first in"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_wrong_in_a_file_is_named(tmp_path, kind):
    text, message = BROKEN[kind]
    path = write_text(tmp_path, text)
    problems = Problems()
    found = list(read(path, problems))
    assert problems.counts == {kind: 1}
    assert len(found) == problems.read <= 1
    [said] = problems.messages[kind]
    assert said.startswith(f"{path}, record ") and message in said
    with pytest.raises(BadRecordError, match=re.escape(message)):
        list(read(path))


def test_text_that_is_not_utf_8_costs_its_part(tmp_path):
    path = tmp_path / "latin_gold_conll"
    path.write_bytes(GOOD.replace("mill", "m\u00fcll").encode("latin-1") + b"\n")
    with open(path, "ab") as file:
        file.write(litbank().encode("utf-8"))
    problems = Problems()
    assert [r.id for r in read(path, problems)] == ["(2_ton_brat); part 0"]
    assert problems.counts == {"not UTF-8": 1}
    assert "record 1: line 6: " in problems.messages["not UTF-8"][0]


def test_a_damaged_gzip_ends_the_file(tmp_path):
    whole = gzip.compress("".join(litbank(name=f"b{i}") for i in range(2000)).encode())
    path = tmp_path / "a.gz"
    path.write_bytes(whole[: len(whole) // 2])
    problems = Problems()
    found = list(read(path, problems))
    assert 0 < len(found) < 2000
    assert problems.first_of_files().kind == "file cut short"
    assert f"{path}, record {len(found) + 1}: " in problems.first_of_files().message


def test_odd_parts_are_counted_and_used(tmp_path):
    twice = marked("(1|(1", "1)|1)", "(1)")
    text = conll_2012(twice) + GOOD.replace("a_0001", "a_0002").replace(
        "Ann_Lee", "Bob", 1
    )
    problems = Problems()
    got, other = read(write_text(tmp_path, text), problems)
    assert got.clusters == (((0, 1), (2, 2)),)
    assert other.speakers == ("Bob", "Ann_Lee", "Ann_Lee")
    assert problems.counts == {"mention twice": 1, "two speakers in a sentence": 4}
    assert "line 3: words (0, 1) of 1" in problems.messages["mention twice"][0]


# --- real files -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def litbank_files():
    return sorted(require_shared("data/coref_litbank").glob("*.conll"))


def test_litbank_holds_what_a_regular_expression_counts(litbank_files):
    problems = Problems()
    records = list(read(litbank_files, problems))
    assert len(records) == len(litbank_files) == problems.read == 16
    assert problems.counts.total() == 0
    for path, record in zip(litbank_files, records, strict=True):
        text = path.read_text(encoding="utf-8")
        cells = re.findall(r"[^\t\n]*$", text, re.MULTILINE)
        opened = [n for c in cells if "#" not in c for n in re.findall(r"\((\d+)", c)]
        sizes = collections.Counter(opened)
        assert sorted(map(len, record.clusters)) == sorted(sizes.values())
        words = re.findall(r"^[^\t\n]+\t\d+\t\d+\t([^\t]+)", text, re.MULTILINE)
        assert [w for s in record.sentences for w in s] == words
        runs = re.split(r"\n\n", text.partition("\n")[2].partition("\n#end")[0].strip())
        assert len(record.sentences) == len(runs)


def test_litbank_comes_back_from_a_response(tmp_path, litbank_files):
    records = list(read(litbank_files))
    path = tmp_path / "response.conll"
    write({r.id: r.clusters for r in records}, records, path)
    assert list(read(path)) == records


# --- writing --------------------------------------------------------------------------


def test_a_response_by_hand(tmp_path):
    record = record_of(tmp_path, litbank())
    path = tmp_path / "response.conll"
    write({record.id: [[(2, 3), (0, 0)], [[4, 8], [7, 7], [4, 5]]]}, [record], path)
    rows = [
        ["2_ton_brat", "0", "0", "Ton", "(0)"],
        ["2_ton_brat", "0", "1", "is", "-"],
        ["2_ton_brat", "0", "2", "a", "(0"],
        ["2_ton_brat", "0", "3", "town", "0)"],
        [],
        ["2_ton_brat", "0", "0", "It", "(1|(1"],
        ["2_ton_brat", "0", "1", "stands", "1)"],
        ["2_ton_brat", "0", "2", "in", "-"],
        ["2_ton_brat", "0", "3", "Norland", "(1)"],
        ["2_ton_brat", "0", "4", ".", "1)"],
        [],
    ]
    lines = path.read_text(encoding="utf-8").split("\n")
    assert lines[0] == "#begin document (2_ton_brat); part 0"
    assert [line.split() for line in lines[1:-2]] == rows
    assert lines[-2:] == ["#end document", ""]


@st.composite
def random_clusters(draw):
    """Clusters of nine words whose own mentions do not cross; others may."""
    spans = [(a, b) for a in range(9) for b in range(a, 9)]
    chosen = draw(st.permutations(spans))[: draw(st.integers(0, 12))]
    clusters = collections.defaultdict(list)
    for a, b in chosen:
        number = draw(st.integers(0, 3))
        if not any(c < a <= d < b or a < c <= b < d for c, d in clusters[number]):
            clusters[number].append((a, b))
    return sorted(sorted(c) for c in clusters.values() if c)


@given(random_clusters())
@settings(max_examples=60, deadline=None)
def test_a_response_comes_back(tmp_path_factory, clusters):
    folder = tmp_path_factory.mktemp("response")
    record = record_of(folder, litbank())
    write({record.id: clusters}, [record], folder / "response")
    [got] = read(folder / "response")
    assert [list(cluster) for cluster in got.clusters] == clusters


def test_numbers_of_numpy_and_no_prediction_are_written(tmp_path):
    records = list(read(write_text(tmp_path, conll_2012() + litbank())))
    array = np.array([[[0, 1], [5, 5]]])
    path = tmp_path / "response"
    write({records[0].id: array}, records, path)
    assert [r.clusters for r in read(path)] == [(((0, 1), (5, 5)),), ()]


@pytest.mark.parametrize(
    "clusters, message",
    [
        ([[(0, 3), (2, 4)]], r"mentions \(0, 3\) and \(2, 4\) of one cluster cross"),
        ([[(0, 2), (2, 3)]], r"mentions \(0, 2\) and \(2, 3\) of one cluster cross"),
        ([[(0, 9), (1, 1)]], "a mention reaches word 9 of 9"),
        ([[(0, 1)], [(0, 1)]], r"the mention \(0, 1\) is there 2 times"),
    ],
)
def test_what_brackets_cannot_say_is_refused(tmp_path, clusters, message):
    record = record_of(tmp_path, litbank())
    path = tmp_path / "response"
    with pytest.raises(ValueError, match=message):
        write({record.id: clusters}, [record], path)
    with pytest.raises(ValueError, match="predictions for 1 ids without a record"):
        write({"other": clusters}, [record], path)
    assert not path.exists()
