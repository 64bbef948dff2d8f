"""PyTorch peers compute the same layer, from the same weights, or are refused."""

import dataclasses

import numpy as np
import pytest

from benchmarks import harness, layer_sides
from benchmarks.problem import Sizes

pytestmark = pytest.mark.torch
pytest.importorskip("torch")
pytest.importorskip("transformers")

# 51 tokens: no multiple of Longformer's window (10), nor of BigBird's block (4).
TINY = Sizes(
    long_length=45,
    global_length=6,
    radius=5,
    max_distance=3,
    embed_dim=16,
    num_heads=2,
    mlp_dim=24,
    bigbird_block_size=4,
)


@pytest.mark.parametrize(
    ("name", "gradient"),
    [
        *[("hf_longformer", False), ("hf_longformer", True), ("torch_sdpa", True)],
        *[("hf_bigbird", False), ("hf_bigbird", True)],
    ],
)
def test_peer_equals_this_librarys_layer(name, gradient):
    (side,) = layer_sides.make_sides([name], TINY, gradient=gradient)
    assert harness.check(side, tolerance=1e-5) <= 1e-5


def test_bigbird_refuses_inputs_that_its_blocks_do_not_fit():
    sizes = dataclasses.replace(TINY, bigbird_block_size=64)
    with pytest.raises(ValueError, match="needs more than 704 tokens, got 64"):
        layer_sides.make_sides(["hf_bigbird"], sizes, gradient=False)


def test_a_peer_with_another_window_is_refused():
    wide = dataclasses.replace(TINY, radius=6)
    (other,) = layer_sides.make_sides(["hf_longformer"], wide, gradient=False)
    (side,) = layer_sides.make_sides(["hf_longformer"], TINY, gradient=False)
    wrong = dataclasses.replace(side, run=other.run)
    with pytest.raises(harness.WrongSideError, match="hf_longformer: output differs"):
        harness.check(wrong, tolerance=layer_sides.TOLERANCE)


def test_gradients_do_not_add_up_over_calls():
    (side,) = layer_sides.make_sides(["hf_longformer"], TINY, gradient=True)
    first = side.arrays(side.run())
    second = side.arrays(side.run())
    for name in first:
        np.testing.assert_allclose(second[name], first[name], rtol=1e-5, atol=1e-5)


def test_peers_get_as_many_threads_as_this_process_has_cores():
    import torch

    from benchmarks import machine

    layer_sides.make_sides(["torch_sdpa"], TINY, gradient=False)
    assert torch.get_num_threads() == machine.num_threads()
