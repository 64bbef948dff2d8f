"""Reformer beside transformers' at tiny sizes: the same function, or no timing."""

import dataclasses

import numpy as np
import pytest

from benchmarks.kit import memory
from benchmarks.kit.harness import WrongSideError
from benchmarks.speed import reformer_sides, reformer_speed
from benchmarks.speed.reformer_sides import JaxLm, LmSizes

TINY = LmSizes(
    length=64, embed_dim=16, num_heads=2, mlp_dim=24, num_layers=4, chunk_length=8
)


def test_sizes_that_transformers_cannot_train_are_refused():
    with pytest.raises(ValueError, match="length 60 is not two or more chunks of 8"):
        dataclasses.replace(TINY, length=60)
    with pytest.raises(ValueError, match="length 8 is not two or more chunks of 8"):
        dataclasses.replace(TINY, length=8)


@pytest.mark.parametrize("length", [64, 128, 192])
def test_positions_are_as_many_as_tokens(length):
    config = dataclasses.replace(TINY, length=length).config
    assert np.prod(config.axial_shape) == config.max_length == length
    assert not list(config.problems())


def test_an_unknown_side_is_refused():
    with pytest.raises(ValueError, match="side 'trax' is not one of"):
        reformer_sides.build("trax", TINY)


def test_this_librarys_side_gives_loss_and_gradients_of_every_weight():
    side = JaxLm(TINY)
    result = side.run()
    gradients = side.gradients(result)
    assert float(result[0]) == pytest.approx(np.log(256), rel=0.1)
    assert reformer_sides.gradient_error(gradients, gradients) == 0
    twice = {k: v for k, v in gradients.items()}
    twice["encoder"] = {k: v for k, v in gradients["encoder"].items()}
    twice["encoder"]["final_norm"] = {
        k: 2 * v for k, v in gradients["encoder"]["final_norm"].items()
    }
    assert reformer_sides.gradient_error(twice, gradients) > 1e-3
    assert side.more["xla_temp_bytes"] > 0


@pytest.mark.torch
def test_transformers_has_the_same_loss_and_gradients():
    pytest.importorskip("transformers")
    sides, error = reformer_speed.make_sides(TINY)
    assert error < 1e-4
    own, other = (side.arrays(side.run())["loss"] for side in sides)
    assert other == pytest.approx(own, rel=1e-6)


@pytest.mark.torch
def test_gradients_of_another_model_are_refused(monkeypatch):
    pytest.importorskip("transformers")
    right = reformer_speed.JaxLm

    def wrong(sizes, rotations):
        return right(sizes, 1 - rotations)  # other buckets

    monkeypatch.setattr(reformer_speed, "JaxLm", wrong)
    with pytest.raises(WrongSideError, match="transformers: gradients differ"):
        reformer_speed.make_sides(TINY)


@pytest.mark.torch
def test_json_of_a_run_has_both_sides_and_the_floors(run, monkeypatch):
    pytest.importorskip("transformers")
    monkeypatch.setattr(
        memory,
        "measure",
        lambda builder, of: {"peak_bytes": 70 if of["name"] == "etc_jax" else 100},
    )
    monkeypatch.setattr(memory, "calibration_error", lambda: 0.01)
    given = {k: v for k, v in dataclasses.asdict(TINY).items() if k != "length"}
    argv = [f"--{k}={v}" for k, v in given.items()]
    argv += ["--lengths=64", "--rounds=2", "--allow_busy"]
    code, got = run(reformer_speed.main, *argv)
    (result,) = got["results"]
    assert [row["name"] for row in result["rows"]] == ["etc_jax", "transformers"]
    assert result["rows"][1]["error"] <= 1e-6
    assert result["gradient_error"] < 1e-4
    faster, smaller = got["floors"]
    assert smaller["got"] == 0.7 and smaller["holds"]
    assert faster["got"] == result["rows"][1]["ratio"]
    assert code == (0 if faster["holds"] else 1)
    assert got["shapes"]["chunk_length"] == 8
