"""Encoders with more tokens: old rows, new rows, and what the model says."""

import dataclasses

import jax
import numpy as np
import pytest
from random_params import drawn

from etc_jax.conversion.engine import flatten
from etc_jax.conversion.families import encoder as conversion
from etc_jax.conversion.surgery.grow import grow
from etc_jax.models.encoder import (
    BertConfig,
    EncoderForMaskedLm,
    LongformerConfig,
    RobertaConfig,
)
from etc_jax.models.encoder_heads import EncoderForLabels

SIZES = {
    "vocab_size": 19,
    "embed_dim": 12,
    "num_layers": 1,
    "num_heads": 3,
    "mlp_dim": 10,
    "max_length": 16,
    "attention": "dense",
}
CONFIGS = {
    "bert": BertConfig(**SIZES),
    "roberta": RobertaConfig(**SIZES),
    "longformer": LongformerConfig(**SIZES, attention_window=(4,)),
}
TABLE = "encoder/embeddings/token_embedder/embedding"


def random_params(model):
    return drawn(conversion.shapes(model), center=0.1, scale=0.1)


@pytest.mark.parametrize("family", ["roberta", "longformer"])
def test_old_tokens_get_the_logits_that_they_had(family):
    config = CONFIGS[family]
    params = random_params(EncoderForMaskedLm(config))
    made = grow(params, config, 3)
    assert made.config == dataclasses.replace(config, vocab_size=22)
    assert made.difference < 1e-6
    tokens = np.random.default_rng(1).integers(2, 19, (2, 9)).astype(np.int32)
    index = {"global_index": np.zeros((2, 1), np.int32)}
    more = index if family == "longformer" else {}
    want = jax.jit(EncoderForMaskedLm(config).apply)({"params": params}, tokens, **more)
    apply = jax.jit(EncoderForMaskedLm(made.config).apply)
    got = apply({"params": made.params}, tokens, **more)
    np.testing.assert_allclose(got[..., :19], want, atol=1e-5)
    assert got.shape == (2, 9, 22)
    # A new token is another one than those before it.
    new = np.where(tokens == tokens[0, 3], 20, tokens)
    other = apply({"params": made.params}, new, **more)
    assert np.abs(other - got).max() > 0.01


def test_nothing_but_the_rows_of_the_vocabulary_changes():
    config = dataclasses.replace(CONFIGS["roberta"], embed_dim=48, num_heads=4)
    params = random_params(EncoderForMaskedLm(config))
    made = grow(params, config, 40, seed=5)
    before, after = flatten(params), flatten(made.params)
    assert before.keys() == after.keys()
    for path, array in before.items():
        np.testing.assert_array_equal(after[path][: len(array)], array)
    longer = {path for path in before if len(after[path]) != len(before[path])}
    assert longer == {TABLE, "mlm_bias"}
    assert not after["mlm_bias"][19:].any()
    new = after[TABLE][19:]
    assert new.shape == (40, 48) and new.dtype == np.float32
    # 1,920 numbers: the share of 2% is four standard errors and more of each figure.
    assert abs(new.std() / config.initializer_range - 1) < 0.07
    assert abs(new.mean()) < 0.1 * config.initializer_range
    assert len(np.unique(new)) == new.size
    same, other = (grow(params, config, 40, seed=s).params for s in (5, 6))
    np.testing.assert_array_equal(flatten(same)[TABLE], after[TABLE])
    assert not np.array_equal(flatten(other)[TABLE], after[TABLE])


def test_a_model_with_another_head_keeps_it_and_the_dtype():
    config = CONFIGS["bert"]
    params = random_params(EncoderForLabels(config, 3))
    params = jax.tree.map(lambda x: x.astype(np.float16), params)
    made = grow(params, config, 1)
    assert "mlm_bias" not in made.params
    np.testing.assert_array_equal(
        made.params["label_out"]["kernel"], params["label_out"]["kernel"]
    )
    assert {x.dtype for x in jax.tree.leaves(made.params)} == {np.dtype(np.float16)}


def test_a_model_that_is_not_finite_is_refused():
    config = CONFIGS["bert"]
    params = random_params(EncoderForMaskedLm(config))
    params["encoder"]["embeddings"]["token_embedder"]["embedding"][3] = np.nan
    with pytest.raises(ValueError, match="short inputs differ by nan between the mod"):
        grow(params, config, 1)
