"""Models with more tokens: old rows, new rows, and what the model says."""

import dataclasses

import jax
import numpy as np
import pytest
import random_encoder_decoders
from hf_models import TINY, params_of

from etc_jax.conversion.engine import flatten
from etc_jax.models.bart.config import BartConfig
from etc_jax.models.bart_ls.config import BartLsConfig
from etc_jax.models.bert.config import BertConfig
from etc_jax.models.encoder.body import EncoderForMaskedLm
from etc_jax.models.encoder.heads import EncoderForLabels
from etc_jax.models.encoder_decoder import weights as encoder_decoder
from etc_jax.models.encoder_decoder.body import EncoderDecoder
from etc_jax.models.etc.config import EtcConfig
from etc_jax.models.grow import grow
from etc_jax.models.longformer.config import LongformerConfig
from etc_jax.models.roberta.config import RobertaConfig
from etc_jax.models.t5.config import T5Config

CONFIGS = {
    "bert": BertConfig(**TINY),
    "roberta": RobertaConfig(**TINY),
    "longformer": LongformerConfig(**TINY, attention_window=(4,)),
}
TABLE = "encoder/embeddings/token_embedder/embedding"


@pytest.mark.parametrize("family", ["roberta", "longformer"])
@pytest.mark.full(but=["roberta"])
def test_old_tokens_get_the_logits_that_they_had(family):
    config = CONFIGS[family]
    params = params_of(config)
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
    params = params_of(config)
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
    # 1,920 numbers of a normal distribution, cut at two standard deviations: so a new
    # model's are drawn. The tolerance is four standard errors and more of each figure.
    assert abs(new.std() / config.initializer_range - 0.88) < 0.06
    assert np.abs(new).max() <= 2.001 * config.initializer_range
    assert abs(new.mean()) < 0.1 * config.initializer_range
    assert len(np.unique(new)) == new.size
    same, other = (grow(params, config, 40, seed=s).params for s in (5, 6))
    np.testing.assert_array_equal(flatten(same)[TABLE], after[TABLE])
    assert not np.array_equal(flatten(other)[TABLE], after[TABLE])


def test_a_model_with_another_head_keeps_it_and_the_dtype():
    config = CONFIGS["bert"]
    params = params_of(EncoderForLabels(config, num_labels=3))
    params = jax.tree.map(lambda x: x.astype(np.float16), params)
    made = grow(params, config, 1)
    assert "mlm_bias" not in made.params
    np.testing.assert_array_equal(
        made.params["label_out"]["kernel"], params["label_out"]["kernel"]
    )
    assert {x.dtype for x in jax.tree.leaves(made.params)} == {np.dtype(np.float16)}


PAIRS = {
    "embed_dim": 48,
    "num_heads": 4,
    "num_layers": 1,
    "num_decoder_layers": 1,
    "mlp_dim": 10,
    "max_length": 32,
    "vocab_size": 23,
}
# Family -> (config, what has a number for each token, and on which axis).
PAIR_FAMILIES = {
    "bart": (
        BartConfig(**PAIRS),
        {"token_embedder/embedding": 0, "logits_bias": 0},
    ),
    "t5": (
        T5Config(**PAIRS, head_dim=4, tied_logits=False),
        {"token_embedder/embedding": 0, "logits/kernel": 1},
    ),
    "bart_ls": (
        BartLsConfig(
            **PAIRS | {"num_layers": 2},
            block_size=16,
            pooling_layers=1,
            max_target_length=32,
        ),
        {"token_embedder/embedding": 0, "logits_bias": 0},
    ),
}


@pytest.mark.parametrize("family", PAIR_FAMILIES)
@pytest.mark.full(but=["t5"])
def test_an_encoder_decoder_grows_wherever_it_has_numbers_of_tokens(family):
    config, axes = PAIR_FAMILIES[family]
    params = random_encoder_decoders.random_params(config, 1)
    made = grow(params, config, 40)
    assert made.config == dataclasses.replace(config, vocab_size=63)
    assert made.difference < 1e-6
    # It has the shapes of a model of that size.
    want = flatten(encoder_decoder.shapes(made.config))
    assert {k: x.shape for k, x in flatten(made.params).items()} == {
        k: x.shape for k, x in want.items()
    }
    before, after = flatten(params), flatten(made.params)
    for path, array in before.items():
        rows = np.take(after[path], range(23), axes[path]) if path in axes else None
        np.testing.assert_array_equal(after[path] if rows is None else rows, array)
    # New rows are as wide as those of a new model: of T5's table 1, of others 0.02.
    new = after["token_embedder/embedding"][23:]
    spread = 0.88 * config.spreads(config.encoder_side).table
    assert abs(new.std() / spread - 1) < 0.07


@pytest.mark.full
def test_an_encoder_decoder_reads_and_writes_old_tokens_as_before():
    config, _ = PAIR_FAMILIES["t5"]
    params = random_encoder_decoders.random_params(config, 1)
    made = grow(params, config, 40)
    tokens = np.random.default_rng(1).integers(2, 23, (2, 9)).astype(np.int32)
    want, got = (
        jax.jit(EncoderDecoder(c).apply)({"params": p}, tokens, tokens)
        for c, p in ((config, params), (made.config, made.params))
    )
    np.testing.assert_allclose(got[..., :23], want, atol=1e-5)
    assert got.shape == (2, 9, 63)


def test_a_family_without_such_a_module_is_refused():
    with pytest.raises(ValueError, match="etc has no module for masked tokens, nor"):
        grow({}, EtcConfig(), 1)


def test_a_model_that_is_not_finite_is_refused():
    config = CONFIGS["bert"]
    params = params_of(config)
    params["encoder"]["embeddings"]["token_embedder"]["embedding"][3] = np.nan
    with pytest.raises(ValueError, match="short inputs differ by nan between the mod"):
        grow(params, config, 1)
