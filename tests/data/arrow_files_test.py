"""Parquet and Arrow files, and folders as `datasets` and the Hub have them."""

import datetime
import decimal
import json
import re
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from etc_jax.base.extras import MissingExtraError
from etc_jax.data import arrow_files
from etc_jax.data.input_files import VARIABLE, BadRecordError
from etc_jax.data.text.sources import read_documents
from etc_jax.datasets import pairs
from etc_jax.datasets.records import Problems
from etc_jax.datasets.texts import read_texts
from etc_jax.prediction.raw_records import read_inputs
from etc_jax.tasks import text_to_text, token_classification

TAGS = ["O", "B-PER", "I-PER"]
LABEL = {"names": TAGS, "_type": "ClassLabel"}
FEATURES = {
    "id": {"dtype": "int64", "_type": "Value"},
    "tokens": {"feature": {"dtype": "string", "_type": "Value"}, "_type": "List"},
    "tags": {"feature": LABEL, "_type": "List"},
    "nested": {"label": LABEL, "spans": [{"kind": LABEL}]},
    "listed": {"feature": {"kind": LABEL}, "_type": "Sequence"},
}
ROWS = [
    {
        "id": number,
        "tokens": ["Ann", "Lee", f"{number}"],
        "tags": [1, 2, 0],
        "nested": {"label": -1 if number else 2, "spans": [{"kind": 1}]},
        "listed": {"kind": [0, 2]} if number else None,
        "score": number / 2 if number else None,
        "day": datetime.date(2026, 11, 26),
        "cost": decimal.Decimal("1.50"),
    }
    for number in range(5)
]
WANT = [
    {
        "id": number,
        "tokens": ["Ann", "Lee", f"{number}"],
        "tags": ["B-PER", "I-PER", "O"],
        "nested": {"label": None if number else "I-PER", "spans": [{"kind": "B-PER"}]},
        "listed": {"kind": ["O", "I-PER"]} if number else None,
        "score": number / 2 if number else None,
        "day": "2026-11-26",
        "cost": "1.50",
    }
    for number in range(5)
]


def table(rows=ROWS, features=FEATURES):
    about = json.dumps({"info": {"features": features}})
    made = pa.Table.from_pylist(rows)
    return made.replace_schema_metadata({"huggingface": about})


def parquet(path, made):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(made, path, row_group_size=2)
    return path


def arrow(path, made, new=pa.ipc.new_stream):
    path.parent.mkdir(parents=True, exist_ok=True)
    with new(path, made.schema) as writer:
        writer.write_table(made, max_chunksize=2)
    return path


def saved(folder, made):
    """As `Dataset.save_to_disk` writes it, in two files."""
    # Not by name: the order is that of state.json.
    names = ["b.arrow", "a.arrow"]
    for name, part in zip(names, (made.slice(0, 3), made.slice(3)), strict=True):
        arrow(folder / name, part)
    files = [{"filename": name} for name in names]
    (folder / "state.json").write_text(json.dumps({"_data_files": files}))
    (folder / "dataset_info.json").write_text("{}")
    return folder


def shards(folder, made):
    parquet(folder / "data" / "train-00000-of-00002.parquet", made.slice(0, 3))
    parquet(folder / "data" / "train-00001-of-00002.parquet", made.slice(3))
    return folder


FORMS = {
    "parquet": lambda folder, made: parquet(folder / "a.parquet", made),
    "stream": lambda folder, made: arrow(folder / "a.arrow", made),
    "file": lambda folder, made: arrow(folder / "a.arrow", made, pa.ipc.new_file),
    "saved": lambda folder, made: saved(folder / "saved", made),
    "shards": lambda folder, made: shards(folder / "hub", made),
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_are_those_of_json(form, tmp_path):
    path = FORMS[form](tmp_path, table())
    assert arrow_files.is_arrow(path)
    found = list(arrow_files.read_rows(path))
    assert found == list(enumerate(WANT, start=1))
    assert json.loads(json.dumps(found[0][1])) == WANT[0]


def test_other_paths_are_none_of_these(tmp_path):
    (tmp_path / "neg").mkdir()
    (tmp_path / "neg" / "1.txt").touch()
    for path in (tmp_path, tmp_path / "neg" / "1.txt", tmp_path / "none"):
        assert not arrow_files.is_arrow(path)


def test_a_split_of_several_must_be_named(tmp_path):
    for split in ("train", "test"):
        saved(tmp_path / "dict" / split, table())
        parquet(tmp_path / "hub" / f"{split}-00000-of-00001.parquet", table())
        parquet(tmp_path / "by_folder" / split / "0000.parquet", table())
    (tmp_path / "dict" / "dataset_dict.json").write_text("{}")
    for name, said in (
        ("dict", "dict has the splits test, train; name one, as .*dict/test$"),
        ("hub", r"hub has the splits test, train; name one, as .*hub/test\*.parquet$"),
        ("by_folder", "by_folder has the splits test/, train/; name one, as "),
    ):
        assert arrow_files.is_arrow(tmp_path / name)
        with pytest.raises(BadRecordError, match=f"several splits: .*{said}"):
            list(arrow_files.read_rows(tmp_path / name))
    assert len(list(arrow_files.read_rows(tmp_path / "dict" / "test"))) == 5
    state = {"_data_files": [{"filename": "../other.arrow"}]}
    (tmp_path / "dict" / "test" / "state.json").write_text(json.dumps(state))
    with pytest.raises(BadRecordError, match="names '../other.arrow', which lies outs"):
        list(arrow_files.read_rows(tmp_path / "dict" / "test"))


@pytest.mark.parametrize("form", ["parquet", "stream", "file"])
@pytest.mark.parametrize("left", [0, 30, -40])
def test_a_broken_file_is_one_error(form, left, tmp_path):
    path = FORMS[form](tmp_path, table())
    path.write_bytes(path.read_bytes()[:left])
    kind = "Parquet" if form == "parquet" else "Arrow"
    with pytest.raises(BadRecordError, match=f"broken {kind}: {re.escape(str(path))}"):
        list(arrow_files.read_rows(path))
    problems = Problems()
    assert len(list(token_classification.records.read([path], problems))) < len(ROWS)
    assert problems.first_of_files() is not None
    *_, raw = read_inputs([str(path)])
    assert "cannot be read: broken" in raw.fault
    with pytest.raises(FileNotFoundError):
        list(arrow_files.read_rows(tmp_path / f"none{path.suffix}"))


@pytest.mark.parametrize("about", ["{", "[]", "[" * 100_000])
def test_broken_notes_on_columns_are_one_error(about, tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"text": ["red"]}, metadata={"huggingface": about}), path)
    with pytest.raises(BadRecordError, match="broken header: .*x.parquet, after row 0"):
        list(arrow_files.read_rows(path))


def test_without_pyarrow_there_is_one_error(tmp_path, monkeypatch):
    path = parquet(tmp_path / "a.parquet", table())
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install \"etc_jax\[parquet\]\""):
        list(read_texts(str(path), "text", lambda row: row))


@pytest.mark.parametrize("form", ["parquet", "stream"])
def test_some_rows_are_in_memory_and_one_that_is_too_large_is_named(
    form, tmp_path, monkeypatch
):
    monkeypatch.setenv(VARIABLE, "1")
    rows = [{"text": f"{n:06}" * 1000} for n in range(4000)]
    rows[7] = {"text": "x" * 1_200_000}
    path = FORMS[form](tmp_path, pa.Table.from_pylist(rows))
    before, most, large = pa.total_allocated_bytes(), 0, []
    for number, row in arrow_files.read_rows(path):
        most = max(most, pa.total_allocated_bytes() - before)
        if isinstance(row, BadRecordError):
            large.append((number, str(row)))
    assert number == 4000 and most < 6_000_000
    [(number, said)] = large
    assert number == 8 and said.startswith("row too large: it has 1,200,0")


def test_all_that_reads_json_lines_reads_rows(tmp_path):
    texts = [
        {"id": n, "text": f"text {n}\n\nend", "input": f"{n}", "target": "t"}
        for n in range(3)
    ]
    path = shards(tmp_path / "hub", pa.Table.from_pylist(texts))
    source = read_documents(path, format="jsonl")
    documents = list(source)
    assert [d.paragraphs for d in documents] == [(f"text {n}", "end") for n in range(3)]
    assert documents[0].name == "hub/data/train-00000-of-00002.parquet:1"
    assert len(source.describe()["files"]) == 2
    wheres, rows = zip(*read_texts(str(path), "text", lambda row: row), strict=True)
    assert wheres[2] == f"{path}, row 3" and [r.values for r in rows] == texts
    assert [x.input for x in pairs.read_complete([path])] == ["0", "1", "2"]
    assert [x.id for x in text_to_text.DATA_SET.read([path])] == ["0", "1", "2"]
    tagged = saved(tmp_path / "saved", table())
    options = token_classification.records.TokenClassificationOptions().completed(
        [tagged]
    )
    assert (options.scheme, options.labels) == ("iob2", ("B-PER", "I-PER", "O"))
    assert [raw.value for raw in read_inputs([str(tagged)])] == WANT
    with pytest.raises(ValueError, match="has rows with fields; read it as JSON lines"):
        read_documents(path, format="text")
