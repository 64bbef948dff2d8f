"""A long sequence that is split over devices gives what a whole one gives."""

import collections
import dataclasses
import functools
import re

import attention_cases as cases
import attention_test
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_model
from mean_loss import loss_of
from random_params import random_params

from etc_jax import sharding
from etc_jax.objectives.pretraining import Pretraining
from etc_jax.objectives.sections import MlmCpcConfig
from etc_jax.ops import sequence
from etc_jax.sharding import batch as batch_sharding
from etc_jax.structure import Rules, builders

AXIS = "sequence"
SPLIT = {"sequence": 8}
MIXED = {"data": 2, "tensor": 2, "sequence": 2}


def check_against_the_oracle(axes, inputs, structure, rules, **options):
    """Values and gradients equal those of the dense form on one device."""
    mesh = sharding.make_mesh(sharding.MeshConfig(**{"data": 1, **axes}))
    with jax.enable_x64(True):
        want = cases.outputs_and_gradients(
            inputs, structure, rules, implementation="dense"
        )
        with jax.set_mesh(mesh):
            got = cases.outputs_and_gradients(
                inputs,
                structure,
                rules,
                implementation="xla",
                block_size=3,
                sequence_axis=AXIS,
                **options,
            )
        attention_test.assert_trees_close(got, want, 1e-10)
        assert all(np.isfinite(x).all() for x in jax.tree.leaves(got))


# Lengths around the number of devices; radii within a device's part, just beyond it
# and beyond all of them; packed examples end anywhere.
RULE_CASES = [
    (1, 2, Rules(radius=3, max_distance=2)),
    (15, 3, Rules(radius=2, max_distance=3, hard_g2l=True)),
    (16, 3, Rules(radius=3, max_distance=2, hard_l2g=True)),
    (41, 5, Rules(radius=13, max_distance=4, hard_g2l=True, hard_l2g=True)),
    (19, 2, Rules(radius=30)),
    (17, 0, Rules(radius=4, max_distance=2)),
    (0, 3, Rules(radius=4, max_distance=2)),
]
MASKS = [(cases.PIECES,), ((),), (("l2l", "g2l"),)]


@pytest.mark.parametrize(
    "axes, n, g, rules",
    cases.pairwise((MIXED, SPLIT), RULE_CASES),
    ids=lambda x: f"r={x.radius}" if isinstance(x, Rules) else str(x),
)
@pytest.mark.full(but=["{'sequence': 8}-41-5-r=13"])
def test_rules_equal_the_oracle(axes, n, g, rules):
    inputs = cases.random_inputs(n, g, attention_test.num_labels(rules))
    structure = cases.random_structure(n, g, seed=3)
    check_against_the_oracle(axes, inputs, structure, rules)


@pytest.mark.parametrize("axes, masks", cases.pairwise((SPLIT, MIXED), MASKS), ids=str)
@pytest.mark.full(but=["{'sequence': 8}-('l2l', 'l2g', 'g2g', 'g2l')"])
def test_explicit_structures_equal_the_oracle(axes, masks):
    n, g, radius = 21, 3, 5
    inputs = cases.random_inputs(n, g, 9)
    structure = cases.random_explicit(n, g, radius, 9, masks=masks)
    rules = Rules(radius=radius)
    check_against_the_oracle(axes, inputs, structure, rules, chunk_blocks=1)


@pytest.mark.full
def test_dropout_draws_the_same_as_in_one_piece():
    """Where each device has whole blocks: here one of four tokens."""
    mesh = sharding.make_mesh(sharding.MeshConfig(data=1, **SPLIT))
    rules = Rules(radius=5)
    inputs = cases.random_inputs(32, 3, None)
    structure = cases.random_structure(32, 3)

    def run(**options):
        dropout = {"dropout_rate": 0.4, "dropout_rng": jax.random.key(0)}
        return cases.outputs_and_gradients(
            inputs, structure, rules, block_size=4, **dropout, **options
        )

    with jax.enable_x64(True):
        want = run(chunk_blocks=3)
        with jax.set_mesh(mesh):
            got = run(sequence_axis=AXIS)
    attention_test.assert_trees_close(got, want, 1e-10)


# Labels on a split sequence: above, and in `model_test`.
CONFIG = dataclasses.replace(
    tiny_model.MODEL, max_distance=0, num_labels=None, remat_policy="attention"
)
TASK = Pretraining(CONFIG, MlmCpcConfig())
# A sentence, and a document, lies across each cut of 64 tokens into eight.
DOCUMENTS = ((13, 9, 7), (11, 5, 12))
ROWS, N, G, PLACES = 4, 64, 8, 16


def pretraining_batch(n=N, places=PLACES):
    """Random tokens of packed documents, masked words and masked sentences."""
    rng = np.random.default_rng(0)
    one = builders.packed_documents(DOCUMENTS, long_length=n, global_length=G)
    lone = builders.packed_documents(((5,), (6,), (4,)), long_length=n, global_length=3)

    def rows(structure):
        return jax.tree.map(lambda x: np.stack([x] * ROWS), structure)

    def ids(*shape):
        return rng.integers(1, CONFIG.vocab_size, (ROWS, *shape)).astype(np.int32)

    return {
        "long_tokens": ids(n),
        "global_tokens": ids(G),
        "structure": rows(one),
        "mlm_positions": rng.integers(0, 57, (ROWS, places)).astype(np.int32),
        "mlm_targets": ids(places),
        "mlm_weights": np.ones((ROWS, places), np.float32),
        "mlm_overflow": np.zeros(ROWS, np.int32),
        "cpc_long_tokens": ids(n),
        "cpc_global_tokens": ids(3),
        "cpc_structure": rows(lone),
        "cpc_positions": np.tile(np.array([0, 2, 5], np.int32), (ROWS, 1)),
        "cpc_weights": np.ones((ROWS, 3), np.float32),
        "cpc_documents": np.tile(np.array([0, 0, 1], np.int32), (ROWS, 1)),
        "cpc_overflow": np.zeros(ROWS, np.int32),
    }


@functools.cache
def parameters():
    return random_params(TASK.init, spread=0.2)


def gradient_fn(params, batch):
    with jax.default_matmul_precision("highest"):
        return jax.value_and_grad(
            lambda p: loss_of(TASK)(p, batch, jax.random.key(0), True)[0]
        )(params)


def compiled(axes, params, batch, fn=gradient_fn, devices=None):
    """`fn` compiled for a mesh, with the layouts that training gives it."""
    config = sharding.MeshConfig(**{"data": 1, **axes})
    mesh = sharding.make_mesh(config, devices or jax.devices())
    layout = sharding.tree_shardings(params, mesh)
    rows = batch_sharding.batch_shardings(batch, mesh)
    with jax.set_mesh(mesh), sharding.logical_rules(sharding.DEFAULT_RULES):
        made = jax.jit(fn, in_shardings=(layout, rows)).lower(params, batch).compile()
    return made, (layout, rows)


@functools.cache
def whole():
    """Loss and gradients on one device."""
    made, _ = compiled({}, parameters(), pretraining_batch(), devices=jax.devices()[:1])
    return jax.device_get(made(parameters(), pretraining_batch()))


@pytest.mark.parametrize(
    "axes",
    [SPLIT, {"fsdp": 2, "tensor": 2, "sequence": 2}],
    ids=str,
)
@pytest.mark.full
def test_pretraining_equals_that_on_one_device(axes):
    inputs = (parameters(), pretraining_batch())
    made, layouts = compiled(axes, *inputs)
    value, gradient = jax.device_get(made(*jax.device_put(inputs, layouts)))
    want_value, want_gradient = whole()
    assert value == pytest.approx(want_value, rel=1e-5)
    for (path, got), want in zip(
        jax.tree_util.tree_leaves_with_path(gradient),
        jax.tree.leaves(want_gradient),
        strict=True,
    ):
        scale = np.abs(want).max()
        assert np.abs(got - want).max() <= 1e-4 * scale, jax.tree_util.keystr(path)


def abstract(tree):
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), tree)


def encode(params, batch):
    module = TASK._module(True)
    inputs = (batch[k] for k in ("long_tokens", "global_tokens", "structure"))
    return module.apply({"params": params}, *inputs, method="encode")


_COLLECTIVE = re.compile(
    r"= (?P<shape>\S+|\(.*?\)) (?P<kind>all-gather|all-reduce|reduce-scatter|"
    r"collective-permute|all-to-all)(-start)?\("
)


def collectives(made) -> collections.Counter:
    """{(kind, shape of the result): how often} in a compiled program."""
    found = collections.Counter()
    for line in made.as_text().splitlines():
        if match := _COLLECTIVE.search(line):
            found[match["kind"], re.sub(r"\{.*?\}", "", match["shape"])] += 1
    return found


def test_the_encoder_sends_halos_and_global_rows_alone():
    made, _ = compiled(SPLIT, abstract(parameters()), pretraining_batch(), encode)
    # The body of the loop over layers stands in the text once. Keys and values of the
    # halo travel together, to the left and to the right: a radius of 11 needs two
    # neighbours on each side where a device has 8 tokens. Example ids travel so too.
    heads, width = CONFIG.num_heads, CONFIG.embed_dim // CONFIG.num_heads
    expected = {
        ("collective-permute", f"f32[2,{ROWS},8,{heads},{width}]"): 2,
        ("collective-permute", f"f32[2,{ROWS},3,{heads},{width}]"): 2,
        ("collective-permute", f"s32[1,{ROWS},8]"): 2,
        ("collective-permute", f"s32[1,{ROWS},3]"): 2,
        # The softmax of the global rows: its maximum, then output and weight.
        ("all-reduce", f"f32[{ROWS},{heads},{G}]"): 1,
        ("all-reduce", f"f32[{ROWS},{heads},{G},{width + 1}]"): 1,
    }
    assert collectives(made) == expected


LONG = 65536


@functools.cache
def of_a_long_sequence(split):
    """The training of `LONG` tokens, compiled for eight devices or for one."""
    batch = abstract(pretraining_batch(LONG, LONG // 8))
    batch = {k: v for k, v in batch.items() if "cpc" not in k}
    axes, devices = (SPLIT, None) if split else ({}, jax.devices()[:1])
    return compiled(axes, abstract(parameters()), batch, devices=devices)[0]


def test_training_gathers_nothing_but_the_masked_places():
    """Gradients of weights are reduced; activations stay where they are."""
    found = collectives(of_a_long_sequence(split=True))
    gathered = {k: n for k, n in found.items() if k[0] in ("all-gather", "all-to-all")}
    places = f"f32[{ROWS},{LONG // 8},{CONFIG.embed_dim}]"
    assert gathered == {("all-gather", places): 1}
    scattered = f"f32[{ROWS},{LONG // 64},{CONFIG.embed_dim}]"
    assert found["reduce-scatter", scattered] == 1


@pytest.mark.full
def test_memory_of_a_device_falls_with_the_number_of_devices():
    one, eight = (
        of_a_long_sequence(split).memory_analysis().temp_size_in_bytes
        for split in (False, True)
    )
    print(f"{one / 2**20:.0f} MiB on one device, {eight / 2**20:.0f} on each of 8")
    assert one >= 6 * eight


def on_devices(fn, *arrays, axes, out):
    """`fn` on each device's part of arrays that are split along `axes`."""
    mesh = sharding.make_mesh(sharding.MeshConfig(data=1, **SPLIT))
    specs = tuple(jax.P(*(None,) * axis, AXIS) for axis in axes)
    with jax.set_mesh(mesh):
        return jax.jit(sequence.split(fn, AXIS, specs, out))(*arrays)


@pytest.mark.parametrize("radius", [1, 3, 4, 7, 40])
def test_halo_is_a_window_of_the_whole(radius):
    x = np.arange(1, 65).reshape(2, 32)
    got = on_devices(
        lambda x: sequence.halo([x, -x], radius, -1, AXIS),
        x,
        axes=(1,),
        out=(jax.P(None, AXIS),) * 2,
    )
    padded = np.pad(x, [(0, 0), (radius, radius)])
    want = [padded[:, i * 4 : i * 4 + 4 + 2 * radius] for i in range(8)]
    np.testing.assert_array_equal(got[0], np.concatenate(want, axis=1))
    np.testing.assert_array_equal(got[1], -got[0])


@pytest.mark.parametrize("places", [5, 16])
def test_rows_are_taken_from_whatever_device_has_them(places):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 21, 3)).astype(np.float32)
    positions = rng.integers(0, 21, (2, places))
    mesh = sharding.make_mesh(sharding.MeshConfig(data=1, **SPLIT))
    weight = rng.normal(size=(2, places, 3)).astype(np.float32)

    def total(x, axis):
        rows = sequence.take_rows(x, positions, axis)
        return jnp.sum(rows * weight), rows

    with jax.set_mesh(mesh):
        grad, rows = jax.jit(jax.grad(lambda x: total(x, AXIS), has_aux=True))(x)
    want = np.stack([x[b, positions[b]] for b in range(2)])
    np.testing.assert_array_equal(rows, want)
    want = np.zeros_like(x)
    for b in range(2):
        np.add.at(want[b], positions[b], weight[b])
    np.testing.assert_allclose(grad, want, rtol=1e-6)
