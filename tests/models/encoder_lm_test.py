"""Longformer as a language model, beside loops in float64."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_params import random_params

from etc_jax.layers.common import sinusoids
from etc_jax.layers.patterns.sliding_window import SlidingWindow
from etc_jax.layers.self_attention import SelfAttention, SequenceInputs
from etc_jax.models.encoder.lm import EncoderForCausalLm
from etc_jax.models.longformer.config import LongformerConfig

CONFIG = LongformerConfig(
    vocab_size=24,
    embed_dim=12,
    num_layers=4,
    num_heads=2,
    mlp_dim=16,
    max_length=40,
    attention_window=(4, 6),
    attention_dilation=(1, (2, 1)),
    causal=True,
    positions="sinusoidal",
)
# Bytes that a query of each layer sees before it, and the steps of its two heads.
LAYERS = ((2, (1, 1)), (3, (2, 1))) * 2


@functools.cache
def shapes(config):
    model, tokens = EncoderForCausalLm(config), np.zeros((1, 3), np.int32)
    return jax.eval_shape(lambda: model.init(jax.random.key(0), tokens))["params"]


@functools.cache
def params_of(config):
    """Numbers that are large enough to tell places apart."""
    init, tokens = EncoderForCausalLm(config).init, np.zeros((1, 3), np.int32)
    return random_params(init, tokens, spread=0.4, center=0.1, scale=0.1)


def random_tokens(*shape, seed=1):
    return np.random.default_rng(seed).integers(0, 24, shape).astype(np.int32)


@functools.cache
def compiled(config, method):
    model = EncoderForCausalLm(config)
    return jax.jit(functools.partial(model.apply, method=method))


def logits(config, tokens):
    apply = compiled(config, "__call__")
    with jax.default_matmul_precision("highest"):
        return np.asarray(apply({"params": params_of(config)}, tokens))


def losses(config, *args, params=None):
    params = params_of(config) if params is None else params
    with jax.default_matmul_precision("highest"):
        return compiled(config, "losses")({"params": params}, *args)


# --- the same by loops ----------------------------------------------------------------


def slow_sinusoids(positions, width):
    half = width // 2
    rows = [
        [f(p / 10_000 ** (i / half)) for f in (math.sin, math.cos) for i in range(half)]
        for p in positions
    ]
    return np.array(rows)


def slow_norm(x, p):
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return scaled * p["scale"] + p["bias"]


def slow_attention(x, p, before, steps):
    def rows(name):
        return np.einsum("ne,ehd->nhd", x, p[name]["kernel"]) + p[name]["bias"]

    q, k, v = map(rows, ("query", "key", "value"))
    out = np.zeros_like(q)
    for i in range(len(x)):
        for head, step in enumerate(steps):
            seen = [i - step * m for m in range(before + 1) if i >= step * m]
            scores = k[seen, head] @ q[i, head] / math.sqrt(q.shape[-1])
            chances = np.exp(scores - scores.max())
            out[i, head] = chances @ v[seen, head] / chances.sum()
    return np.einsum("nhd,hde->ne", out, p["out"]["kernel"]) + p["out"]["bias"]


def slow_mlp(x, p):
    x = x @ p["wi"]["kernel"] + p["wi"]["bias"]
    x = x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2
    return x @ p["wo"]["kernel"] + p["wo"]["bias"]


def slow_log_chances(tokens):
    """Of all tokens after each of `tokens`, by `CONFIG`: `[n, v]`."""
    params = jax.tree.map(np.float64, params_of(CONFIG))
    embeddings = params["encoder"]["embeddings"]
    x = embeddings["token_embedder"]["embedding"][tokens] * math.sqrt(12)
    x = x + embeddings["segment_embedder"]["embedding"][0]
    x = x + slow_sinusoids(range(len(tokens)), 12)
    x = slow_norm(x, embeddings["embed_norm"])
    period = params["encoder"]["stack"]["layers"]["period"]
    for number, (before, steps) in enumerate(LAYERS):
        stacked = period[f"layer_{number % 2}"]
        layer = jax.tree.map(lambda a, i=number // 2: a[i], stacked)
        x = x + slow_attention(x, layer["attention"], before, steps)
        x = slow_norm(x, layer["attention_norm"])
        x = slow_norm(x + slow_mlp(x, layer["mlp"]), layer["mlp_norm"])
    out = x @ params["logits"]["kernel"] + params["logits"]["bias"]
    shifted = out - out.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


@pytest.mark.parametrize("chunk", [0, 7])
def test_losses_are_those_of_a_slow_computation(chunk):
    config = dataclasses.replace(CONFIG, logits_chunk_length=chunk)
    tokens, targets = random_tokens(2, 20), random_tokens(2, 20, seed=2)
    found, hits = losses(config, tokens, targets)
    chances = np.stack([slow_log_chances(row) for row in tokens])
    want = -np.take_along_axis(chances, targets[..., None], -1)[..., 0]
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(hits, chances.argmax(-1) == targets)


def test_logits_are_those_of_the_losses():
    tokens, targets = random_tokens(2, 20), random_tokens(2, 20, seed=2)
    chances = jax.nn.log_softmax(logits(CONFIG, tokens))
    want = -np.take_along_axis(np.asarray(chances), targets[..., None], -1)[..., 0]
    found, _ = losses(CONFIG, tokens, targets)
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)


def reach(n):
    """Whether the place i depends on the place j, through all layers."""
    seen = np.eye(n, dtype=bool)
    for before, steps in LAYERS:
        layer = np.zeros((n, n), bool)
        for i in range(n):
            for step in steps:
                layer[i, [i - step * m for m in range(before + 1) if i >= step * m]] = 1
        seen = layer @ seen
    return seen


def test_a_loss_depends_on_the_tokens_before_it_and_on_no_other():
    # No token comes twice: the gradient of a table's row is that of its place.
    n = 20
    tokens = np.random.default_rng(3).permutation(24)[None, :n].astype(np.int32)
    targets = random_tokens(1, n)
    params = params_of(CONFIG)
    path = ("encoder", "embeddings", "token_embedder", "embedding")

    def of_table(table):
        embeddings = params["encoder"]["embeddings"] | {path[2]: {path[3]: table}}
        encoder = params["encoder"] | {"embeddings": embeddings}
        return losses(CONFIG, tokens, targets, params=params | {"encoder": encoder})[0]

    table = params["encoder"]["embeddings"]["token_embedder"]["embedding"]
    jacobian = jax.jit(jax.jacrev(of_table))(table)[0]  # [n, v, e]
    depends = np.abs(jacobian[:, tokens[0]]).max(-1) > 0
    want = reach(n)
    assert not want[0, 1:].any() and not want[-1, 0] and want[-1, 4:].sum() > 10
    np.testing.assert_array_equal(depends, want)


# --- positions ------------------------------------------------------------------------


def test_sinusoids_are_those_of_the_formula():
    near, far = [0, 1, 7, 99], [2047, 32_255]
    for places, atol in ((near, 1e-5), (far, 4e-3)):
        got = sinusoids(jnp.asarray([places]), 10)
        np.testing.assert_allclose(got[0], slow_sinusoids(places, 10), atol=atol)


def test_parameters_fit_any_length_and_window():
    longer = dataclasses.replace(
        CONFIG, max_length=4000, attention_window=(8, 12), attention_dilation=()
    )
    assert shapes(longer) == shapes(CONFIG)
    none = dataclasses.replace(CONFIG, positions="none")
    assert shapes(none) == shapes(CONFIG)
    learnt = shapes(dataclasses.replace(CONFIG, positions="learnt"))
    embeddings = learnt["encoder"]["embeddings"]
    assert embeddings["position_embedder"]["embedding"].shape == (40 + 2, 12)
    embeddings = {k: v for k, v in embeddings.items() if k != "position_embedder"}
    encoder = learnt["encoder"] | {"embeddings": embeddings}
    assert learnt | {"encoder": encoder} == shapes(CONFIG)


def test_windows_alone_tell_the_order_but_not_the_place():
    tokens = random_tokens(1, 40)
    later = np.pad(tokens[:, 10:], ((0, 0), (0, 10)))
    swapped = tokens.copy()
    swapped[0, [16, 17]] = tokens[0, [17, 16]]
    assert tokens[0, 16] != tokens[0, 17]

    def outs(positions):
        config = dataclasses.replace(CONFIG, positions=positions)
        whole, other, moved = (logits(config, x)[0] for x in (tokens, swapped, later))
        # All layers together see 2 + 6 + 2 + 6 tokens before a place.
        by_place = np.abs(whole[26:] - moved[16:30]).max()
        return by_place, np.abs(whole - other)[18:].max()

    by_place, by_order = outs("none")
    assert by_place < 2e-5 < 2e-4 < by_order
    by_place, _ = outs("sinusoidal")
    assert by_place > 1e-3


# --- batches, devices, bad input ------------------------------------------------------


@pytest.mark.parametrize(
    "change, message",
    [
        ({"causal": False}, "causal is False, .* set model.causal=True"),
        ({"positions": "sinusoidol"}, "did you mean 'sinusoidal'"),
        ({"positions": "relative", "causal": False}, "set model.causal=True"),
        ({"embed_dim": 9, "num_heads": 3}, "embed_dim is 9; expected an even number"),
        (
            {"positions": "none", "causal": False},
            "set model.causal=True",
        ),
    ],
)
def test_configs_that_cannot_be_are_told(change, message):
    config = dataclasses.replace(CONFIG, attention_dilation=(), **change)
    with pytest.raises(ValueError, match=message):
        shapes(config)


def test_relative_positions_are_those_of_transformer_xl():
    """Dai et al. 2019, section 3.3, pair by pair in float64."""
    heads, size, width, n, radius = 2, 3, 8, 9, 4
    steps = (1, 2)
    with jax.enable_x64(True):
        layer = SelfAttention(
            heads,
            size,
            SlidingWindow(radius, steps, causal=True, relative=True),
            dtype=jnp.float64,
            param_dtype=jnp.float64,
        )
        rng = np.random.default_rng(0)
        x = rng.normal(size=(1, n, width))
        inputs = SequenceInputs(np.ones((1, n), np.int32))
        made = jax.eval_shape(layer.init, jax.random.key(0), x, inputs)["params"]
        params = jax.tree.map(lambda a: rng.normal(size=a.shape), made)
        got, _ = jax.jit(layer.apply)({"params": params}, x, inputs)
    p = {k: a["kernel"] if "kernel" in a else a for k, a in params.items()}
    query, key, value = (
        np.einsum("ne,ehd->nhd", x[0], p[name]) + params[name]["bias"]
        for name in ("query", "key", "value")
    )
    out = np.zeros((n, heads, size))
    for i, h in np.ndindex(n, heads):
        seen = [j for j in range(i, -1, -steps[h]) if (i - j) // steps[h] <= radius]
        logits = []
        for j in seen:
            wave = (j - i) / 10_000.0 ** (np.arange(width // 2) / (width // 2))
            sines = np.concatenate([np.sin(wave), np.cos(wave)])
            of_offset = np.einsum("e,ed->d", sines, p["offset"][:, h])
            logits.append(
                (query[i, h] + p["key_bias"][h]) @ key[j, h]
                + (query[i, h] + p["offset_bias"][h]) @ of_offset
            )
        weights = np.exp(np.array(logits) / math.sqrt(size))
        out[i, h] = weights @ value[seen, h] / weights.sum()
    want = np.einsum("nhd,hde->ne", out, p["out"]) + params["out"]["bias"]
    # The sines are of float32.
    np.testing.assert_allclose(got[0], want, atol=2e-6)


def test_norms_before_the_branches_leave_the_residuals_alone():
    config = dataclasses.replace(CONFIG, pre_norm=True, initializer_range=1e-30)
    model, tokens = EncoderForCausalLm(config), random_tokens(1, 9)
    params = random_params(model.init, tokens, spread=1e-30)
    assert set(params["encoder"]) - set(shapes(CONFIG)["encoder"]) == {"final_norm"}
    table = np.random.default_rng(0).normal(size=(24, 12)).astype(np.float32)
    params["encoder"]["embeddings"]["token_embedder"]["embedding"] = table
    # Maps are of nothing: what is embedded goes through all layers as it is.
    apply = jax.jit(functools.partial(model.apply, mutable=["intermediates"]))
    _, state = apply({"params": params}, tokens)
    found = state["intermediates"]["encoder"]
    layers = found["stack"]["layers"]["period"]["layer_1"]["output"][0]
    np.testing.assert_array_equal(layers[-1], found["embedded"][0])


def test_windows_that_look_both_ways_need_positions():
    config = dataclasses.replace(CONFIG, positions="none", causal=False)
    [(field, message)] = config.problems()
    assert field == "positions" and "does not tell the order" in message


def test_without_a_table_of_positions_max_length_limits_nothing():
    tokens = random_tokens(1, 12)
    short = dataclasses.replace(CONFIG, max_length=8)
    assert short.positions == "sinusoidal" and short.position_limit is None
    np.testing.assert_array_equal(logits(short, tokens), logits(CONFIG, tokens))
