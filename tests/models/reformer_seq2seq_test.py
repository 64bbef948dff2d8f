"""Reformer as an encoder-decoder: against plain numpy, and autodiff of what is kept."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_params import random_params

from etc_jax.layers.self_attention import SequenceInputs
from etc_jax.models import useful_flops
from etc_jax.models.reformer.seq2seq import ReformerSeq2Seq, ReformerSeq2SeqConfig

CONFIG = ReformerSeq2SeqConfig(
    vocab_size=24,
    embed_dim=16,
    num_heads=2,
    num_layers=4,
    num_decoder_layers=2,
    mlp_dim=12,
    max_length=64,
    max_target_length=32,
    axial_shape=(8, 8),
    local_chunk_length=8,
    lsh_chunk_length=8,
    num_buckets=(4,),
)
# One chunk, which is attended whole.
WHOLE = dataclasses.replace(
    CONFIG,
    pattern=("local",),
    decoder_pattern=("local",),
    local_chunk_length=64,
    axial_shape=None,
)


def tokens(*shape, seed=0):
    return np.random.default_rng(seed).integers(3, 24, shape).astype(np.int32)


def params_of(config):
    row = jax.ShapeDtypeStruct((1, 1), jnp.int32)
    return random_params(ReformerSeq2Seq(config).init, row, row)


# --- by hand --------------------------------------------------------------------------


def norm(p, x):
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt(np.square(x).mean(-1, keepdims=True) + CONFIG.layer_norm_epsilon)
    return x * p["scale"] + p["bias"]


def attention(p, x, memory, visible):
    """Softmax of the products of `[n, e]` and `[m, e]`, of those that are visible."""
    query = np.einsum("ne,ehd->hnd", x, p["query"]["kernel"])
    key, value = (
        np.einsum("ne,ehd->hnd", memory, p[name]["kernel"]) for name in ("key", "value")
    )
    scores = query @ key.swapaxes(1, 2) / np.sqrt(query.shape[-1])
    scores = np.where(visible, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.einsum("hnd,hde->ne", weights @ value, p["out"]["kernel"])


def mlp(p, x):
    hidden = np.maximum(x @ p["wi"]["kernel"] + p["wi"]["bias"], 0)
    return hidden @ p["wo"]["kernel"] + p["wo"]["bias"]


def sines(n, width):
    """Vaswani et al. 2017, section 3.5, but sines before cosines."""
    x = np.zeros((n, width))
    for place, i in np.ndindex(n, width // 2):
        angle = place / 10_000 ** (2 * i / width)
        x[place, i], x[place, width // 2 + i] = np.sin(angle), np.cos(angle)
    return x


def side(p, table, row, memory=None):
    """The rows of encoder or decoder, `[n, e]`: each half adds, and streams swap."""
    n, width = len(row), table.shape[1]
    if "embeddings" in p:
        x = table[row] + p["embeddings"]["position_embedder"]["embedding"][:n]
    else:
        x = table[row] * np.sqrt(width) + sines(n, width)
    layers = p["stack"]["layers"]["local_0"]
    visible = np.ones((n, n), bool) if memory is None else np.tri(n, dtype=bool)
    a = b = x
    for i in range(len(layers["g"]["mlp_norm"]["scale"])):
        at = jax.tree.map(lambda x, i=i: x[i], layers)
        y = norm(at["f"]["attention_norm"], b)
        a, b = b, a + attention(at["f"]["attention"], y, y, visible)
        if memory is not None:
            cross = at["cross"]
            y = norm(cross["cross_attention_norm"], b)
            more = attention(cross["cross_attention"], y, memory, True)
            a, b = b, a + more
        y = norm(at["g"]["mlp_norm"], b)
        a, b = b, a + mlp(at["g"]["mlp"], y)
    return norm(p["final_norm"], (a + b) / 2)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"shared_table": False},
        {"tied_logits": False},
        {"shared_table": False, "tied_logits": False, "positions": "sinusoidal"},
    ],
    ids=["shared", "two tables", "logits of their own", "nothing shared, sines"],
)
@pytest.mark.full(but=["shared", "nothing shared, sines"])
def test_logits_are_those_that_are_written_down(change):
    config = dataclasses.replace(WHOLE, num_layers=2, **change)
    params = params_of(config)
    inputs, targets = tokens(2, 9), tokens(2, 5, seed=1)
    model = ReformerSeq2Seq(config)
    with jax.default_matmul_precision("highest"):
        got = jax.jit(model.apply)({"params": params}, inputs, targets)
    p = jax.tree.map(lambda x: np.asarray(x, np.float64), params)
    names = ["token_embedder", "decoder_token_embedder", "logits"]
    shared, tied = config.shared_table, config.tied_logits
    assert [x in p for x in names] == [True, not shared, not tied]
    table = p["token_embedder"]["embedding"]
    target = table if shared else p["decoder_token_embedder"]["embedding"]
    kernel = target.T if tied else p["logits"]["kernel"]
    for i in range(2):
        memory = side(p["encoder"], table, inputs[i])
        rows = side(p["decoder"], target, targets[i], memory)
        want = rows @ kernel + p["logits_bias"]
        np.testing.assert_allclose(got[i], want, rtol=1e-4, atol=1e-4)


# --- gradients ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "deterministic",
    [True, False],
    ids=["", "dropout"],
)
@pytest.mark.full
def test_reversible_is_what_keeps_all_activations(deterministic):
    params = jax.tree.map(lambda x: 0.5 * x, params_of(CONFIG))
    inputs, targets = tokens(2, 29), tokens(2, 18, seed=1)
    ids = np.ones_like(inputs)
    ids[0, 20:] = 0

    def run(reversible):
        config = dataclasses.replace(CONFIG, reversible=reversible)
        model = ReformerSeq2Seq(config, deterministic)

        def loss(params):
            found, _ = model.apply(
                {"params": params},
                inputs,
                targets,
                targets[:, ::-1],
                ids,
                method="losses",
                rngs={} if deterministic else {"dropout": jax.random.key(3)},
            )
            return jnp.mean(found)

        with jax.default_matmul_precision("highest"):
            return jax.jit(jax.value_and_grad(loss))(params)

    (loss, got), (want_loss, want) = run(True), run(False)
    assert float(loss) == pytest.approx(float(want_loss), rel=1e-6)
    for a, b in zip(*map(jax.tree.leaves, (got, want)), strict=True):
        assert np.linalg.norm(a - b) <= 1e-5 * np.linalg.norm(b)
    # The encoder, which only the halves of the decoder read, is trained.
    first = want["encoder"]["stack"]["layers"]["lsh_1"]["f"]["attention"]
    assert np.abs(first["query_key"]["kernel"]).max() > 1e-6


# --- useful FLOPs ---------------------------------------------------------------------


def test_useful_flops_are_counted_pair_by_pair():
    rng = np.random.default_rng(0)
    config = dataclasses.replace(WHOLE, local_chunk_length=4)
    source, target = (np.sort(rng.integers(0, 3, (2, n)))[:, ::-1] for n in (14, 9))
    inputs = tuple(SequenceInputs(ids) for ids in (source, target))
    got = useful_flops.of_step(config, "reformer_seq2seq", inputs, causal_logits=5)

    def pairs(ids, causal):
        """Of tokens that see their own chunk and those beside it."""
        seen = 0
        for row in ids:
            for i, j in np.ndindex(len(row), len(row)):
                near = -1 <= j // 4 - i // 4 <= (0 if causal else 1)
                seen += row[i] == row[j] > 0 and near and (j <= i or not causal)
        return seen

    e, wide = 16, 12
    n, m = (int((ids > 0).sum()) for ids in (source, target))
    between = sum(
        a == b > 0 for x, y in zip(source, target, strict=True) for a in x for b in y
    )
    encoder = 4 * (4 * 2 * n * e * e + 4 * pairs(source, False) * e + 4 * n * e * wide)
    decoder = 4 * 2 * m * e * e + 4 * pairs(target, True) * e + 4 * m * e * wide
    cross = 2 * (2 * m + 2 * n) * e * e + 4 * between * e
    logits = 5 * 2 * e * 24
    assert got == 3 * (encoder + 2 * (decoder + cross) + logits)
