"""Encoder-decoders: pairs, padding, order, meshes, errors."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_params import drawn

from etc_jax import sharding
from etc_jax.models.bart.config import BartConfig
from etc_jax.models.encoder_decoder.body import EncoderDecoder
from etc_jax.models.led.config import LedConfig
from etc_jax.models.long_t5.config import LongT5Config
from etc_jax.models.reformer.seq2seq import ReformerSeq2Seq, ReformerSeq2SeqConfig
from etc_jax.models.t5.config import T5Config

SIZES = {
    "vocab_size": 24,
    "embed_dim": 16,
    "num_heads": 2,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "mlp_dim": 12,
    "max_length": 64,
}
OF_T5 = {"head_dim": 4, "num_buckets": 8, "max_distance": 20}
CONFIGS = {
    "bart": BartConfig(**SIZES, decoder_mlp_dim=8, num_decoder_heads=4),
    "mbart": BartConfig(**SIZES, pre_norm=True, final_norm=True, scale_embedding=True),
    "led": LedConfig(**SIZES, attention_window=(4, 6)),
    "t5": T5Config(**SIZES, **OF_T5),
    "long_t5": LongT5Config(**SIZES, **OF_T5, radius=2, block_size=4),
    "long_t5 local": LongT5Config(
        **SIZES, **OF_T5, radius=2, encoder_attention="local"
    ),
}
REFORMER = ReformerSeq2SeqConfig(
    **SIZES | {"num_decoder_layers": 4},
    max_target_length=32,
    axial_shape=(8, 8),
    local_chunk_length=8,
    lsh_chunk_length=16,
)
CONFIGS["reformer"] = REFORMER
FAMILIES = pytest.mark.parametrize("name", CONFIGS)


def model_of(config, deterministic=True):
    kinds = {ReformerSeq2SeqConfig: ReformerSeq2Seq}
    return kinds.get(type(config), EncoderDecoder)(config, deterministic)


def random_params(config):
    return drawn(shapes(config), spread=0.3, center=0.1, scale=0.1)


def shapes(config):
    """Of the parameters."""
    row = jax.ShapeDtypeStruct((1, 1), jnp.int32)
    init = model_of(config).init
    return jax.eval_shape(init, jax.random.key(0), row, row)["params"]


def tokens(*shape, seed=0):
    return np.random.default_rng(seed).integers(3, 24, shape).astype(np.int32)


def apply(config, params, *args, **more):
    def run(params):
        return model_of(config).apply({"params": params}, *args, **more)

    with jax.default_matmul_precision("highest"):
        return jax.jit(run)(params)


@FAMILIES
@pytest.mark.full(but=["t5"])
def test_a_logit_depends_on_the_input_and_on_no_later_token(name):
    config = CONFIGS[name]
    # A table read by place: token i of a pair has row i.
    places = np.arange(17, dtype=np.int32)[None]
    ids = {"vocab_size": 17, "pad_id": 0, "decoder_start_id": 0, "eos_id": 0}
    wide = dataclasses.replace(config, **ids)
    model, rest = model_of(wide), random_params(wide)

    def out(table):
        variables = {"params": rest | {"token_embedder": {"embedding": table}}}
        memory = model.apply(variables, places[:, :11], method="encode")
        rows = model.apply(variables, memory, places[:, 11:], method="decode")
        return jnp.sum(jnp.sin(rows[0, 2]))

    table = rest["token_embedder"]["embedding"]
    found = np.abs(jax.jit(jax.grad(out))(table)).max(axis=1)
    assert (found[:14] > 0).all()
    np.testing.assert_array_equal(found[14:], 0)


def losses(config, params, *args, **more):
    """(losses, hits, gradients of their weighted sum)."""

    def run(params):
        model = model_of(config)
        found, hits = model.apply({"params": params}, *args, method="losses", **more)
        return jnp.sum(found * jnp.cos(jnp.arange(found.size)).reshape(found.shape)), (
            found,
            hits,
        )

    with jax.default_matmul_precision("highest"):
        (_, (found, hits)), grads = jax.jit(jax.value_and_grad(run, has_aux=True))(
            params
        )
    return jax.device_get((found, hits, grads))


@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(x, marks=pytest.mark.full) for x in ("bart", "reformer")),
        "long_t5",
    ],
)
def test_losses_are_those_of_the_logits(name):
    config = CONFIGS[name]
    params = random_params(config)
    x, y, targets = tokens(2, 9), tokens(2, 5, seed=1), tokens(2, 5, seed=2)
    logits = apply(config, params, x, y)
    scores = jax.nn.log_softmax(logits)
    want = -np.take_along_axis(np.asarray(scores), targets[..., None], -1)[..., 0]
    whole = losses(config, params, x, y, targets)
    np.testing.assert_allclose(whole[0], want, atol=1e-5)
    np.testing.assert_array_equal(whole[1], np.argmax(logits, -1) == targets)
    # In chunks of 2, and layers computed again: the same.
    remat = {} if config is REFORMER else {"remat_policy": "full"}
    chunked = dataclasses.replace(config, logits_chunk_length=2, **remat)
    got = losses(chunked, params, x, y, targets)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-4)


def test_smoothing_and_z_loss_are_in_the_losses():
    config = CONFIGS["bart"]
    params, model = random_params(config), model_of(config)
    x, y, targets = tokens(2, 9), tokens(2, 5, seed=1), tokens(2, 5, seed=2)
    extra = {"label_smoothing": 0.2, "z_loss": 0.1}

    @jax.jit
    def both(params):
        args = {"params": params}, x, y
        return model.apply(*args, targets, method="losses", **extra)[0], model.apply(
            *args
        )

    with jax.default_matmul_precision("highest"):
        found, logits = both(params)
    top = jax.nn.logsumexp(logits, axis=-1)
    nats = top[..., None] - np.asarray(logits)
    wanted = np.take_along_axis(nats, targets[..., None], -1)[..., 0]
    want = 0.8 * wanted + 0.2 * nats.mean(axis=-1) + 0.1 * top**2
    np.testing.assert_allclose(found, want, rtol=1e-5)


def check_on_a_mesh(config, axes, args, atol):
    """Losses, hits and gradients are those of one device."""
    params = random_params(config)
    want = losses(config, params, *args)
    mesh = sharding.make_mesh(sharding.MeshConfig(**axes))
    rules = sharding.DEFAULT_RULES
    placed = jax.device_put(params, sharding.tree_shardings(params, mesh, rules))
    with jax.set_mesh(mesh), sharding.logical_rules(rules):
        got = losses(config, placed, *args)
    for a, b in zip(*map(jax.tree.leaves, (got, want)), strict=True):
        np.testing.assert_allclose(a, b, atol=atol)


@pytest.mark.parametrize(
    "name",
    [
        *("bart", "long_t5", "reformer"),
        *(pytest.param(x, marks=pytest.mark.full) for x in ("mbart", "led", "t5")),
        pytest.param("long_t5 local", marks=pytest.mark.full),
    ],
)
@pytest.mark.full(but=["bart"])
def test_dropout_is_drawn_in_training_alone(name):
    config = CONFIGS[name]
    params = random_params(config)
    x, y = tokens(1, 9), tokens(1, 4)

    @jax.jit
    def training(params, rng):
        model = model_of(config, deterministic=False)
        return model.apply({"params": params}, x, y, rngs={"dropout": rng})

    first, second = (training(params, jax.random.key(i)) for i in (0, 1))
    assert np.isfinite(first).all() and np.abs(first - second).max() > 1e-3


@pytest.mark.parametrize(
    "name, change, message",
    [
        ("bart", {"num_decoder_heads": 3}, "num_decoder_heads 3 does not divide"),
        ("bart", {"pad_id": 24}, "pad_id is 24; expected a row of the token table"),
        ("led", {"attention_window": (3,)}, "attention_window .* expected even"),
        ("t5", {"num_buckets": 3}, "num_buckets is 3; expected 4 or more"),
        ("t5", {"max_distance": 0}, "max_distance is 0; expected 1 or more"),
        ("long_t5", {"radius": -1}, "radius is -1; expected 0 .itself alone. or more"),
        ("long_t5", {"encoder_attention": "all"}, "expected one of local, transient"),
        ("bart", {"activation_dropout_rate": 1.5}, "activation_dropout_rate"),
        ("reformer", {"axial_shape": (8,)}, "axial_shape .* two or three numbers"),
        ("reformer", {"decoder_pattern": ("all",)}, "decoder_pattern .*'local'"),
        ("reformer", {"num_buckets": (3,)}, "num_buckets"),
        ("reformer", {"positions": "relative"}, "positions .*learnt, sinusoidal"),
        ("reformer", {"positions": "sinusoidal"}, r"axial_shape is \(8, 8\), but posi"),
        (
            "reformer",
            {"positions": "sinusoidal", "axial_shape": None, "embed_dim": 15},
            "embed_dim is 15; expected an even number",
        ),
    ],
)
def test_configs_that_do_not_fit_are_refused(name, change, message):
    config = dataclasses.replace(CONFIGS[name], **change)
    with pytest.raises(ValueError, match=message):
        shapes(config)


@pytest.mark.parametrize(
    "name, args, message",
    [
        ("bart", (65, 3), "input_tokens has 65 tokens, but max_length is 64; cut it"),
        ("led", (5, 1025), "decoder_tokens has 1025 tokens, but max_target_length is"),
        ("reformer", (65, 3), "input_tokens has 65 tokens, but max_length is 64; cut"),
    ],
)
def test_what_is_too_long_is_refused(name, args, message):
    config = CONFIGS[name]
    rows = [jax.ShapeDtypeStruct((1, n), jnp.int32) for n in args]
    model = model_of(config)
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(model.init, jax.random.key(0), *rows)


def test_what_a_family_does_not_read_is_refused():
    config = CONFIGS["long_t5"]
    args = tokens(1, 3), tokens(1, 3), None, None, np.zeros((1, 1), np.int32)
    with pytest.raises(ValueError, match="global_index is given, which the encoder"):
        apply(config, random_params(config), *args)
