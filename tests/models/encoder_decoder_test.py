"""Encoder-decoders: pairs, padding, order, meshes, errors."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_params import drawn

from etc_jax import sharding
from etc_jax.base import registry
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
@pytest.mark.full(but=["long_t5"])
def test_packed_pairs_are_those_alone(name):
    """Each sees its own input and target, whatever stands beside them."""
    config = CONFIGS[name]
    if config is REFORMER:
        # In one chunk; the borders of several are those of the row.
        chunks = {"local_chunk_length": 64, "lsh_chunk_length": 64}
        config = dataclasses.replace(config, **chunks)
    params = random_params(config)
    inputs, targets = [tokens(1, n, seed=n) for n in (9, 7)], [tokens(1, 4), None]
    targets[1] = tokens(1, 3, seed=5)
    ids = [np.repeat([[1, 2, 0]], counts, axis=1) for counts in ((9, 7, 3), (4, 3, 2))]
    pad = [np.full((1, n), config.pad_id, np.int32) for n in (3, 2)]
    row, target_row = (
        np.concatenate([*parts, rest], axis=1)
        for parts, rest in zip((inputs, targets), pad, strict=True)
    )
    index = None
    if isinstance(config, LedConfig):
        index = np.array([[0, 9]], np.int32)
    got = apply(config, params, row, target_row, *ids, index)
    for i, place in enumerate((slice(0, 4), slice(4, 7))):
        alone = None if index is None else np.zeros((1, 1), np.int32)
        want = apply(config, params, inputs[i], targets[i], None, None, alone)
        np.testing.assert_allclose(got[:, place], want, atol=2e-5)


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


def test_layers_one_by_one_are_the_scanned_ones():
    config = CONFIGS["led"]
    params = random_params(config)

    def unrolled(side):
        period = side["stack"]["layers"]["period"]
        (count,) = {len(x) for x in jax.tree.leaves(period)}
        layers = {
            f"layers_{i}": {"period": jax.tree.map(lambda x, i=i: x[i], period)}
            for i in range(count)
        }
        return side | {"stack": layers}

    loose = params | {x: unrolled(params[x]) for x in ("encoder", "decoder")}
    one_by_one = dataclasses.replace(config, scan_layers=False)
    args = tokens(2, 13), tokens(2, 5), None, None, np.array([[0], [3]], np.int32)
    got, want = apply(one_by_one, loose, *args), apply(config, params, *args)
    np.testing.assert_allclose(got, want, atol=1e-5)


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
    "name, axes",
    [
        ("bart", {"data": 2, "fsdp": 2, "tensor": 2}),
        ("long_t5", {"fsdp": 2, "tensor": 2, "sequence": 2}),
        ("reformer", {"data": 2, "fsdp": 2, "tensor": 2}),
        # Its encoder's windows and global tokens: a Longformer's in `encoder_test`.
        ("led", {"fsdp": 2, "tensor": 2, "sequence": 2}),
        ("led", {"sequence": 8}),
        ("long_t5", {"sequence": 8}),
        ("long_t5", {"sequence": 4, "tensor": 2}),
    ],
)
@pytest.mark.full
def test_one_device_and_a_mesh_give_the_same(name, axes):
    config = CONFIGS[name]
    n = 7 * max(2, axes.get("sequence", 1))
    x, y, targets = tokens(4, n), tokens(4, 5, seed=1), tokens(4, 5, seed=2)
    ids = np.ones_like(x)
    ids[0, 9:] = 0
    args = x, y, targets, ids
    if isinstance(config, LedConfig):
        args = *args, None, np.array([[0, -1], [3, 9], [-1, 13], [0, 1]], np.int32)
    check_on_a_mesh(config, axes, args, 2e-4)


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


def test_every_family_has_its_model():
    for name in ("bart", "t5", "led", "long_t5"):
        assert registry.lookup("seq2seq_model", name) is EncoderDecoder
        assert registry.lookup("model_config", name)().formats == ("text_to_text",)
