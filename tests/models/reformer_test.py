"""The Reformer model: any length, padding, causality, both stacks, sizes."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_model
from random_params import random_params

from etc_jax.models import config_problems
from etc_jax.models.reformer import config as reformer_config
from etc_jax.models.reformer.body import ReformerLm
from etc_jax.models.reformer.config import duplication, enwik8, imagenet64
from etc_jax.models.reformer.embeddings import AxialPositions

TINY = dataclasses.replace(tiny_model.REFORMER, num_buckets=None, initializer_range=0.3)


def tokens_of(n, seed=0):
    return np.random.default_rng(seed).integers(1, 11, size=(2, n)).astype(np.int32)


@functools.cache
def params_of(config):
    return random_params(ReformerLm(config).init, tokens_of(16), spread=0.5)


@functools.partial(jax.jit, static_argnums=0)
def applied(config, params, tokens, given):
    return ReformerLm(config).apply({"params": params}, tokens, **given)


def logits_of(config, tokens, **given):
    return np.asarray(applied(config, params_of(TINY), tokens, given))


# One token, one more than a chunk of local attention, all that there are positions for.
@pytest.mark.parametrize("n", [1, 5, 48])
@pytest.mark.full(but=["5"])
def test_any_length_up_to_the_longest_works(n):
    logits = logits_of(TINY, tokens_of(n))
    assert logits.shape == (2, n, 11)
    assert np.isfinite(logits).all()


def test_the_last_repeat_of_a_pattern_may_be_cut_short():
    short = dataclasses.replace(TINY, num_layers=3)
    assert short.run == (*TINY.pattern, TINY.pattern[0])
    params, tokens = params_of(short), tokens_of(9)
    layers = params["encoder"]["stack"]["layers"]
    assert set(layers) == {f"{kind}_{i}" for i, kind in enumerate(short.run)}
    whole = dataclasses.replace(short, pattern=short.run)
    got, want = (applied(config, params, tokens, {}) for config in (short, whole))
    np.testing.assert_array_equal(got, want)


def test_what_is_after_does_not_change_what_was_said_before():
    # One bucket each way round would let later tokens decide who meets whom: with
    # chunks of the whole length nobody is hashed.
    config = dataclasses.replace(TINY, lsh_chunk_length=32, local_chunk_length=4)
    tokens = tokens_of(16)
    changed = tokens.copy()
    changed[:, 9:] = tokens_of(16, seed=1)[:, 9:]
    first, second = (logits_of(config, x)[:, :9] for x in (tokens, changed))
    np.testing.assert_allclose(first, second, atol=1e-6)


@pytest.fixture
def wide(monkeypatch, float64):
    """Makes a config compute in float64: kinds of CPUs round float32 differently."""
    monkeypatch.setattr(reformer_config, "DTYPES", config_problems.DTYPES)
    dtypes = {"dtype": "float64", "residual_dtype": "float64"}
    return lambda config: dataclasses.replace(config, **dtypes)


def test_padding_changes_nothing_in_one_chunk(wide):
    config = wide(dataclasses.replace(TINY, lsh_chunk_length=32, local_chunk_length=32))
    config = dataclasses.replace(config, causal=False)
    tokens = tokens_of(12)
    mask = np.ones((2, 12), np.int32)
    mask[:, 9:] = 0
    padded = logits_of(config, tokens, example_ids=mask)[:, :9]
    got = logits_of(config, tokens[:, :9])
    np.testing.assert_allclose(got, padded, atol=1e-6)


# In the default run: `etc_stacks_test` with dropout, golden cases for this model.
@pytest.mark.full
def test_the_stacks_give_the_same_gradients_with_dropout(wide):
    rates = {"dropout_rate": 0.2, "attention_dropout_rate": 0.1}
    config = wide(dataclasses.replace(TINY, **rates))
    tokens = tokens_of(21)
    found = []
    for reversible in (True, False):
        changed = dataclasses.replace(config, reversible=reversible)
        model = ReformerLm(changed, deterministic=False)

        def loss(params, model=model):
            rngs = {"dropout": jax.random.key(1), "lsh": jax.random.key(2)}
            losses, _ = model.apply(
                {"params": params}, tokens, tokens, method=model.losses, rngs=rngs
            )
            return losses.mean()

        found.append(jax.jit(jax.value_and_grad(loss))(params_of(TINY)))
    (a, da), (b, db) = found
    np.testing.assert_allclose(a, b, rtol=1e-6)
    for x, y in zip(jax.tree.leaves(da), jax.tree.leaves(db), strict=True):
        assert np.linalg.norm(x - y) <= 1e-5 * np.linalg.norm(y) + 1e-9


@pytest.mark.full
def test_pieces_of_feed_forward_and_logits_change_nothing(wide):
    tokens, whole = tokens_of(21), wide(TINY)
    pieces = dataclasses.replace(whole, mlp_chunk_length=5, logits_chunk_length=6)
    found = []
    for config in (whole, pieces):
        model = ReformerLm(config)

        def loss(params, model=model):
            args = (tokens, tokens)
            losses, _ = model.apply({"params": params}, *args, method=model.losses)
            return losses.mean()

        found.append(jax.jit(jax.value_and_grad(loss))(params_of(TINY)))
    chances = jax.nn.log_softmax(logits_of(whole, tokens))
    want = -np.take_along_axis(np.asarray(chances), tokens[..., None], -1).mean()
    np.testing.assert_allclose(found[0][0], want, rtol=1e-6)
    for x, y in zip(*map(jax.tree.leaves, found), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-6)


def test_rotations_come_from_the_seed_the_key_or_the_caller():
    tokens = tokens_of(40)
    plain = logits_of(TINY, tokens)
    for given in ({"rngs": {"lsh": jax.random.key(5)}}, {"rotations": None}):
        same = "rotations" in given
        assert (logits_of(TINY, tokens, **given) == plain).all() == same
    other = dataclasses.replace(TINY, hash_seed=7)
    assert (logits_of(other, tokens) != plain).any()


def test_axial_positions_are_rows_and_columns_side_by_side():
    module = AxialPositions((3, 4), (2, 5), 1.0)
    params = module.init(jax.random.key(0), 12)["params"]
    got = module.apply({"params": params}, 10)
    for place in range(10):
        want = [params["rows"][place // 4], params["columns"][place % 4]]
        np.testing.assert_array_equal(got[place], np.concatenate(want))


@pytest.mark.full
def test_axial_positions_of_an_image_are_row_column_and_channel():
    shape, dims = (4, 5, 3), (2, 3, 1)
    module = AxialPositions(shape, dims, 1.0)
    params = module.init(jax.random.key(0), 1)["params"]
    apply = functools.partial(module.apply, {"params": params})
    pixels = [
        np.concatenate([params["rows"][i], params["columns"][j], params["channels"][k]])
        for i in range(4)
        for j in range(5)
        for k in range(3)
    ]
    for length in (1, 16, 60):
        np.testing.assert_array_equal(apply(length), pixels[:length])
    some = np.array([59, 0, 17])
    got = apply(some, method="at")
    np.testing.assert_array_equal(got, np.stack(pixels)[some])


def parameters_by_hand(c):
    """The sum of all tables, maps and norms, a layer at a time."""
    e, inner = c.embed_dim, c.num_heads * c.attention_head_dim
    total = c.vocab_size * e + 2 * e * c.vocab_size + c.vocab_size + 2 * 2 * e
    if c.axial_shape is None:
        total += c.max_length * e
    else:
        total += sum(a * d for a, d in zip(c.axial_shape, c.axial_dims, strict=True))
    for kind in c.pattern * (c.num_layers // len(c.pattern)):
        projections = {"local": 3, "lsh": 2}[kind]
        total += (projections + 1) * e * inner
        total += e * c.mlp_dim + c.mlp_dim + c.mlp_dim * e + e + 2 * 2 * e
    return total


@pytest.mark.parametrize("config", [enwik8(), imagenet64(), duplication()])
def test_named_sizes_have_the_parameters_that_they_say(config):
    model = ReformerLm(config)
    abstract = jax.eval_shape(
        lambda: model.init(jax.random.key(0), jnp.ones((1, 256), jnp.int32))
    )
    count = sum(x.size for x in jax.tree.leaves(abstract))
    assert count == parameters_by_hand(config)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"axial_shape": (6, 0)}, r"is \(6, 0\); expected two or three numbers, 1 or"),
        ({"axial_shape": (48,)}, r"is \(48,\); expected two or three numbers, 1 or"),
        ({"lsh_attention_dropout_rate": 1.0}, "lsh_attention_dropout_rate "),
        ({"axial_dims": (3, 4)}, "expected 2 widths whose sum is embed_dim 8"),
        ({"axial_shape": None}, "axial_dims is given without axial_shape"),
        ({"num_buckets": (5,)}, r"num_buckets is \(5,\); expected an even number"),
        ({"num_hashes": 0}, "num_hashes is 0; expected 1 or more"),
        ({"pattern": ("lsh", "global")}, "pattern is .* expected names of"),
        ({"num_heads": 3}, "3 does not divide embed_dim 8"),
        ({"lsh_chunk_length": 0}, "lsh_chunk_length is 0; expected 1 or more"),
        ({"duplicates": "onec"}, "did you mean 'once'"),
    ],
)
def test_configs_that_do_not_fit_are_named(change, message):
    config = dataclasses.replace(TINY, **change)
    with pytest.raises(ValueError, match=message):
        ReformerLm(config).init(jax.random.key(0), tokens_of(4))
