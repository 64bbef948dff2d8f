"""The benchmark of the attention operation alone, at tiny sizes."""

import pytest

from benchmarks.kit import harness
from benchmarks.speed import attention
from benchmarks.speed.problem import Sizes

TINY = Sizes(
    long_length=40, global_length=3, radius=5, max_distance=3, embed_dim=16, num_heads=2
)


@pytest.fixture(scope="module")
def made():
    sides, temp_bytes = attention.make_sides(
        attention.SIDES, TINY, gradient=True, dtype="float32", checked=True
    )
    return {side.name: side for side in sides}, temp_bytes


@pytest.mark.parametrize("name", attention.SIDES)
def test_sides_compute_the_same(made, name):
    sides, temp_bytes = made
    assert harness.check(sides[name], tolerance=1e-5) <= 1e-5
    assert temp_bytes[name] > 0


def test_gradients_are_of_queries_keys_values_and_labels(made):
    side = made[0]["etc"]
    names = {"grad query", "grad key", "grad value", "output"}
    for table in ("long_labels", "global_labels"):
        names |= {f"grad {table}/embedding", f"grad {table}/bias"}
    assert side.arrays(side.run()).keys() == names


def test_json_covers_lengths_and_leaves_dense_forms_out_beyond_their_limit(run):
    argv = ["--lengths=32,64", "--max_dense_length=32", "--rounds=2", "--radius=5"]
    argv += ["--embed_dim=16", "--num_heads=2", "--allow_busy"]
    argv += ["--dtype=bfloat16", "--modes=forward"]
    code, got = run(attention.main, *argv)
    assert code == 0
    assert got["dtype"] == "bfloat16"
    assert got["shapes"]["lengths"] == [32, 64]
    found = [
        (r["long_length"], r["global_length"], r["mode"], r["checked"], len(r["rows"]))
        for r in got["results"]
    ]
    assert found == [
        (32, 2, "forward", True, 4),
        (64, 4, "forward", False, 1),
    ]
    assert all(row["error"] is None for row in got["results"][-1]["rows"])
    assert all(row["error"] <= 3e-2 for row in got["results"][0]["rows"])
