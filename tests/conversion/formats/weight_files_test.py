"""Weights of torch's own format, which needs torch, and what is refused."""

import json
import pickle
import sys

import numpy as np
import pytest
from bombs import Bomb

from etc_jax.conversion.formats import safetensors_io
from etc_jax.conversion.formats.weight_files import BIN, BIN_INDEX, open_weights


def test_without_torch_the_file_is_named(tmp_path, monkeypatch):
    (tmp_path / BIN).write_bytes(b"")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ValueError, match=f"but {BIN}, which torch reads; install it"):
        open_weights(tmp_path)


def test_safetensors_come_first(tmp_path):
    (tmp_path / BIN).write_bytes(b"nothing that could be read")
    safetensors_io.write(tmp_path / safetensors_io.FILE, {"a": np.ones(2)})
    np.testing.assert_array_equal(open_weights(tmp_path)["a"], [1, 1])


def test_a_folder_without_weights_is_told(tmp_path):
    with pytest.raises(ValueError, match="has neither model.safetensors nor"):
        open_weights(tmp_path)


@pytest.mark.torch
def test_tensors_are_read_as_they_are(tmp_path):
    torch = pytest.importorskip("torch")
    ones = torch.arange(6.0).reshape(2, 3)
    tensors = {
        "a": ones,
        "b": ones.T,
        "half": ones.bfloat16(),
        "ids": torch.tensor([7]),
    }
    torch.save(tensors, tmp_path / BIN)
    got = open_weights(tmp_path)
    assert sorted(got) == sorted(tensors)
    np.testing.assert_array_equal(got["a"], np.arange(6).reshape(2, 3))
    np.testing.assert_array_equal(got["b"], np.arange(6).reshape(2, 3).T)
    assert got["half"].dtype.name == "bfloat16" and got["ids"].dtype == np.int64
    np.testing.assert_array_equal(got["half"].astype(np.float32), got["a"])


@pytest.mark.torch
def test_shards_are_read_by_their_index(tmp_path):
    torch = pytest.importorskip("torch")
    names = {"a": "one.bin", "b": "two.bin"}
    for name, file in names.items():
        torch.save({name: torch.zeros(2)}, tmp_path / file)
    (tmp_path / BIN_INDEX).write_text(json.dumps({"weight_map": names}))
    assert sorted(open_weights(tmp_path)) == ["a", "b"]
    (tmp_path / "two.bin").unlink()
    with pytest.raises(ValueError, match="names \\['two.bin'\\], which are not there"):
        open_weights(tmp_path)
    (tmp_path / BIN_INDEX).write_text("{}")
    with pytest.raises(ValueError, match="is no index of shards"):
        open_weights(tmp_path)


@pytest.mark.torch
@pytest.mark.parametrize("whole", [True, False])
def test_a_pickle_that_runs_code_is_refused(tmp_path, whole):
    torch = pytest.importorskip("torch")
    content = {"a": Bomb(tmp_path / "ran")}
    if whole:
        torch.save(content, tmp_path / BIN)
    else:
        (tmp_path / BIN).write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(ValueError, match="holds other things than tensors"):
        open_weights(tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.torch
def test_a_damaged_file_and_one_of_other_things_are_named(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save({"a": torch.zeros(2), "step": 3}, tmp_path / BIN)
    with pytest.raises(ValueError, match="holds int as 'step'; expected tensors"):
        open_weights(tmp_path)
    whole = (tmp_path / BIN).read_bytes()
    (tmp_path / BIN).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="is damaged, or holds other"):
        open_weights(tmp_path)
