"""Articles in parts: by their ids, also by those that were published."""

import json

import pytest
from classification_samples import article_xml, release, truth_xml
from golden_data import require_shared

from etc_jax.datasets.records import Problems
from etc_jax.tasks import hyperpartisan as hp
from etc_jax.tasks.hyperpartisan import split


@pytest.fixture
def articles(tmp_path):
    names = [f"{i:07}" for i in range(6)]
    return release(
        tmp_path,
        [article_xml(name, f"<p>sooo {i}</p>") for i, name in enumerate(names)],
        [truth_xml(name, "true" if i % 2 else "false") for i, name in enumerate(names)],
    )


def write_splits(folder, value) -> str:
    path = folder / "splits.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return str(path)


def run(tmp_path, articles, splits, *more) -> tuple[int, dict[str, list[str]]]:
    """(exit code, ids of each part)."""
    out = tmp_path / "out"
    path = write_splits(tmp_path, splits)
    code = split.main([f"--splits={path}", f"--out={out}", *more, articles])
    return code, {
        file.stem: [record.id for record in hp.records.read([file])]
        for file in (sorted(out.iterdir()) if out.exists() else ())
    }


def test_each_part_is_a_file_of_the_data_set(tmp_path, articles, capsys):
    splits = {"test": [4], "train": [3, 0, 1], "dev": ["0000002"]}
    code, ids = run(tmp_path, articles, splits)
    assert code == 0 and ids == {
        "train": ["0000003", "0000000", "0000001"],
        "dev": ["0000002"],
        "test": ["0000004"],
    }
    assert capsys.readouterr().out.splitlines() == [
        "train: 3 of 3 articles",
        "dev: 1 of 1 articles",
        "test: 1 of 1 articles",
    ]
    # The same records as those of the XML.
    whole = {record.id: record for record in hp.records.read([articles])}
    got = list(hp.records.read([tmp_path / "out" / "train.jsonl"]))
    assert got == [whole[record.id] for record in got]
    assert [record.text for record in got] == ["so 3", "so 0", "so 1"]


def test_articles_in_several_parts_are_named_or_left_to_the_last(
    tmp_path, articles, capsys
):
    splits = {"train": [0, 1, 2, 3], "dev": [2, 4], "test": [3, 4, 5]}
    code, ids = run(tmp_path, articles, splits)
    assert code == 0 and [len(x) for x in ids.values()] == [2, 3, 4]
    warnings = [x for x in capsys.readouterr().out.splitlines() if "WARNING" in x]
    assert warnings == [
        "WARNING: 1 of the 2 ids of dev are in train too: '2'; --disjoint leaves them "
        "to dev",
        "WARNING: 1 of the 3 ids of test are in train too: '3'; --disjoint leaves them "
        "to test",
        "WARNING: 1 of the 3 ids of test are in dev too: '4'; --disjoint leaves them "
        "to test",
    ]
    (tmp_path / "apart").mkdir()
    code, ids = run(tmp_path / "apart", articles, splits, "--disjoint")
    assert code == 0 and ids == {
        "train": ["0000000", "0000001"],
        "dev": ["0000002"],
        "test": ["0000003", "0000004", "0000005"],
    }
    assert "WARNING" not in capsys.readouterr().out


def test_ids_without_an_article_are_named(tmp_path, articles, capsys):
    splits = {"train": [0, 77], "dev": [1], "test": [88, 99]}
    code, ids = run(tmp_path, articles, splits)
    assert code == 0 and ids == {"train": ["0000000"], "dev": ["0000001"]}
    out = capsys.readouterr().out
    assert "train: 1 of 2 articles\n  WARNING: not in the files: '77'\n" in out
    assert "not in the files: '88', '99'; no file is written" in out


def test_bad_articles_are_named(tmp_path, articles, capsys):
    path = tmp_path / "articles-x.xml"
    path.write_text(path.read_text().replace("sooo 1", " ").replace("sooo 2", "www.a"))
    code, ids = run(tmp_path, articles, {"train": [0, 1, 2, 3]})
    assert code == 0 and ids == {"train": ["0000000", "0000003"]}
    out = capsys.readouterr().out
    assert "not in the files: '1', '2'" in out
    assert "2 x empty article" in out and "record 2: '0000001'" in out


@pytest.mark.parametrize(
    "splits, message",
    [
        ("{", "expected JSON in UTF-8"),
        ([1], "expected a JSON object with train, dev, test"),
        ({}, "expected a JSON object with train, dev, test"),
        ({"../x": [1]}, "expected a JSON object with train, dev, test"),
        ({"train": 1}, "'train' is '1', expected a list of ids"),
        ({"train": [1.5]}, "expected a list of ids"),
        ({"train": [True]}, "expected a list of ids"),
        ({"dev": [4, 3, "04"]}, "'dev' has the id 4 twice"),
        ({"dev": [40, 50]}, "no part has one of the 6 articles, such as '0', '1'"),
    ],
)
def test_splits_of_something_else_are_refused(
    tmp_path, articles, capsys, splits, message
):
    code, ids = run(tmp_path, articles, splits)
    assert code == 2 and not ids and message in capsys.readouterr().err


def test_nothing_is_overwritten(tmp_path, articles, capsys):
    assert run(tmp_path, articles, {"dev": [1]})[0] == 0
    code, ids = run(tmp_path, articles, {"dev": [2], "test": [3]})
    assert code == 2 and ids == {"dev": ["0000001"]}
    assert "dev.jsonl exists; give another folder" in capsys.readouterr().err


def test_missing_files_are_named(tmp_path, capsys):
    code, ids = run(tmp_path, str(tmp_path / "articles-none.xml"), {"dev": [1]})
    assert code == 2 and not ids and "articles-none.xml" in capsys.readouterr().err


def test_the_published_parts_have_articles_in_common(tmp_path):
    folder = require_shared("data/hyperpartisan")
    path = folder / "hp-splits.json"
    splits = split.read_splits(path)
    assert {name: len(ids) for name, ids in splits.items()} == {
        "train": 516,
        "dev": 64,
        "test": 65,
    }
    raw = {k: set(map(str, v)) for k, v in json.loads(path.read_text()).items()}
    assert {(a, b): len(ids) for a, b, ids in split.overlaps(splits)} == {
        ("train", "test"): len(raw["train"] & raw["test"]),
        ("dev", "test"): len(raw["dev"] & raw["test"]),
    }
    assert len(raw["train"] & raw["test"]) == 51 and len(raw["dev"] & raw["test"]) == 7
    apart = split.disjoint(splits)
    assert set(apart["train"]) == raw["train"] - raw["test"]
    assert set(apart["dev"]) == raw["dev"] - raw["test"]
    # The articles at hand are all but those of the test part.
    problems = Problems()
    articles = folder / "articles-train_dev.xml.gz"
    missing = split.write_parts([articles], splits, tmp_path, problems)
    assert problems.read == 580 and not problems.counts
    assert {k: set(x) for k, x in missing.items()} == {
        "train": raw["train"] & raw["test"],
        "dev": raw["dev"] & raw["test"],
        "test": raw["test"],
    }
    written = {p.stem: [r.id for r in hp.records.read([p])] for p in tmp_path.iterdir()}
    assert {k: {x.lstrip("0") or "0" for x in v} for k, v in written.items()} == {
        k: set(v) for k, v in apart.items() if k != "test"
    }
