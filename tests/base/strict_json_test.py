"""One reader for all JSON of our own, which says in words what is wrong."""

import pytest

from etc_jax.base import strict_json
from etc_jax.data.array_folder import FolderFormat
from etc_jax.prediction import answer_parts
from etc_jax.tasks import stats
from etc_jax.training.preflight import compiling
from etc_jax.training.reporting import curves

DEEP = "[" * 100_000


@pytest.mark.parametrize(
    "text, message",
    [
        (DEEP, "nested too deeply"),
        (DEEP.encode(), "nested too deeply"),
        ('{"a": 1, "a": 2}', "the key 'a' twice"),
        ("{", "Expecting property name"),
        (b"\xff", "can't decode"),
    ],
)
def test_what_is_wrong_is_a_value_error(text, message):
    with pytest.raises(ValueError, match=message):
        strict_json.loads(text)


def _header(path):
    (path / "header.json").write_text(DEEP)
    return path


def _file(path, name="file"):
    (path / name).write_text(DEEP)
    return path / name


READERS = {
    "stats": lambda path: stats.of_cache(_header(path)),
    "cache": lambda path: FolderFormat("cache", 1, 0).read_header(_header(path)),
    "a part of an evaluation": lambda path: answer_parts._opened(_file(path)),
    "metrics": lambda path: curves.draw(_file(path, "metrics.jsonl").parent),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_file_nested_too_deeply_is_told(reader, tmp_path):
    with pytest.raises((ValueError, answer_parts._DamagedError), match="too deeply"):
        READERS[reader](tmp_path)


def test_times_of_compilations_that_cannot_be_read_are_none(
    tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(compiling, "_file", lambda: _file(tmp_path))
    assert compiling._saved_times() == {}
    assert "nested too deeply" in caplog.text
