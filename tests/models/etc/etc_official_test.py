import dataclasses

import jax
import numpy as np
import pytest
from official_reference import Reference, variable_shapes

from etc_jax.base.types import Rows
from etc_jax.conversion.engine import ConversionError, export_params
from etc_jax.models.etc.body import Etc, EtcForPretraining
from etc_jax.models.etc.official import (
    config_from_official,
    import_official,
    official_names,
)
from etc_jax.structure import Structure

OFFICIAL = {
    "vocab_size": 23,
    "segment_vocab_size": 5,
    "embedding_size": None,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "local_radius": 3,
    "att_size_per_head": None,
    "relative_pos_max_distance": 2,
    "relative_vocab_size": 8,
    "max_absolute_position_embeddings": 0,
    "intermediate_size": 20,
    "hidden_act": "gelu",
    "share_feed_forward_params": True,
    "share_kv_projections": False,
    "share_qkv_projections": False,
    "share_att_output_projection": False,
    "use_pre_activation_order": False,
}
N, G, BATCH = 17, 4, 2

VARIANTS = {
    "own projections": {},
    "shared key and value": {"share_kv_projections": True, "hidden_act": "relu"},
    "shared query, key, value": {"share_qkv_projections": True, "hidden_act": "tanh"},
    "qkv wins over kv": {"share_qkv_projections": True, "share_kv_projections": True},
    "shared output": {"share_att_output_projection": True, "hidden_act": None},
    "own feed-forward": {"share_feed_forward_params": False, "hidden_act": "linear"},
    "norms first, head size": {
        "use_pre_activation_order": True,
        "att_size_per_head": 5,
    },
    "positions, projected embedding": {
        "max_absolute_position_embeddings": 19,
        "embedding_size": 7,
    },
    "no labels": {"relative_pos_max_distance": 0, "relative_vocab_size": None},
}


def random_variables(official, seed=0):
    rng = np.random.default_rng(seed)
    return {
        name: rng.normal(size=shape).astype(np.float32) * 0.5
        for name, shape in variable_shapes(official).items()
    }


def random_inputs(official, seed=1):
    rng = np.random.default_rng(seed)
    sizes = {
        "l2l": (N, 2 * official["local_radius"] + 1),
        "l2g": (N, G),
        "g2g": (G, G),
        "g2l": (G, N),
    }
    inputs = {
        "token_ids": rng.integers(official["vocab_size"], size=(BATCH, N)),
        "global_token_ids": rng.integers(official["vocab_size"], size=(BATCH, G)),
    }
    for piece, size in sizes.items():
        mask = rng.integers(2, size=(BATCH, *size))
        if piece == "l2l":
            mask[..., official["local_radius"]] = 1
        if piece == "g2g":
            mask |= np.eye(G, dtype=int)
        inputs[f"{piece}_att_mask"] = mask
        if (v := official["relative_vocab_size"]) is not None:
            ids = rng.integers(v, size=(BATCH, *size))
            inputs[f"{piece}_relative_att_ids"] = ids
    return inputs


def abstract_params(model, structure=None):
    if structure is None:
        structure = Structure.explicit()
    tokens = np.zeros((BATCH, N), int), np.zeros((BATCH, G), int)
    return jax.eval_shape(model.init, jax.random.key(0), *tokens, structure)["params"]


def explicit(inputs):
    pieces = ("l2l", "l2g", "g2g", "g2l")
    masks = {f"{p}_mask": inputs.get(f"{p}_att_mask") for p in pieces}
    labels = {f"{p}_labels": inputs.get(f"{p}_relative_att_ids") for p in pieces}
    return Structure.explicit(**masks, **labels)


def compare(official, inputs, *, attention="dense", **changes):
    config = config_from_official(official).config
    config = dataclasses.replace(config, attention=attention, **changes)
    variables = random_variables(official)
    model = Etc(config)
    params, report = import_official(variables, config, abstract_params(model))
    assert report.missing == report.unused == ()
    with jax.default_matmul_precision("highest"):
        got = jax.jit(model.apply)(
            {"params": params},
            inputs["token_ids"],
            inputs["global_token_ids"],
            explicit(inputs),
            types=Rows(inputs.get("segment_ids"), inputs.get("global_segment_ids")),
            positions=Rows(
                inputs.get("position_ids"), inputs.get("global_position_ids")
            ),
            adders=Rows(
                inputs.get("long_embedding_adder"), inputs.get("global_embedding_adder")
            ),
        )
    want = Reference(official, variables)(inputs)
    np.testing.assert_allclose(got.long, want[0], atol=2e-5)
    np.testing.assert_allclose(got.global_, want[1], atol=2e-5)
    return params, variables, config


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.full(
    but=[
        "own projections",
        "positions, projected embedding",
        "norms first, head size",
        "qkv wins over kv",
    ]
)
def test_every_variant_equals_the_official_model_and_goes_back(variant):
    official = OFFICIAL | VARIANTS[variant]
    params, variables, config = compare(official, random_inputs(official))
    exported = export_params(official_names(config), params)
    assert set(exported) == set(variables)
    for name, value in variables.items():
        np.testing.assert_array_equal(exported[name], value)


def test_optional_inputs_and_unrolled_layers_equal_the_official_model():
    official = OFFICIAL | {"max_absolute_position_embeddings": 30}
    rng = np.random.default_rng(5)
    inputs = random_inputs(official)
    for prefix, length in (("", N), ("global_", G)):
        shape = (BATCH, length)
        inputs[f"{prefix}segment_ids"] = rng.integers(5, size=shape)
        inputs[f"{prefix}position_ids"] = rng.integers(30, size=shape)
    for side, length in (("long", N), ("global", G)):
        adder = rng.normal(size=(BATCH, length, 12)).astype(np.float32)
        inputs[f"{side}_embedding_adder"] = adder
    compare(official, inputs, attention="xla", scan_layers=False)


@pytest.mark.parametrize(
    "absent",
    [
        [
            "l2l_att_mask",
            "g2g_att_mask",
            "g2g_relative_att_ids",
            "g2l_relative_att_ids",
        ],
        [
            "g2l_att_mask",
            "l2g_att_mask",
            "l2l_relative_att_ids",
            "l2g_relative_att_ids",
        ],
    ],
    ids=" ".join,
)
def test_absent_side_inputs_equal_the_official_model(absent):
    inputs = random_inputs(OFFICIAL)
    for name in absent:
        del inputs[name]
    compare(OFFICIAL, inputs)


def test_defaults_are_the_official_ones():
    config, unknown = config_from_official({"vocab_size": 7, "surprise": 1})
    assert unknown == ("surprise",)
    # The official class shares projections and has soft masks; ours does not.
    assert config.share_qkv and not config.hard_g2l and not config.share_out
    assert (config.num_layers, config.radius, config.num_labels) == (12, 84, 32)
    assert (config.remat_policy, config.activation) == ("none", "gelu")


def test_gradient_checkpointing_becomes_a_remat_policy():
    official = OFFICIAL | {"grad_checkpointing_period": 2}
    assert config_from_official(official).config.remat_policy == "full"


def test_impossible_configs_name_the_official_key():
    with pytest.raises(ValueError, match="needs vocab_size"):
        config_from_official({"hidden_size": 8})
    with pytest.raises(ValueError, match="relative_vocab_size .*num_labels >= 8"):
        config_from_official(OFFICIAL | {"relative_vocab_size": 7})
    with pytest.raises(ValueError, match="hidden_act is 'swish'"):
        config_from_official(OFFICIAL | {"hidden_act": "swish"})


def test_training_variables_are_reported_and_other_encoders_refused():
    config = config_from_official(OFFICIAL).config
    abstract = abstract_params(Etc(config))
    variables = random_variables(OFFICIAL)
    name = next(iter(variables))
    extra = {"global_step": 0, f"{name}/adam_m": 0, "output_weights": 0}
    report = import_official(variables | extra, config, abstract)[1]
    assert set(report.unused) == set(extra)
    third = "etc_document_bert/global_local_transformer_layers/fused_att_layer_2"
    third += "/layer_norm_0/gamma"
    with pytest.raises(ConversionError, match=f"beyond them are {third}"):
        import_official(variables | {third: np.zeros(12, np.float32)}, config, abstract)


def test_the_checkpoint_of_another_sharing_mode_is_refused():
    shared = OFFICIAL | {"share_qkv_projections": True}
    config = config_from_official(shared).config
    with pytest.raises(ConversionError) as caught:
        import_official(
            random_variables(OFFICIAL), config, abstract_params(Etc(config))
        )
    # Seven projections with kernel and bias in each of two layers have no place.
    assert len(caught.value.problems) == 7 * 2 * 2
    assert all("unused" in problem for problem in caught.value.problems)


def test_without_labels_their_tables_are_left_out():
    official = OFFICIAL | {"relative_pos_max_distance": 0}
    config = config_from_official(official).config
    assert config.num_labels is None
    abstract = abstract_params(Etc(config))
    report = import_official(random_variables(official), config, abstract)[1]
    assert len(report.unused) == 2 * 2 * 2


def test_the_encoder_of_a_larger_model():
    config = config_from_official(OFFICIAL).config
    model = EtcForPretraining(config)
    tokens = np.zeros((1, N), int), np.zeros((1, G), int)
    abstract = jax.eval_shape(
        model.init,
        jax.random.key(0),
        *tokens,
        Structure.explicit(),
        np.zeros((1, 2), int),
    )["params"]
    params, report = import_official(
        random_variables(OFFICIAL),
        config,
        abstract,
        target="encoder/",
        allow_missing=[r"(?!encoder/).*"],
    )
    assert set(params) == {"encoder"}
    assert "mlm_bias" in report.missing
