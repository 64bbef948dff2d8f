"""BERT lifted into ETC computes what BERT does, and every array is accounted for."""

import dataclasses

import bert_reference as reference
import jax
import numpy as np
import pytest
from lift_cases import (
    SAME,
    config_for,
    fresh_params,
    lifted,
    mlm_logits,
    run,
    run_long,
)

from etc_jax.base.types import Rows
from etc_jax.conversion.engine import ConversionError, flatten
from etc_jax.layers.stack import stack_layers
from etc_jax.models.encoder import weight_names as bert
from etc_jax.models.encoder.hf_config import config_from_hf
from etc_jax.models.etc.lift import PAPER, LiftOptions, lift, lifted_config
from etc_jax.models.etc.lift_report import describe_values

ARRAYS = reference.random_arrays(reference.CONFIG)
SOURCE = config_from_hf(reference.CONFIG)
BATCH, N, G = 2, 11, 4

# Compiling is what costs time here, and the dense form compiles quickest.
SHARING = {
    "own projections": {},
    "shared key and value": {"share_kv": True},
    "shared query, key, value": {"share_qkv": True},
    "everything shared": {"share_qkv": True, "share_out": True},
    "own feed-forward": {"share_mlp": False},
    "unrolled": {"scan_layers": False, "share_mlp": False},
}


def weights_of(arrays=ARRAYS, family="bert"):
    return bert.BertWeights(arrays, family)


def inputs(length, seed=1):
    """(ids, types, mask): the second row ends in padding."""
    rng = np.random.default_rng(seed)
    shape = (BATCH, length)
    mask = np.ones(shape, np.int32)
    mask[1, -3:] = 0
    ids = rng.integers(SOURCE.vocab_size, size=shape)
    return ids, rng.integers(SOURCE.num_types, size=shape), mask


@pytest.mark.parametrize("attention", ["xla", "dense"])
def test_an_etc_without_globals_computes_what_bert_does(attention):
    config, params, _ = lifted(SOURCE, weights_of(), attention=attention)
    ids, types, mask = inputs(N)
    got = run_long(config, params, ids, mask, types)
    model = reference.Reference(reference.CONFIG, ARRAYS)
    want = model.hidden(ids, types, mask, np.arange(N))
    real = mask > 0
    np.testing.assert_allclose(got[real], want[real], atol=1e-4)
    logits = mlm_logits(config, params, got)
    np.testing.assert_allclose(logits[real], model.logits(want)[real], atol=1e-4)


@pytest.mark.parametrize("variant", SHARING)
def test_global_and_long_tokens_together_are_one_bert(variant):
    # All copies of a projection come into play: BERT, without positions, over the
    # global tokens followed by the long ones.
    options = dataclasses.replace(SAME, positions="drop")
    config, params, _ = lifted(SOURCE, weights_of(), options, **SHARING[variant])
    both = [np.split(x, [G], axis=1) for x in inputs(G + N)]
    (ids_g, ids), (types_g, types), (mask_g, mask) = both
    got = run(
        config, params, Rows(ids, ids_g), Rows(mask, mask_g), Rows(types, types_g)
    )
    model = reference.Reference(reference.CONFIG, ARRAYS)
    want = model.hidden(*inputs(G + N), None)
    np.testing.assert_allclose(got.global_, want[:, :G], atol=1e-4)
    real = mask > 0
    np.testing.assert_allclose(got.long[real], want[:, G:][real], atol=1e-4)


def test_roberta_lifted_computes_what_roberta_does():
    arrays = reference.random_arrays(reference.ROBERTA)
    source = config_from_hf(reference.ROBERTA)
    # Its single type is that of every token, where long ones have type 1 here.
    options = dataclasses.replace(SAME, types="first")
    config, params, report = lifted(source, weights_of(arrays, "roberta"), options)
    ids, _, mask = inputs(N)
    got = run_long(config, params, ids, mask)
    model = reference.Reference(reference.ROBERTA, arrays)
    want = model.hidden(ids, ids * 0, mask, 2 + np.arange(N))
    real = mask > 0
    np.testing.assert_allclose(got[real], want[real], atol=1e-4)
    logits = mlm_logits(config, params, got)
    np.testing.assert_allclose(logits[real], model.logits(want)[real], atol=1e-4)
    assert not report.left_over


def test_scanned_and_unrolled_layers_get_the_same():
    _, scanned, _ = lifted(SOURCE, weights_of())
    _, unrolled, _ = lifted(SOURCE, weights_of(), scan_layers=False)
    stack = jax.device_get(stack_layers(unrolled["encoder"]["stack"]))
    jax.tree.map(np.testing.assert_array_equal, stack, scanned["encoder"]["stack"])


def test_the_papers_lift_leaves_positions_types_labels_and_cpc_as_they_begin():
    labelled = {"max_distance": 2, "num_labels": 8}
    config, params, report = lifted(SOURCE, weights_of(), PAPER, **labelled)
    assert config.activation == "gelu" and config.layer_norm_epsilon == 1e-12
    assert not config.max_positions
    before, after = flatten(fresh_params(config)), flatten(params)
    attention = "encoder/stack/layers/layer/attention/"
    assert set(report.new) == {
        "cpc_log_temperature",
        "encoder/embeddings/segment_embedder/embedding",
        *(
            f"{attention}{side}_labels/{leaf}"
            for side in ("long", "global")
            for leaf in ("embedding", "bias")
        ),
    }
    for path in report.new:
        np.testing.assert_array_equal(after[path], before[path])
    assert set(report.lifted) | set(report.new) == set(after)
    assert set(report.left_over) == {
        f"bert.{name}" for name in (bert.POSITIONS, bert.TYPES)
    }
    made_of = {name for names in report.lifted.values() for name in names}
    assert made_of | set(report.left_over) == set(ARRAYS)
    text = report.text()
    assert "the lift of the ETC paper" in text
    assert "activation: gelu, the source has gelu_exact" in text
    assert "layer_norm_epsilon: 1e-12, the source has 1e-06" in text


def test_a_larger_vocabulary_keeps_its_other_rows():
    config, params, report = lifted(SOURCE, weights_of(), vocab_size=32, num_types=5)
    before = flatten(fresh_params(config))
    for path, rows, name in (
        ("encoder/embeddings/token_embedder/embedding", "29-31", bert.TOKENS),
        ("encoder/embeddings/segment_embedder/embedding", "2-4", bert.TYPES),
        ("mlm_bias", "29-31", bert.MLM_BIAS),
    ):
        table, old = flatten(params)[path], weights_of()[name]
        np.testing.assert_array_equal(table[: len(old)], old)
        np.testing.assert_array_equal(table[len(old) :], before[path][len(old) :])
        assert f"{path}[{rows}]" in report.new


def test_the_first_type_may_go_into_every_row():
    options = LiftOptions(types="first")
    _, params, report = lifted(SOURCE, weights_of(), options, num_types=5)
    table = params["encoder"]["embeddings"]["segment_embedder"]["embedding"]
    np.testing.assert_array_equal(table, np.repeat(weights_of()[bert.TYPES][:1], 5, 0))
    assert not any("segment" in path for path in report.new)


def test_tokens_may_begin_with_the_rows_of_others():
    options = LiftOptions(token_rows=((1, 7), (30, 7), (2, 9)))
    _, params, report = lifted(SOURCE, weights_of(), options, vocab_size=33)
    table = params["encoder"]["embeddings"]["token_embedder"]["embedding"]
    old = weights_of()[bert.TOKENS]
    np.testing.assert_array_equal(table[[1, 2, 30]], old[[7, 9, 7]])
    np.testing.assert_array_equal(table[3:29], old[3:])
    # The bias is of how often a token occurs, and stays its own.
    np.testing.assert_array_equal(params["mlm_bias"][:29], weights_of()[bert.MLM_BIAS])
    assert "encoder/embeddings/token_embedder/embedding[29,31-32]" in report.new
    assert "token 30 begins with the row of token 7" in report.text()


def test_an_encoder_without_heads_leaves_those_of_the_source():
    config = config_for(SOURCE)
    fresh = fresh_params(config)["encoder"]
    params, report = lift(weights_of(), SOURCE, fresh, config, PAPER, target="")
    whole = lift(weights_of(), SOURCE, fresh_params(config), config)[0]
    jax.tree.map(np.testing.assert_array_equal, params, whole["encoder"])
    assert report.left_over["cls.predictions.bias"].startswith("the model has no head")


def test_a_body_without_heads_leaves_those_of_the_model():
    body = {n.removeprefix("bert."): a for n, a in ARRAYS.items() if n[:4] == "bert"}
    body |= {"pooler.dense.weight": np.eye(12), bert.POSITION_IDS: np.arange(16)}
    _, params, report = lifted(SOURCE, weights_of(body))
    assert report.new["mlm_norm/scale"] == "all 1"
    assert report.left_over == {
        "pooler.dense.weight": "a head that pre-training ETC does not have",
        bert.POSITION_IDS: "not a weight",
    }
    np.testing.assert_array_equal(params["mlm_bias"], 0)


def test_half_precision_becomes_the_models():
    halves = {name: array.astype(np.float16) for name, array in ARRAYS.items()}
    _, params, _ = lifted(SOURCE, weights_of(halves))
    for array in flatten(params).values():
        assert array.dtype == np.float32
    table = params["encoder"]["embeddings"]["token_embedder"]["embedding"]
    np.testing.assert_array_equal(table, weights_of(halves)[bert.TOKENS])


@pytest.mark.parametrize(
    "changes, options, message",
    [
        ({"num_layers": 3}, PAPER, "model.num_layers is 3; the source has 2"),
        ({"embed_dim": 24}, PAPER, "model.embed_dim is 24; the source has 12"),
        ({"embedding_dim": 6}, PAPER, "model.embedding_dim is 6; .* leave it at None"),
        ({"num_heads": 4}, PAPER, "model.num_heads is 4; the source has 3"),
        ({"head_dim": 8}, PAPER, "model.head_dim is 8"),
        ({"mlp_dim": 48}, PAPER, "model.mlp_dim is 48; the source has 20"),
        ({"vocab_size": 28}, PAPER, "model.vocab_size is 28; the source has 29"),
        ({"pre_norm": True}, PAPER, "model.pre_norm is True"),
        ({"num_types": 1}, SAME, "model.num_types is 1; the source has 2"),
        ({"max_positions": 9}, SAME, "model.max_positions is 9; the source has 16"),
        ({"activation": "relu"}, PAPER, "model.activation is 'relu'"),
        ({}, LiftOptions(token_rows=((1, 29),)), r"token_rows has \(1, 29\)"),
        ({}, LiftOptions(token_rows=((-1, 2),)), r"token_rows has \(-1, 2\)"),
        ({}, LiftOptions(token_rows=((1, 2), (1, 3))), r"tells twice .* \[1\]"),
    ],
)
def test_sizes_that_differ_are_refused(changes, options, message):
    with pytest.raises(ConversionError, match=message) as caught:
        lifted_config(SOURCE, config_for(SOURCE, **changes), options)
    assert len(caught.value.problems) == 1


def test_all_that_differs_is_told_at_once():
    config = config_for(SOURCE, num_layers=3, mlp_dim=48, pre_norm=True)
    with pytest.raises(ConversionError) as caught:
        lifted_config(SOURCE, config)
    assert len(caught.value.problems) == 3


def test_a_config_that_the_options_would_change_is_refused():
    config = config_for(SOURCE)
    with pytest.raises(ConversionError, match="take it from lifted_config"):
        lift(weights_of(), SOURCE, fresh_params(config), config, SAME)


def without(*names):
    return {name: a for name, a in ARRAYS.items() if name not in names}


DECODER = "cls.predictions.decoder.weight"
TABLE = "bert.embeddings.word_embeddings.weight"
BROKEN = {
    "no token table": (without(TABLE), "word_embeddings.weight is missing"),
    "a table of another size": (
        ARRAYS | {TABLE: np.zeros((30, 12), np.float32)},
        r"word_embeddings.weight has shape \(30, 12\); .* says \(29, 12\)",
    ),
    "a bias of another size": (
        ARRAYS | {"cls.predictions.bias": np.zeros(30, np.float32)},
        r"cls.predictions.bias has shape \(30,\)",
    ),
    "a layer less": (
        {name: a for name, a in ARRAYS.items() if ".layer.1." not in name},
        "the checkpoint lacks bert.encoder.layer.1.attention.self.key.bias",
    ),
    "a layer more": (
        ARRAYS | {"bert.encoder.layer.2.output.dense.bias": np.zeros(12, np.float32)},
        "beyond them are bert.encoder.layer.2.output.dense.bias",
    ),
    "an array nobody knows": (
        ARRAYS | {"bert.encoder.layer.0.adapter.weight": np.eye(12)},
        "encoder.layer.0.adapter.weight: unused",
    ),
    "no norm": (
        without("bert.embeddings.LayerNorm.weight"),
        r"bert.embeddings.LayerNorm.weight \(for .*long_embed_norm/scale\): missing",
    ),
    "half a head": (
        without("cls.predictions.transform.LayerNorm.bias"),
        "modelling lacks mlm.norm.bias",
    ),
    "an output table of its own": (
        ARRAYS | {DECODER: ARRAYS[TABLE] + 1},
        f"{DECODER} differs from {TABLE}",
    ),
    "not finite": (
        ARRAYS | {"bert.embeddings.LayerNorm.bias": np.full(12, np.nan, np.float32)},
        "global_embed_norm/bias: .*LayerNorm.bias has 12 of 12 .* NaN",
    ),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_checkpoint_is_refused(fault):
    arrays, message = BROKEN[fault]
    with pytest.raises(ConversionError, match=message):
        lifted(SOURCE, weights_of(arrays))


def test_a_tied_output_table_is_left_over():
    arrays = ARRAYS | {DECODER: ARRAYS[TABLE]}
    arrays["cls.predictions.decoder.bias"] = ARRAYS["cls.predictions.bias"]
    report = lifted(SOURCE, weights_of(arrays))[2]
    assert set(report.left_over) == {DECODER, "cls.predictions.decoder.bias"}


@pytest.mark.parametrize(
    "values, text",
    [
        (np.zeros((2, 3)), "all 0"),
        (np.float32(-2.5), "all -2.5"),
        (np.zeros((0, 3)), "empty"),
        (np.array([-1.0, 1.0]), "random, mean 0, standard deviation 1"),
    ],
)
def test_how_an_array_begins_is_seen_from_its_values(values, text):
    assert describe_values(values) == text


def test_unrolled_layers_are_told_as_one():
    labelled = {"max_distance": 2, "num_labels": 8, "scan_layers": False}
    report = lifted(SOURCE, weights_of(), PAPER, **labelled)[2]
    assert len(report.new) == 2 + 2 * 4
    assert report.text().count("long_labels/bias") == 1
    assert "layers_*/layer/attention/long_labels/bias" in report.text()
