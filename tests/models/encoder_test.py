"""BERT, RoBERTa, Longformer and BigBird as modules."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_params import random_params

from etc_jax import sharding
from etc_jax.layers.encoder import positions_of
from etc_jax.layers.stack import unstack_layers
from etc_jax.models.bert.config import BertConfig
from etc_jax.models.big_bird.config import BigBirdConfig
from etc_jax.models.encoder.body import EncoderForMaskedLm
from etc_jax.models.encoder.heads import EncoderForLabels, EncoderForSpans
from etc_jax.models.longformer.config import LongformerConfig
from etc_jax.models.roberta.config import RobertaConfig

SIZES = {
    "vocab_size": 24,
    "embed_dim": 12,
    "num_layers": 4,
    "num_heads": 2,
    "mlp_dim": 16,
    "max_length": 40,
}
LONGFORMER = LongformerConfig(
    **SIZES, attention_window=(4, 6), attention_dilation=(1, (2, 1))
)
BIG_BIRD = BigBirdConfig(**SIZES, block_size=2, num_random_blocks=1)
CONFIGS = {
    "bert": BertConfig(**SIZES),
    "roberta": RobertaConfig(**SIZES),
    "longformer": LONGFORMER,
    "big_bird": BIG_BIRD,
    "big_bird with globals": dataclasses.replace(
        BIG_BIRD, num_globals=3, random_blocks="always"
    ),
}


@functools.cache
def params_of(config, model_class=EncoderForMaskedLm):
    """Numbers that are large enough to tell places apart."""
    init, tokens = model_class(config).init, np.zeros((1, 3), np.int32)
    return random_params(init, tokens, spread=0.4, center=0.1, scale=0.1)


def random_tokens(*shape, seed=1):
    return np.random.default_rng(seed).integers(3, 24, shape).astype(np.int32)


def apply(config, *args, params=None, **more):
    params = params_of(config) if params is None else params
    with jax.default_matmul_precision("highest"):
        return _applied(config, params, args, more)


# Compiled as a whole: one operation after the other takes three times as long.
@functools.partial(jax.jit, static_argnums=0)
def _applied(config, params, args, more):
    return EncoderForMaskedLm(config).apply({"params": params}, *args, **more)


@pytest.mark.parametrize(
    "ids, of_bert, of_roberta",
    [
        ([1, 1, 1, 0, 0], [0, 1, 2, 3, 4], [0, 1, 2, -1, -1]),
        # Padding in front counts in BERT, as in transformers.
        ([0, 0, 1, 1, 1], [0, 1, 2, 3, 4], [-1, -1, 0, 1, 2]),
        ([1, 1, 2, 2, 2], [0, 1, 0, 1, 2], [0, 1, 0, 1, 2]),
        ([1, 2, 3, 3, 0], [0, 0, 0, 1, 2], [0, 0, 0, 1, -1]),
        ([0, 0, 0, 0, 0], [0, 1, 2, 3, 4], [-1, -1, -1, -1, -1]),
    ],
)
def test_positions_count_from_the_start_of_an_example(ids, of_bert, of_roberta):
    ids = jnp.asarray([ids])
    np.testing.assert_array_equal(positions_of(ids, False), [of_bert])
    np.testing.assert_array_equal(positions_of(ids, True), [of_roberta])


def test_a_long_window_sees_what_all_see():
    """Longformer without global tokens and with windows over everything is RoBERTa."""
    config = dataclasses.replace(
        LONGFORMER, attention_window=(80,), attention_dilation=()
    )
    params = params_of(config)
    tokens = random_tokens(2, 21)
    ids = np.ones_like(tokens)
    ids[1, 15:] = 0
    got = apply(config, tokens, ids)
    layers = dict(params["encoder"]["stack"]["layers"]["period"]["layer_0"])
    layers["attention"] = {
        k: x for k, x in layers["attention"].items() if "global" not in k
    }
    encoder = params["encoder"] | {"stack": {"layers": {"period": {"layer_0": layers}}}}
    want = apply(CONFIGS["roberta"], tokens, ids, params=params | {"encoder": encoder})
    real = ids > 0
    np.testing.assert_allclose(got[real], want[real], atol=2e-5)


def test_global_tokens_are_seen_from_everywhere():
    config = dataclasses.replace(LONGFORMER, num_layers=2, attention_dilation=())
    tokens = random_tokens(1, 40)

    def change(global_index):
        other = tokens.copy()
        other[0, 0] = (other[0, 0] + 1) % 20 + 3
        outs = [apply(config, x, global_index=global_index) for x in (tokens, other)]
        return np.abs(outs[0] - outs[1]).max(-1)[0]

    near = change(np.array([[-1, 30]]))
    # Windows of 2 and 3 to each side, one on top of the other; and by token 30, which
    # sees all, in the second layer: everywhere.
    alone = change(np.array([[-1, -1]]))
    assert np.all(alone[6:] == 0) and np.all(alone[:5] > 0)
    assert np.all(near > 0)
    assert np.all(change(np.array([[0, -1]])) > 0)


@pytest.mark.parametrize("name", ["roberta", "big_bird with globals"])
def test_losses_are_those_of_the_logits(name):
    config = dataclasses.replace(CONFIGS[name], logits_chunk_length=4)
    tokens, ids = random_tokens(2, 17), np.ones((2, 17), np.int32)
    positions = np.array([[0, 3, 5, 6, 16], [2, 2, 4, 0, 0]], np.int32)
    targets = random_tokens(2, 5, seed=2)
    model, variables = EncoderForMaskedLm(config), {"params": params_of(config)}

    @jax.jit
    def both(variables):
        args = (tokens, ids, positions, targets)
        found = model.apply(variables, *args, method=model.masked_losses)
        return found, model.apply(variables, tokens, ids)

    (losses, hits), logits = both(variables)
    chosen = np.take_along_axis(np.asarray(logits), positions[..., None], 1)
    chances = jax.nn.log_softmax(chosen)
    want = -np.take_along_axis(np.asarray(chances), targets[..., None], -1)[..., 0]
    np.testing.assert_allclose(losses, want, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(hits, chosen.argmax(-1) == targets)


@pytest.mark.parametrize(
    "name, change",
    [
        ("longformer", {"remat_policy": "full"}),
        ("big_bird with globals", {"remat_policy": "full"}),
    ],
)
@pytest.mark.full(but=["longformer-change0"])
def test_how_it_is_computed_changes_nothing(name, change):
    config = CONFIGS[name]
    tokens = random_tokens(1, 17)
    got = apply(dataclasses.replace(config, **change), tokens, params=params_of(config))
    np.testing.assert_allclose(got, apply(config, tokens), atol=2e-5)


def test_dilated_heads_on_a_mesh_of_three_axes_are_refused():
    config = CONFIGS["longformer"]
    mesh = sharding.make_mesh(sharding.MeshConfig(data=2, sequence=2, tensor=2))
    index = np.zeros((4, 1), np.int32)
    with jax.set_mesh(mesh), sharding.logical_rules(sharding.DEFAULT_RULES):
        with pytest.raises(ValueError, match="a mesh that splits batch, heads and"):
            jax.eval_shape(
                lambda: apply(config, random_tokens(4, 8), global_index=index)
            )


def test_spans_have_two_logits_for_each_token():
    config = CONFIGS["roberta"]
    params = params_of(config, EncoderForSpans)
    out = jax.jit(EncoderForSpans(config).apply)(
        {"params": params}, random_tokens(2, 9)
    )
    assert out.start.shape == out.end.shape == (2, 9)
    assert np.abs(out.start - out.end).max() > 0


def test_each_layer_of_bigbird_has_blocks_of_its_own():
    config = CONFIGS["big_bird"]
    # Large enough for the first layer to show in the logits.
    params = jax.tree.map(lambda x: 2 * x, params_of(config))
    tokens = random_tokens(1, 19)
    ids = np.random.default_rng(0).integers(0, 10, (4, 2, 8, 1)).astype(np.int32)
    given = apply(config, tokens, params=params, random_blocks=ids)
    unrolled = dataclasses.replace(config, scan_layers=False)
    stack = unstack_layers(params["encoder"]["stack"])
    apart = params | {"encoder": params["encoder"] | {"stack": stack}}
    got = apply(unrolled, tokens, params=apart, random_blocks=ids)
    np.testing.assert_allclose(got, given, atol=5e-5)
    for layer in range(4):
        other = ids.copy()
        other[layer] = (other[layer] + 1) % 10
        changed = apply(config, tokens, params=params, random_blocks=other)
        assert np.abs(changed - given).max() > 2e-4
    # None is the first block; a sequence of 7 blocks or fewer is attended whole.
    first = apply(config, tokens, random_blocks=np.zeros_like(ids))
    np.testing.assert_allclose(apply(config, tokens), first, atol=2e-5)
    whole = dataclasses.replace(config, pattern="full")
    short = apply(config, tokens[:, :14])
    same = apply(whole, tokens[:, :14], params=params_of(config))
    np.testing.assert_allclose(short, same, atol=2e-5)
    long = apply(whole, tokens, params=params_of(config))
    assert np.abs(long - apply(config, tokens)).max() > 2e-4


@pytest.mark.full
def test_global_tokens_in_front_of_blocks_see_all_and_are_seen():
    config = dataclasses.replace(
        CONFIGS["big_bird with globals"], num_layers=1, random_blocks="never"
    )
    run = jax.jit(functools.partial(apply, config, params=params_of(config)))

    def changed(place, length=20):
        """Which tokens see that the one at a place is another."""
        tokens = random_tokens(1, length)
        other = tokens.copy()
        other[0, place] = (other[0, place] + 1) % 20 + 3
        return np.flatnonzero(np.abs(run(other) - run(tokens)).max(-1)[0])

    np.testing.assert_array_equal(changed(2), np.arange(20))
    # Blocks after three global tokens: (3, 4), ..., (9, 10), (11, 12), ..., (19,).
    np.testing.assert_array_equal(changed(10), [0, 1, 2, *range(7, 13)])
    np.testing.assert_array_equal(changed(3), [0, 1, 2, *range(3, 7)])
    np.testing.assert_array_equal(changed(19), [0, 1, 2, *range(17, 20)])
    # Two blocks see each other, three do not.
    np.testing.assert_array_equal(changed(3, 7), np.arange(7))
    np.testing.assert_array_equal(changed(3, 8), np.arange(7))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"num_globals": -1}, "num_globals is -1; expected 0 or more"),
        ({"num_globals": 41}, "num_globals is 41; expected max_length, 40, or fewer"),
    ],
)
def test_global_tokens_that_cannot_be_are_told(change, message):
    config = dataclasses.replace(BIG_BIRD, **change)
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(
            lambda: apply(config, random_tokens(1, 4), params=params_of(BIG_BIRD))
        )


@pytest.mark.full
def test_labels_of_blocks_after_globals_have_the_gradient_of_every_pair():
    # The head reads a global token, so that blocks matter in the layer below.
    config = dataclasses.replace(CONFIGS["big_bird with globals"], num_layers=2)
    params = params_of(config, functools.partial(EncoderForLabels, num_labels=3))
    tokens, ids = random_tokens(2, 19), np.ones((2, 19), np.int32)
    ids[1, 15:] = 0
    weight = np.random.default_rng(5).normal(size=(2, 3)).astype(np.float32)

    def results(attention):
        made = dataclasses.replace(config, attention=attention)
        model = EncoderForLabels(made, num_labels=3)

        def loss(params):
            with jax.default_matmul_precision("highest"):
                return jnp.sum(weight * model.apply({"params": params}, tokens, ids))

        return jax.tree.leaves(jax.jit(jax.value_and_grad(loss))(params))

    want = results("dense")
    for a, b in zip(results("xla"), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5 * max(1, np.abs(b).max()))
    # All but the bias of the keys, which moves no probability.
    assert sum(np.abs(x).max() > 1e-3 for x in want) == len(want) - 1


@pytest.mark.parametrize(
    "change, message",
    [
        ({"attention_window": (5,)}, r"attention_window is \(5,\); expected even"),
        ({"attention_window": ()}, "attention_window"),
        ({"attention_dilation": (1,)}, "one entry for each of the 2"),
        ({"attention_dilation": (1, (1, 2, 3))}, "one for each of the 2 heads"),
        ({"attention_dilation": (0, 1)}, "a number of 1 or more"),
        ({"num_heads": 5}, "5 does not divide embed_dim"),
        ({"pad_id": -1}, "pad_id is -1"),
        ({"activation": "gelu_exac"}, "did you mean 'gelu_exact'"),
    ],
)
def test_configs_that_cannot_be_are_told(change, message):
    config = dataclasses.replace(LONGFORMER, **change)
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(
            lambda: EncoderForMaskedLm(config).init(
                jax.random.key(0), random_tokens(1, 4)
            )
        )


def test_inputs_that_do_not_fit_are_told():
    with pytest.raises(ValueError, match="41 tokens, but max_length is 40"):
        apply(CONFIGS["roberta"], random_tokens(1, 41))
    with pytest.raises(ValueError, match="global_index is given, which .* BertConfig"):
        apply(CONFIGS["bert"], random_tokens(1, 4), global_index=np.zeros((1, 1)))
    with pytest.raises(ValueError, match="random_blocks is given, which .* Longformer"):
        apply(LONGFORMER, random_tokens(1, 4), random_blocks=np.zeros((4, 1, 2, 1)))
    with pytest.raises(ValueError, match=r"expected \[batch, n\]"):
        apply(CONFIGS["bert"], random_tokens(4))
