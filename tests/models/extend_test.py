"""Encoders made long against the short ones, and what cannot be."""

import dataclasses
import functools

import jax
import numpy as np
import pytest
from hf_models import TINY, params_of

from etc_jax.models.bert.config import BertConfig
from etc_jax.models.big_bird.config import BigBirdConfig
from etc_jax.models.encoder.body import EncoderForMaskedLm
from etc_jax.models.encoder.heads import (
    EncoderForLabels,
    EncoderForSpans,
    EncoderWithoutHead,
)
from etc_jax.models.etc.body import EtcForPretraining
from etc_jax.models.extension import Extension, extend, long_positions
from etc_jax.models.longformer.config import LongformerConfig
from etc_jax.models.roberta.config import RobertaConfig
from etc_jax.structure import Structure

SIZES = {**TINY, "num_layers": 2}
CONFIGS = {
    "bert": BertConfig(**SIZES),
    "roberta": RobertaConfig(**SIZES),
}


@functools.cache
def long_roberta():
    """One of windows of 8 and 32 tokens; not to be written to."""
    config = CONFIGS["roberta"]
    return extend(params_of(config), config, Extension("longformer", 32, 8))


@functools.cache
def of_nine_tokens(config):
    """(two rows of tokens, their logits by the short model)."""
    tokens = np.random.default_rng(1).integers(2, 19, (2, 9)).astype(np.int32)
    apply = jax.jit(EncoderForMaskedLm(config).apply)
    with jax.default_matmul_precision("highest"):
        return tokens, apply({"params": params_of(config)}, tokens)


def test_positions_go_on_block_by_block():
    table = np.arange(6)[:, None] * np.ones(2)
    got = long_positions(table, (2, 2), 10)[:, 0]
    np.testing.assert_array_equal(got, [0, 1, 2, 3, 4, 5, 2, 3, 4, 5, 2, 3])
    # BERT has no rows for padding, a Longformer made of it one, a BigBird none.
    np.testing.assert_array_equal(long_positions(table, (0, 1), 8)[:2, 0], [0, 0])
    np.testing.assert_array_equal(
        long_positions(table, (2, 0), 5)[:, 0], [2, 3, 4, 5, 2]
    )


# Those whose rows of padding differ.
@pytest.mark.parametrize(
    "family, to",
    [
        ("bert", "longformer"),
        ("roberta", "big_bird"),
        pytest.param("bert", "big_bird", marks=pytest.mark.full),
        pytest.param("roberta", "longformer", marks=pytest.mark.full),
    ],
)
@pytest.mark.full(but=["roberta-big_bird"])
def test_an_input_as_long_as_the_window_gives_the_same_logits(family, to):
    config = CONFIGS[family]
    params = params_of(config)
    long = dataclasses.replace(config, attention="auto")
    sizes = {"window": 16} if to == "longformer" else {"block_size": 4}
    made = extend(params, long, Extension(to, max_length=64, **sizes))
    assert made.config.max_length == 64 and made.difference < 1e-5
    tokens, want = of_nine_tokens(config)
    # Positions are those of 16 tokens before: the first row has 9 tokens in front, the
    # second has them later.
    padded, mask = np.zeros((2, 2, 41), np.int32)
    padded[0, :9], padded[1, 32:] = tokens[0], tokens[1]
    mask[0, :9] = mask[1, 32:] = 1
    places = np.broadcast_to(np.arange(41), padded.shape)
    with jax.default_matmul_precision("highest"):
        apply = jax.jit(EncoderForMaskedLm(made.config).apply)
        got = apply({"params": made.params}, padded, mask, positions=places)
    np.testing.assert_allclose(got[0, :9], want[0], atol=1e-4)
    np.testing.assert_allclose(got[1, 32:], want[1], atol=1e-4)


def test_global_projections_are_copies_and_can_be_again():
    made = long_roberta()

    def attention(params):
        period = params["encoder"]["stack"]["layers"]["period"]
        return period["layer_0"]["attention"]

    def check(params):
        found = attention(params)
        for kind in ("query", "key", "value"):
            jax.tree.map(
                np.testing.assert_array_equal, found[f"{kind}_global"], found[kind]
            )

    check(made.params)
    kernel = attention(made.params)["key"]["kernel"]
    params = jax.tree.map(np.copy, made.params)
    attention(params)["key"]["kernel"] += 1
    kept = extend(params, made.config, Extension("longformer"))
    jax.tree.map(
        np.testing.assert_array_equal,
        attention(kept.params)["key_global"]["kernel"],
        kernel,
    )
    assert kept.config.attention_window == (8,) and kept.config.max_length == 4096
    check(extend(params, made.config, Extension("longformer", copy_global=True)).params)


def test_new_positions_are_random_after_the_learnt_ones():
    config = CONFIGS["roberta"]
    params = params_of(config)
    asked = Extension("longformer", 64, 8, positions="new")
    old, copied, table = (
        x["encoder"]["embeddings"]["position_embedder"]["embedding"]
        for x in (params, long_roberta().params, extend(params, config, asked).params)
    )
    assert table.shape == (66, 12) and copied.shape == (34, 12)
    np.testing.assert_array_equal(table[:18], old)
    np.testing.assert_array_equal(copied[:18], old)
    np.testing.assert_array_equal(copied[18:], old[2:])
    new = table[18:]
    assert 0.017 < new.std() < 0.023 and len(np.unique(new)) == new.size


# BERT: `lift_test`.
@pytest.mark.parametrize(
    "family", [pytest.param("bert", marks=pytest.mark.full), "roberta"]
)
def test_etc_computes_the_same_on_short_inputs(family):
    config = CONFIGS[family]
    params = params_of(config)
    made = extend(params, config, Extension("etc", max_length=64, window=16))
    assert made.config.radius == 8 and made.config.max_positions == 64
    tokens, want = of_nine_tokens(config)
    none = np.zeros((2, 0), np.int32)
    structure = Structure(np.ones_like(tokens), none, np.zeros((2, 9, 0), np.int16))
    places = np.broadcast_to(np.arange(9), tokens.shape)
    with jax.default_matmul_precision("highest"):
        _, got = jax.jit(EtcForPretraining(made.config).apply)(
            {"params": made.params}, tokens, none, structure, places
        )
    np.testing.assert_allclose(got, want, atol=1e-4)


@pytest.mark.parametrize("to", ["longformer", "big_bird"])
@pytest.mark.full(but=["big_bird"])
def test_heads_that_mean_the_same_come_along(to):
    config = CONFIGS["roberta"]
    pooled = params_of(EncoderWithoutHead(config, with_pooler=True))
    made = extend(pooled, config, Extension(to, 32))
    np.testing.assert_array_equal(
        made.params["encoder"]["pooler"]["kernel"],
        pooled["encoder"]["pooler"]["kernel"],
    )
    spans = params_of(EncoderForSpans(config))
    labels = params_of(EncoderForLabels(config, num_labels=3))
    if to == "longformer":
        made = extend(labels, config, Extension(to, 32))
        np.testing.assert_array_equal(
            made.params["label_out"]["kernel"], labels["label_out"]["kernel"]
        )
        return
    for params, part in ((spans, "answer_span"), (labels, "label_out")):
        with pytest.raises(ValueError, match=f"the head {part}, which has other"):
            extend(params, config, Extension(to, 32))


@pytest.mark.full
def test_the_head_of_the_next_sentence_is_told_where_it_has_no_place():
    config = CONFIGS["bert"]
    model = EncoderForMaskedLm(config, with_next_sentence=True)
    params = params_of(model)
    made = extend(params, config, Extension("longformer", 32))
    assert made.left_behind == ("next_sentence",)
    assert "next_sentence" not in made.params
    assert not extend(params, config, Extension("big_bird", 32)).left_behind
    made = extend(params, config, Extension("etc", 32))
    assert "cls.seq_relationship.bias" in made.left_behind


@pytest.mark.parametrize(
    "asked, message",
    [
        (Extension("reformer"), "to is 'reformer'; expected one of bart_ls, big_bird"),
        (Extension("longformer", 8), "max_length is 8, but the source has 16"),
        (Extension("longformer", 32, 7), "expected even numbers"),
        (Extension("etc", 32, 7), "window is 7; expected an even number"),
        (Extension("big_bird", 32, 8), "window is 8, which is not asked of a big_bird"),
        (Extension("etc", 32, block_size=8), "block_size is 8, which is not asked"),
        (Extension("longformer", 32, num_globals=2), "num_globals is 2, which is not"),
        (Extension("longformer", 32, num_globals=0), "num_globals is 0, which is not"),
        (
            Extension("big_bird", 32, num_globals=33),
            "num_globals is 33; expected",
        ),
        (Extension("etc", 32, copy_global=True), "copy_global is True, which is not"),
    ],
)
def test_what_cannot_be_is_refused(asked, message):
    config = CONFIGS["roberta"]
    with pytest.raises(ValueError, match=message):
        extend(params_of(config), config, asked)


@pytest.mark.parametrize(
    "config, to",
    [
        (BigBirdConfig(**SIZES, block_size=4), "longformer"),
        (BigBirdConfig(**SIZES, block_size=4), "etc"),
        (LongformerConfig(**SIZES, attention_window=(4,)), "big_bird"),
    ],
)
def test_a_source_of_another_family_is_named(config, to):
    with pytest.raises(ValueError, match=f"what becomes a {to} is Bert, Roberta"):
        extend({}, config, Extension(to, 32))


def test_a_model_without_a_table_of_positions_is_refused():
    config = LongformerConfig(**SIZES, attention_window=(4,), positions="sinusoidal")
    with pytest.raises(ValueError, match="has positions 'sinusoidal', which no table"):
        extend({}, config, Extension("longformer", 32))


def test_a_model_that_does_not_compute_the_same_is_not_given():
    config = CONFIGS["roberta"]
    params = params_of(config)
    table = params["encoder"]["embeddings"]["token_embedder"]["embedding"]
    table[3] = 3e38  # overflows on the way
    with pytest.raises(ValueError, match="short inputs differ by nan"):
        extend(params, config, Extension("longformer", 32, 8))


def test_layers_of_a_run_stay_in_their_places():
    config = LongformerConfig(
        **dict(SIZES, num_layers=4), attention_window=(4, 8), attention_dilation=(1, 2)
    )
    params = params_of(config)
    made = extend(params, config, Extension("longformer", 32, 16))
    assert made.config == dataclasses.replace(
        config, max_length=32, attention_window=(16,), attention_dilation=()
    )
    runs = params["encoder"]["stack"]["layers"]["period"]
    layers = made.params["encoder"]["stack"]["layers"]["period"]["layer_0"]
    for run, i in np.ndindex(2, 2):
        np.testing.assert_array_equal(
            layers["mlp"]["wi"]["kernel"][2 * run + i],
            runs[f"layer_{i}"]["mlp"]["wi"]["kernel"][run],
        )
