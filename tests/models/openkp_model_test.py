import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from etc_jax.base.types import Rows
from etc_jax.models.etc.config import EtcConfig
from etc_jax.models.ngram_head import NgramHead
from etc_jax.models.openkp import (
    EtcForKeyphrases,
    VisualEmbedding,
    visual_adders,
)
from etc_jax.ops.ngrams import NO_NGRAM
from etc_jax.ops.visual import Visual, crosses, dense_features
from etc_jax.sharding import path_of
from etc_jax.structure import builders

B, N, G, E = 2, 11, 3, 8
CONFIG = EtcConfig(
    vocab_size=20,
    embed_dim=E,
    num_layers=1,
    num_heads=2,
    mlp_dim=6,
    radius=4,
    max_distance=0,
    num_labels=None,
    attention="dense",
    initializer_range=0.3,
)
# Of 10 and 6 tokens; the second word of the first page has three pieces.
WORDS = np.array([[0, 1, 1, 1, 2, 3, 4, 5, 6, 7, -1], [0, 0, 1, 2, 2, 3, *[-1] * 5]])
NUM_WORDS = (8, 4)


def visual(seed=0) -> Visual:
    rng = np.random.default_rng(seed)
    return Visual(
        font=rng.integers(0, 24, (B, G)).astype(np.uint8),
        parent_font=rng.integers(0, 24, (B, G)).astype(np.uint8),
        flags=rng.integers(0, 256, (B, G)).astype(np.uint8),
        boxes=rng.uniform(-1, 1, (B, G, 8)).astype(np.float32),
    )


def inputs(n=N, g=G):
    """Tokens, structure, types, words and looks of two pages."""
    pages = [[3, 4, 3], [2, 4]]
    made = [builders.plain_text(p, long_length=n, global_length=g) for p in pages]
    structure = jax.tree.map(lambda *x: np.stack(x), *made)
    rng = np.random.default_rng(1)
    ids = rng.integers(1, 20, (B, N)) * (WORDS >= 0)
    pad = [(0, 0), (0, n - N)]
    tokens = Rows(np.pad(ids, pad), np.asarray(structure.global_example_ids))
    types = Rows(np.asarray(structure.long_example_ids), np.zeros((B, g), np.int32))
    looks = [np.pad(x, [(0, 0), (0, g - G), (0, 0)][: x.ndim]) for x in visual()]
    words = np.pad(WORDS, pad, constant_values=-1)
    return tokens, structure, types, words, Visual(*looks)


@functools.cache
def params(with_visual=True):
    """Random ones, as `init` takes long to compile."""
    model, rng = EtcForKeyphrases(CONFIG, with_visual=with_visual), jax.random.key(0)
    shapes = jax.eval_shape(model.init, rng, *inputs())["params"]
    # By path, so that what both models have is the same.
    return jax.tree_util.tree_map_with_path(
        lambda path, x: _random(path_of(path), x.shape), shapes
    )


def _random(path: str, shape) -> np.ndarray:
    rng = np.random.default_rng(list(path.encode()))
    return np.float32(path.endswith("scale") + 0.3 * rng.normal(size=shape))


@functools.cache
def _compiled(with_visual: bool):
    return jax.jit(EtcForKeyphrases(CONFIG, with_visual=with_visual).apply)


def apply(*args, with_visual=True):
    return _compiled(with_visual)({"params": params(with_visual)}, *args)


# --- head -----------------------------------------------------------------------------


def _normed(x, p):
    y = x - x.mean(axis=-1, keepdims=True)
    y = y / np.sqrt((y**2).mean(axis=-1, keepdims=True) + 1e-12)
    return y * np.asarray(p["scale"]) + np.asarray(p["bias"])


def _gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def test_logits_are_those_of_a_loop_over_runs():
    x = np.random.default_rng(2).normal(size=(B, N, E)).astype(np.float32)
    head = NgramHead(CONFIG)
    p = jax.jit(head.init)(jax.random.key(3), x, WORDS)["params"]
    p = jax.tree.map(lambda a: a + 0.01 * np.arange(a.size).reshape(a.shape), p)
    got = np.asarray(jax.jit(head.apply)({"params": p}, x, WORDS))
    assert got.shape == (B, 5, N) and got.dtype == np.float32
    for b, k, i in np.ndindex(got.shape):
        if i + k + 1 > NUM_WORDS[b]:
            assert got[b, k, i] == NO_NGRAM
            continue
        words = [x[b][WORDS[b] == w].sum(axis=0) for w in range(i, i + k + 1)]
        kernel = np.asarray(p[f"ngram_{k + 1}"]["kernel"])
        y = sum(
            _normed(word, p["word_norm"]) @ kernel[j] for j, word in enumerate(words)
        )
        y = _gelu(y + np.asarray(p[f"ngram_{k + 1}"]["bias"]))
        y = _normed(y, p[f"ngram_{k + 1}_norm"])
        want = (y @ np.asarray(p[f"ngram_{k + 1}_logit"]["kernel"]))[0]
        np.testing.assert_allclose(got[b, k, i], want, rtol=2e-5, atol=2e-5)


# --- looks ----------------------------------------------------------------------------


def test_looks_are_tables_and_two_dense_layers():
    module, look = VisualEmbedding(CONFIG), visual()
    p = jax.jit(module.init)(jax.random.key(0), look)["params"]
    got = jax.jit(module.apply)({"params": p}, look)
    for b, g in np.ndindex(B, G):
        hidden = np.asarray(dense_features(look))[b, g]
        for name in ("looks_in", "looks_out"):
            hidden = _gelu(hidden @ p[name]["kernel"] + p[name]["bias"])
        want = (
            hidden
            + p["flag_embedder"]["embedding"][int(crosses(look.flags)[b, g])]
            + p["font_embedder"]["embedding"][int(look.font[b, g])]
            + p["parent_font_embedder"]["embedding"][int(look.parent_font[b, g])]
        )
        np.testing.assert_allclose(got[b, g], want, rtol=1e-5, atol=1e-6)


def test_each_long_token_has_the_look_of_its_element():
    looks = jnp.asarray(np.random.default_rng(0).normal(size=(1, 3, 2)), jnp.float32)
    links = np.array([[2, 0, 0, -1]], np.int16)
    long, glob = visual_adders(looks, links)
    np.testing.assert_array_equal(long[0, :3], looks[0][np.array([2, 0, 0])])
    np.testing.assert_array_equal(long[0, 3], 0.0)
    np.testing.assert_array_equal(glob, looks)


# --- model ----------------------------------------------------------------------------


def test_the_look_of_an_element_decides_and_can_be_left_out():
    args = inputs()
    other = args[4]._replace(font=np.asarray(args[4].font) ^ 1)
    first, second = apply(*args), apply(*args[:4], other)
    assert not np.allclose(first, second)
    without = [apply(*args[:4], look, with_visual=False) for look in (args[4], other)]
    np.testing.assert_array_equal(*without)
    assert set(params()) == {"encoder", "visual", "head"}
    assert set(params(False)) == {"encoder", "head"}


def test_looks_add_no_parameter_to_the_encoder():
    shapes = [
        jax.tree.map(lambda x: x.shape, params(with_visual)["encoder"])
        for with_visual in (True, False)
    ]
    assert shapes[0] == shapes[1]


def test_padding_changes_nothing():
    short = np.asarray(apply(*inputs()))
    long = np.asarray(apply(*inputs(n=17, g=5)))
    np.testing.assert_allclose(long[..., :N], short, atol=1e-5)
    assert (long[..., N:] == NO_NGRAM).all()


def test_gradients_reach_every_parameter_and_are_finite():
    args = inputs()

    def loss(p):
        logits = EtcForKeyphrases(CONFIG).apply({"params": p}, *args)
        return jnp.sum(jax.nn.logsumexp(logits.reshape(B, -1), axis=-1))

    grads = jax.jit(jax.grad(loss))(params())
    flat = jax.tree_util.tree_leaves_with_path(grads)
    assert all(np.isfinite(x).all() for _, x in flat)
    still = {path_of(path) for path, x in flat if not np.any(x)}
    assert {path for path in still if not path.startswith("encoder")} == set()


def test_lower_precision_is_near():
    model = EtcForKeyphrases(dataclasses.replace(CONFIG, dtype="bfloat16"))
    got = jax.jit(model.apply)({"params": params()}, *inputs())
    want = np.asarray(apply(*inputs()))
    assert got.dtype == jnp.float32
    real = want > NO_NGRAM
    assert np.abs(np.asarray(got) - want)[real].max() < 0.1 * np.abs(want[real]).max()


def test_long_outputs_of_other_pages_do_not_matter():
    args = inputs()
    swapped = jax.tree.map(lambda x: x[::-1], args)
    got = np.asarray(apply(*swapped))[::-1]
    np.testing.assert_allclose(got, apply(*args), atol=1e-5)
