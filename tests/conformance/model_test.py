"""What the whole encoder must do, however it is run."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_params import random_params

from etc_jax import sharding
from etc_jax.base.types import Rows
from etc_jax.layers.stack import REMAT_POLICIES, stack_layers, unstack_layers
from etc_jax.models.etc.body import Etc
from etc_jax.models.etc.config import EtcConfig
from etc_jax.sharding import batch as batch_sharding
from etc_jax.structure import builders

CONFIG = EtcConfig(
    vocab_size=32,
    num_types=4,
    embed_dim=16,
    num_layers=2,
    num_heads=2,
    mlp_dim=32,
    radius=3,
    max_distance=2,
    num_labels=8,
    initializer_range=0.3,
    attention_block_size=8,
)

# Tokens of each sentence of each document.
DOCUMENTS = ((5, 3, 4), (2, 6))
N, G = 24, 6
# One for each device. All tests take this many, so that they share what is compiled.
ROWS = 8


def stacked(structures):
    return jax.tree.map(lambda *x: np.stack(x), *structures)


@functools.cache
def batch():
    """Tokens and structures of `ROWS` inputs, each of two packed documents."""
    rng = np.random.default_rng(0)
    long = rng.integers(CONFIG.vocab_size, size=(ROWS, N))
    glob = rng.integers(CONFIG.vocab_size, size=(ROWS, G))
    one = builders.packed_documents(DOCUMENTS, long_length=N, global_length=G)
    return long, glob, stacked([one] * ROWS)


@functools.cache
def params():
    return random_params(Etc(CONFIG).init, *batch())


def apply(config, params, *inputs, **more):
    with jax.default_matmul_precision("highest"):
        return Etc(config).apply({"params": params}, *inputs, **more)


@functools.cache
def compiled_apply(config):
    return jax.jit(functools.partial(apply, config))


def run(config, params, *inputs):
    return compiled_apply(config)(params, *inputs)


def loss(config, params, long, glob, structure):
    """A scalar that every real output enters with its own weight."""
    out = apply(config, params, long, glob, structure)
    masks = Rows(structure.long_example_ids > 0, structure.global_example_ids > 0)
    total = 0.0
    for x, mask in zip(out, masks, strict=True):
        weight = jnp.cos(jnp.arange(x[0].size, dtype=x.dtype)).reshape(1, *x.shape[1:])
        total += jnp.sum(jnp.where(mask[..., None], x * weight, 0)) / x.size
    return total


def value_and_grad(config, params, *inputs):
    return jax.jit(jax.value_and_grad(functools.partial(loss, config)))(params, *inputs)


@functools.cache
def expected():
    """Loss and gradients as they should be however the layers are run."""
    return value_and_grad(CONFIG, params(), *batch())


def assert_close(got, want, atol):
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, atol=atol, rtol=0)


def test_packed_documents_equal_separate_ones():
    long, glob, structure = batch()
    packed = run(CONFIG, params(), long, glob, structure)
    tokens = globals_ = 0
    for document in DOCUMENTS:
        n, g = sum(document), len(document)
        one = builders.plain_text(document, long_length=N, global_length=G)
        # Padding is arbitrary tokens, so the next document's may stand there.
        out = run(
            CONFIG,
            params(),
            np.roll(long, -tokens, axis=1),
            np.roll(glob, -globals_, axis=1),
            stacked([one] * ROWS),
        )
        np.testing.assert_allclose(
            packed.long[:, tokens : tokens + n], out.long[:, :n], atol=1e-5
        )
        np.testing.assert_allclose(
            packed.global_[:, globals_ : globals_ + g], out.global_[:, :g], atol=1e-5
        )
        tokens, globals_ = tokens + n, globals_ + g


@pytest.mark.full
def test_unrolled_layers_equal_scanned_ones():
    config = dataclasses.replace(CONFIG, scan_layers=False, remat_policy="dots")
    unrolled = params() | {"stack": unstack_layers(params()["stack"])}
    value, gradient = value_and_grad(config, unrolled, *batch())
    gradient["stack"] = stack_layers(gradient["stack"])
    assert_close((value, gradient), expected(), 1e-5)


# In the default run each policy goes with something else: with unrolled layers above,
# with a mesh below.
@pytest.mark.full
@pytest.mark.parametrize("policy", [p for p in REMAT_POLICIES if p != "none"])
def test_rematerialisation_changes_nothing(policy):
    config = dataclasses.replace(CONFIG, remat_policy=policy)
    assert_close(value_and_grad(config, params(), *batch()), expected(), 1e-5)


def test_the_dense_oracle_gives_the_same_model():
    config = dataclasses.replace(CONFIG, attention="dense")
    assert_close(value_and_grad(config, params(), *batch()), expected(), 1e-5)


def test_jit_changes_nothing():
    out = apply(CONFIG, params(), *batch())
    assert_close(out, run(CONFIG, params(), *batch()), 1e-5)


# fsdp, tensor and sequence together are those of `sequence_test`.
@pytest.mark.parametrize(
    "axes, policy",
    [
        ({"data": 2, "fsdp": 2, "tensor": 2}, "full"),
        ({"sequence": 8}, "attention"),
        *(
            pytest.param(axes, "none", marks=pytest.mark.full)
            for axes in (
                {"data": 8},
                {"fsdp": 8},
                {"data": 2, "sequence": 4},
                {"fsdp": 2, "tensor": 2, "sequence": 2},
            )
        ),
    ],
    ids=str,
)
@pytest.mark.full(but=["*-full"])
def test_eight_devices_equal_one(axes, policy):
    assert len(jax.devices()) == ROWS
    inputs, config = batch(), dataclasses.replace(CONFIG, remat_policy=policy)
    mesh = sharding.make_mesh(sharding.MeshConfig(**axes))
    layout = sharding.tree_shardings(params(), mesh)
    in_shardings = (layout, *batch_sharding.batch_shardings(inputs, mesh))
    with jax.set_mesh(mesh), sharding.logical_rules(sharding.DEFAULT_RULES):
        step = jax.jit(
            jax.value_and_grad(functools.partial(loss, config)),
            in_shardings=in_shardings,
            out_shardings=(batch_sharding.replicated(mesh), layout),
        )
        got = step(jax.device_put(params(), layout), *inputs)
    kernel = got[1]["stack"]["layers"]["layer"]["mlp"]["wi"]["kernel"]
    split = {k: v for k, v in axes.items() if k in ("fsdp", "tensor")}
    share = np.prod(list(split.values()), dtype=int)
    assert kernel.addressable_shards[0].data.size * share == kernel.size
    assert_close(got, expected(), 1e-5)


def test_dropout_needs_and_follows_its_key():
    model = Etc(CONFIG, deterministic=False)

    @jax.jit
    def sample(rng):
        return model.apply({"params": params()}, *batch(), rngs={"dropout": rng})

    first, again = sample(jax.random.key(0)), sample(jax.random.key(0))
    other = sample(jax.random.key(1))
    assert_close(first, again, 0)
    assert np.abs(first.long - other.long).max() > 1e-2
