"""Where copies of objects may lie; the others: `tests/data/stored_data_test.py`."""

import pytest

from etc_jax.base import copies, user_cache
from etc_jax.base.stores import Object


@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "/evil", "a/..", ""])
def test_no_object_is_copied_out_of_its_folder(tmp_path, monkeypatch, name):
    monkeypatch.setenv(user_cache.VARIABLE, str(tmp_path / "cache"))
    (tmp_path / "cache/files/bucket").mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match="leads out of .*; give the object another"):
        copies.fetch({name: Object(name, 0, "", None)}, tmp_path / "cache/files/bucket")
    if name.strip("/"):
        with pytest.raises(ValueError, match="leads out of"):
            copies.place(f"gs://bucket/../{name}")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_bucket_is_no_output():
    with pytest.raises(ValueError, match="gs://bucket is a bucket; expected"):
        copies.Output("gs://bucket")
