"""Checkpoints that were made by earlier versions load bit by bit.

How they were made: golden_checkpoint/make.py.
"""

import hashlib
import json
import pathlib
import shutil

import jax
import numpy as np
import pytest
from checkpoint_states import restore, wanted

from etc_jax.sharding import MeshConfig, make_mesh, path_of

GOLDEN = pathlib.Path(__file__).parent / "golden_checkpoint"
NAMES = sorted(path.stem for path in GOLDEN.glob("*.json"))


def test_there_is_one_and_it_is_small():
    assert "v0.1" in NAMES
    sizes = [path.stat().st_size for path in GOLDEN.rglob("*") if path.is_file()]
    assert sum(sizes) < 100_000 * len(NAMES)


@pytest.mark.parametrize("sizes", [(8, 1, 1), (1, 4, 2)])
@pytest.mark.parametrize("name", NAMES)
def test_an_old_checkpoint_loads_bit_by_bit(name, sizes, tmp_path):
    shutil.copytree(GOLDEN / name, tmp_path, dirs_exist_ok=True)
    expected = json.loads((GOLDEN / f"{name}.json").read_text())["arrays"]
    got = restore(tmp_path, wanted(make_mesh(MeshConfig(*sizes))))
    assert got is not None and got.data["step"] == 12
    digests = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(got.state)[0]:
        array = np.asarray(leaf)
        head = f"{array.dtype}{list(array.shape)}".encode()
        digests[path_of(path)] = hashlib.sha256(head + array.tobytes()).hexdigest()
    assert digests == expected and len(digests) >= 20
