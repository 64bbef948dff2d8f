"""Beam search beside transformers: both sides write the same texts."""

import dataclasses

import numpy as np
import pytest

from benchmarks.kit.harness import WrongSideError, check
from benchmarks.speed import generation
from benchmarks.speed.generation import GenerationSizes

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("model", generation.LENGTHS)
def test_both_sides_write_the_same_texts(model, monkeypatch):
    sizes = GenerationSizes(
        model, length=40, batch_size=2, num_beams=3, max_tokens=6, num_layers=1
    )
    narrow = dataclasses.replace(
        generation.SIZES[model], embed_dim=24, num_heads=2, mlp_dim=16
    )
    monkeypatch.setitem(generation.SIZES, model, narrow)
    for sides in generation.make_sides(sizes):
        for side in sides:
            error = check(side, tolerance=generation.TOLERANCE)
            assert error is None or error < 1e-5
    own, other = (
        x(sizes) for x in (generation.JaxWriter, generation.TransformersWriter)
    )
    np.testing.assert_array_equal(own.ids(own.run()), other.ids(other.run()))
    # Other weights on one side are found out.
    others = generation.JaxWriter(dataclasses.replace(sizes, seed=1))
    monkeypatch.setitem(generation._KINDS, "etc_jax", lambda sizes: others)
    (_, other), _ = generation.make_sides(sizes)
    with pytest.raises(WrongSideError, match="scores differs from the oracle"):
        check(other, tolerance=generation.TOLERANCE)
