"""What BigBird draws: the rules, and the draw of transformers in training."""

import dataclasses
import json

import jax
import numpy as np
import pytest
from random_params import drawn

from etc_jax.conversion import hugging_face
from etc_jax.models.big_bird.config import BigBirdConfig
from etc_jax.models.encoder import weights as conversion
from etc_jax.models.encoder.body import EncoderForMaskedLm
from etc_jax.ops.attention.parts.random_blocks import draw, draw_after_globals

SIZES = {"max_length": 4096, "block_size": 64, "num_random": 3}


@pytest.mark.parametrize("length", [768, 1024, 2048, 4096])
def test_blocks_are_new_to_those_that_see_them(length):
    got = draw(2, 4, length, **SIZES)
    blocks = length // 64
    assert got.shape == (2, 4, blocks - 2, 3) and got.dtype == np.int32
    near = 16 if length in (1024, 4096) else 11
    assert got.min() >= 1 and got.max() < near
    for layer in got:
        for rows in layer:
            for i, row in enumerate(rows, start=1):
                assert len(set(row.tolist())) == 3
                # Two blocks before the last of the longest input are an exception.
                if i < 64 - 3:
                    assert np.abs(row - i).min() > 1
    assert not np.array_equal(got[0], got[1])
    assert not np.array_equal(got[0, 0], got[0, 1])
    np.testing.assert_array_equal(got, draw(2, 4, length, **SIZES))


@pytest.mark.parametrize("length", [700, 704, 8192])
def test_lengths_that_are_not_drawn_for_are_refused(length):
    with pytest.raises(ValueError, match=f"length is {length}; expected a multiple of"):
        draw(1, 1, length, **SIZES)


def test_after_globals_each_block_draws_others_that_it_does_not_see():
    got = draw_after_globals(2, 3, 9, 3)
    assert got.shape == (2, 3, 9, 3) and got.dtype == np.int32
    for layer in got:
        for rows in layer:
            for block, row in enumerate(rows):
                assert len(set(row.tolist())) == 3
                assert np.abs(row - block).min() > 1
    assert not np.array_equal(got[0], got[1])
    assert not np.array_equal(got[0, 0], got[0, 1])
    np.testing.assert_array_equal(got, draw_after_globals(2, 3, 9, 3))


def test_after_globals_all_that_may_be_drawn_are_drawn_alike():
    got = draw_after_globals(1, 4000, 6, 2)[0]
    for block in range(6):
        counts = np.bincount(got[:, block].ravel(), minlength=6)
        far = np.abs(np.arange(6) - block) > 1
        assert not counts[~far].any()
        # Of a mean of 2,000 or more, five standard deviations are 224 at most.
        np.testing.assert_allclose(counts[far], 8000 / far.sum(), atol=224)


def test_where_fewer_may_be_drawn_all_are():
    got = draw_after_globals(1, 2, 4, 3)
    far = [[-1, 2, 3], [-1, -1, 3], [-1, -1, 0], [-1, 0, 1]]
    np.testing.assert_array_equal(np.sort(got), [[np.sort(far)] * 2])
    assert draw_after_globals(1, 2, 0, 3).shape == (1, 2, 0, 3)


def _config(**changes):
    return BigBirdConfig(
        **{
            "vocab_size": 19,
            "embed_dim": 12,
            "num_layers": 2,
            "num_heads": 3,
            "mlp_dim": 10,
            "max_length": 1088,
            "block_size": 16,
            "num_random_blocks": 2,
            "dropout_rate": 0.0,
            "attention_dropout_rate": 0.0,
            **changes,
        }
    )


def _params(config):
    shapes = conversion.shapes(EncoderForMaskedLm(config))
    return drawn(shapes, spread=0.5, center=0.2, scale=0.2)


@pytest.mark.parametrize("num_globals", [0, 24])
@pytest.mark.full(but=["0"])
def test_they_are_drawn_when_the_config_says_so(num_globals):
    config = _config(max_length=256, num_globals=num_globals)
    params = _params(config)
    tokens = np.random.default_rng(1).integers(0, 19, (1, 250)).astype(np.int32)

    def logits(when, deterministic):
        made = dataclasses.replace(config, random_blocks=when)
        model = EncoderForMaskedLm(made, deterministic)
        return np.asarray(jax.jit(model.apply)({"params": params}, tokens))

    always, other = logits("always", True), logits("never", True)
    assert np.abs(always - other).max() > 1e-3
    np.testing.assert_array_equal(logits("training", True), other)
    np.testing.assert_array_equal(logits("training", False), always)


@pytest.mark.torch
@pytest.mark.parametrize("length", [200, 208, 1024])
def test_they_are_those_of_transformers_in_training(length, tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = _config(random_blocks="always")
    params = _params(config)
    hugging_face.save(tmp_path / "model", params, config)
    values = json.loads((tmp_path / "model" / "config.json").read_text())
    assert "random_blocks" not in values
    theirs = transformers.BigBirdForMaskedLM.from_pretrained(tmp_path / "model")
    tokens = np.random.default_rng(1).integers(1, 19, (1, length)).astype(np.int32)
    with torch.no_grad():
        want = theirs.train()(torch.tensor(tokens).long()).logits.numpy()
    with jax.default_matmul_precision("highest"):
        got = EncoderForMaskedLm(config).apply({"params": params}, tokens)
    np.testing.assert_allclose(np.asarray(got), want, atol=1e-4, rtol=1e-4)
