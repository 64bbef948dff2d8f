import dataclasses

import jax
import numpy as np
import pytest

from etc_jax import sharding
from etc_jax.base import registry
from etc_jax.base.types import Rows
from etc_jax.models.etc import config as etc_config
from etc_jax.models.etc.body import Etc, EtcForPretraining
from etc_jax.models.etc.config import EtcConfig
from etc_jax.structure import Structure

SMALL = {
    "vocab_size": 11,
    "embed_dim": 8,
    "num_layers": 2,
    "num_heads": 2,
    "mlp_dim": 12,
    "radius": 2,
    "max_distance": 2,
    "num_labels": 8,
    "attention": "dense",  # traced sooner
}


def abstract_params(model, n=8, g=2, extra=()):
    structure = Structure(
        long_example_ids=np.ones((1, n), np.int32),
        global_example_ids=np.ones((1, g), np.int32),
        links=np.zeros((1, n, 1), np.int16),
    )
    tokens = np.zeros((1, n), np.int32), np.zeros((1, g), np.int32)
    init = jax.eval_shape(model.init, jax.random.key(0), *tokens, structure, *extra)
    return init["params"]


def count(params):
    return sum(int(np.prod(x.shape)) for x in jax.tree.leaves(params))


@pytest.mark.parametrize(
    "config, expected",
    [
        (etc_config.base_shared(), 109_128_192),
        (etc_config.base(), 165_825_024),
        (etc_config.large(), 557_969_408),
        # The paper: doubling the labels of base adds about 600 thousand.
        (etc_config.base(num_labels=64), 165_825_024 + 599_040),
    ],
    ids=["base shared", "base", "large", "base with 64 labels"],
)
def test_full_sizes_have_the_parameters_of_the_paper(config, expected):
    # Paper, table 8: 109M, 166M, 558M.
    config = dataclasses.replace(config, attention="dense")  # traced sooner
    assert count(abstract_params(Etc(config))) == expected


@pytest.mark.parametrize(
    "change",
    [
        {"share_kv": True},
        {"share_qkv": True, "share_out": True},
        {"share_mlp": False},
        {"max_positions": 16},
        {"embedding_dim": 4},
        {"scan_layers": False},
        {"max_distance": 0, "num_labels": None},
    ],
    ids=str,
)
def test_every_parameter_has_a_sharding_row(change):
    config = EtcConfig(**SMALL | change)
    model, places = EtcForPretraining(config), np.zeros((1, 3), np.int32)
    params = abstract_params(model, extra=(places,))
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        # With the name of the encoder before it, and without.
        name = sharding.path_of(path)
        for known in {name, name.removeprefix("encoder/")}:
            assert len(sharding.axes_for(known, leaf.ndim)) == leaf.ndim


def test_the_family_is_registered():
    assert registry.lookup("model_config", "etc") is EtcConfig


def test_parameters_of_a_layer():
    params = abstract_params(Etc(EtcConfig(**SMALL, share_qkv=True)))
    layer = params["stack"]["layers"]["layer"]
    attention = layer["attention"]
    assert set(attention) == {
        "long_query", "l2l_key", "l2l_value", "long_out", "global_out",
        "long_labels", "global_labels",
    }  # fmt: skip
    assert attention["long_query"]["kernel"].shape == (2, 8, 2, 4)
    assert attention["long_out"]["kernel"].shape == (2, 2, 4, 8)
    assert attention["long_labels"]["embedding"].shape == (2, 8, 2, 4)


def apply(config, n=8, g=2, **inputs):
    model = Etc(config)
    structure = Structure.explicit()
    tokens = np.zeros((1, n), np.int32), np.zeros((1, g), np.int32)
    return jax.eval_shape(
        lambda rng: model.init_with_output(rng, *tokens, structure, **inputs)[0],
        jax.random.key(0),
    )


def test_shapes_of_the_outputs():
    out = apply(EtcConfig(**SMALL), n=9, g=3)
    assert (out.long.shape, out.global_.shape) == ((1, 9, 8), (1, 3, 8))


def test_what_does_not_fit_is_named():
    places = Rows(np.zeros((1, 8), np.int32), None)
    with pytest.raises(ValueError, match="max_positions is 0"):
        apply(EtcConfig(**SMALL), positions=places)
    with pytest.raises(ValueError, match="long input has 8 tokens, but max_positions"):
        apply(EtcConfig(**SMALL, max_positions=4))
    with pytest.raises(ValueError, match="num_heads 3 does not divide embed_dim 8"):
        apply(EtcConfig(**SMALL | {"num_heads": 3}))
    with pytest.raises(ValueError, match="num_labels .* needs num_labels >= 8"):
        apply(EtcConfig(**SMALL | {"num_labels": 7}))
    with pytest.raises(ValueError, match=r"long_tokens has shape \(8,\)"):
        Etc(EtcConfig(**SMALL)).init(
            jax.random.key(0), np.zeros(8, int), np.zeros((1, 2), int), None
        )
