"""IMDB's files: folders of reviews, JSON lines, and everything that can be wrong."""

import collections
import gzip
import json
import pathlib

import pytest
from classification_samples import REVIEW, aclimdb
from golden_data import require_shared

from etc_jax.datasets.records import BadRecordError, Problems
from etc_jax.tasks import imdb

TEXTS = {
    "pos/10_9.txt": "Good.<br /><br />Very<BR>good, a<b.",
    "pos/2_7.txt": "Fine.",
    "neg/0_1.txt": "Bad.\n",
}


def write_lines(folder: pathlib.Path, *values) -> pathlib.Path:
    path = folder / "reviews.jsonl"
    path.write_text("".join(f"{json.dumps(value)}\n" for value in values))
    return path


def read_all(*paths):
    problems = Problems()
    return list(imdb.records.read(paths, problems)), problems


def test_a_folder_is_read_label_by_label_in_the_order_of_numbers(tmp_path):
    got, problems = read_all(aclimdb(tmp_path, TEXTS))
    assert got == [
        imdb.records.Record("train/neg/0_1", "Bad.", "neg", 1),
        imdb.records.Record("train/pos/2_7", "Fine.", "pos", 7),
        imdb.records.Record("train/pos/10_9", "Good.\n\nVery\ngood, a<b.", "pos", 9),
    ]
    assert not problems.counts and problems.read == 3


def test_one_label_can_be_read_and_reviews_without_any(tmp_path):
    texts = {**TEXTS, "unsup/5_0.txt": "Who knows."}
    folder = aclimdb(tmp_path, texts)
    assert [r.id for r in read_all(folder / "pos")[0]] == [
        "train/pos/2_7",
        "train/pos/10_9",
    ]
    [got], problems = read_all(folder / "unsup")
    assert got == imdb.records.Record("train/unsup/5_0", "Who knows.", None, None)
    # Of a split only what has labels is read, unless it is asked for.
    assert len(read_all(folder)[0]) == 3 and not problems.counts


def test_a_relative_path_gives_the_same_ids(tmp_path, monkeypatch):
    folder = aclimdb(tmp_path, TEXTS)
    monkeypatch.chdir(folder)
    assert read_all(".")[0] == read_all(folder)[0]


@pytest.mark.parametrize(
    "file, text, kind, message",
    [
        ("pos/3_8.txt", "", "empty review", "'train/pos/3_8' is blank"),
        ("pos/3_8.txt", " <br /> \n", "empty review", "'train/pos/3_8' is blank"),
        ("pos/readme", "x", "wrong file name", "pos/readme, expected number"),
        ("pos/3.txt", "x", "wrong file name", "pos/3.txt"),
        ("pos/3_8.txt.bak", "x", "wrong file name", "pos/3_8.txt.bak"),
        ("pos/3_11.txt", "x", "unknown rating", "'train/pos/3_11': int '11', expected"),
        ("pos/3_0.txt", "x", "unknown rating", "'train/pos/3_0': int '0', expected"),
        ("pos/3_8.txt", b"caf\xe9", "not UTF-8", "pos/3_8.txt: 'utf-8' codec"),
    ],
)
def test_a_bad_file_is_named_and_the_others_are_read(
    tmp_path, file, text, kind, message
):
    folder = aclimdb(tmp_path, {**TEXTS, file: text})
    got, problems = read_all(folder)
    assert len(got) == 3 and problems.counts == {kind: 1} and problems.lost == 1
    [told] = problems.messages[kind]
    assert told.startswith(f"{folder}, record ") and message in told
    with pytest.raises(BadRecordError, match=kind):
        list(imdb.records.read([folder]))


def test_a_rating_against_the_label_is_counted_and_kept(tmp_path):
    texts = {"pos/1_4.txt": "a", "pos/2_7.txt": "b", "neg/3_4.txt": "c"}
    texts["neg/4_5.txt"] = "d"
    got, problems = read_all(aclimdb(tmp_path, texts))
    assert len(got) == 4 and problems.counts == {"rating against label": 2}
    assert not problems.lost
    first, second = problems.messages["rating against label"]
    assert "'train/neg/4_5' is 'neg' with 5 stars" in first
    assert "'train/pos/1_4' is 'pos' with 4 stars" in second


def test_what_is_no_split_is_named(tmp_path):
    aclimdb(tmp_path, TEXTS)
    _, problems = read_all(tmp_path)
    [message] = problems.messages["unknown folder"]
    assert f"{tmp_path} has no folder neg and no folder pos; give" in message
    (tmp_path / "imdb.csv").write_text("x")
    _, problems = read_all(tmp_path / "imdb.csv")
    assert "imdb.csv: expected a folder" in problems.messages["unknown file"][0]
    with pytest.raises(FileNotFoundError, match="aclImdb"):
        read_all(tmp_path / "aclImdb")


def test_a_review_that_comes_twice_is_named(tmp_path):
    folder = aclimdb(tmp_path, TEXTS)
    got, problems = read_all(folder, folder / "neg")
    assert len(got) == 3 and problems.counts == {"id twice": 1}


@pytest.mark.parametrize(
    "label, want",
    [(0, "neg"), (1, "pos"), ("neg", "neg"), ("pos", "pos"), (None, None)],
)
def test_lines_have_a_label_by_number_or_by_name(tmp_path, label, want):
    packed = tmp_path / "a.jsonl.gz"
    value = {**REVIEW, "label": label}
    packed.write_bytes(gzip.compress(json.dumps(value).encode()))
    for path in (packed, write_lines(tmp_path, value)):
        [got], problems = read_all(path)
        assert (got.label, got.rating) == (want, None) and not problems.counts
        assert got.text == "the old mill stands.\n\nit is old"


def test_a_review_without_label_and_rating_is_a_record():
    got = imdb.records.parse(REVIEW, lambda kind, message: pytest.fail(message))
    assert (got.label, got.rating) == (None, None)


@pytest.mark.parametrize("split, number", [("train", 500), ("test", 200)])
def test_real_reviews_are_read_whole(tmp_path, split, number):
    path = require_shared("data/imdb") / f"{split}.slice.jsonl.gz"
    # Reviews have characters that end lines to Python, and not to the file.
    lines = gzip.decompress(path.read_bytes()).decode().rstrip("\n").split("\n")
    got, problems = read_all(path)
    assert problems.read == len(got) == len(lines) == number and not problems.counts
    labels = collections.Counter(r.label for r in got)
    assert labels == {
        name: sum(f'"id": "{split}/{name}/' in line for line in lines)
        for name in ("neg", "pos")
    }
    for record, value in zip(got, map(json.loads, lines), strict=True):
        assert record.id.split("/")[2] == f"{value['id'].split('/')[2]}"
        assert record.id.endswith(f"_{record.rating}") and "<br" not in record.text
        assert record.text.split() == value["text"].replace("<br />", " ").split()
    # Put back into the release's folders, they are the same reviews.
    files = {
        f"{r['id'].split('/', 1)[1]}.txt": r["text"] for r in map(json.loads, lines)
    }
    folder = aclimdb(tmp_path, files).rename(tmp_path / "moved")
    folder = folder.rename(tmp_path / split)
    again, problems = read_all(folder)
    assert not problems.counts
    assert sorted(again, key=lambda r: r.id) == sorted(got, key=lambda r: r.id)


def test_odd_real_reviews_are_read_too():
    path = require_shared("data/imdb/imdb_corpus.jsonl")
    got, problems = read_all(path)
    assert [(r.label, r.rating) for r in got] == [("neg", 1), ("pos", 4), ("neg", 1)]
    assert problems.counts == {"rating against label": 1}
