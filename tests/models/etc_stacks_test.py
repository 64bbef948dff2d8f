"""ETC with LSH layers, and with layers that are undone in the backward pass."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_params import random_params

from etc_jax import sharding
from etc_jax.base.types import Rows
from etc_jax.layers.patterns import chunks
from etc_jax.layers.patterns.chunks import LshChunks
from etc_jax.layers.reversible import TwoStreamStack
from etc_jax.layers.self_attention import SelfAttention, SequenceInputs
from etc_jax.models.etc import body as etc
from etc_jax.ops.attention import lsh
from etc_jax.ops.attention.parts.lsh_hashing import draw_rotations
from etc_jax.structure import Structure

SMALL = {
    "vocab_size": 11,
    "embed_dim": 8,
    "num_layers": 4,
    "num_heads": 2,
    "mlp_dim": 12,
    "radius": 2,
    "max_distance": 2,
    "num_labels": 8,
    "initializer_range": 0.3,
    "dropout_rate": 0.0,
    "attention_dropout_rate": 0.0,
    "lsh_chunk_length": 4,
}
MIXED = ("global_local", "lsh")
# Quicker to compile, where labels are not the point.
PLAIN = {"max_distance": 0, "num_labels": None}
N, G = 21, 3


def config_of(**changes) -> etc.EtcConfig:
    return etc.EtcConfig(**SMALL | changes)


def inputs(n=N, g=G):
    """Two examples in the first row, one and padding in the second."""
    rng = np.random.default_rng(0)
    long_ids, global_ids = np.ones((2, n), np.int32), np.ones((2, g), np.int32)
    long_ids[0, n // 2 :], global_ids[0, 1:] = 2, 2
    long_ids[1, n - 5 :], global_ids[1, 2:] = 0, 0
    links = np.where(long_ids == 2, 1, 0)[..., None].astype(np.int16)
    structure = Structure(long_ids, global_ids, links)
    tokens = [rng.integers(1, 11, (2, x), np.int32) for x in (n, g)]
    return *tokens, structure


def made(config, deterministic=True):
    """(model, random parameters)."""
    params = random_params(etc.Etc(config).init, *inputs(), seed=1)
    return etc.Etc(config, deterministic), params


def paths(params) -> set[str]:
    leaves = jax.tree_util.tree_leaves_with_path(params)
    return {sharding.path_of(path) for path, _ in leaves}


@functools.cache
def one_layer(kind):
    """A compiled stack of one layer."""
    config = config_of(pattern=(kind,), num_layers=1)
    return jax.jit(etc._stack(config, True).apply)


@pytest.mark.parametrize("scan, count", [(True, 4), (False, 2)])
@pytest.mark.full(but=["False-2"])
def test_layers_of_a_pattern_come_one_after_the_other(scan, count):
    config = config_of(pattern=MIXED, scan_layers=scan, num_layers=count)
    model, params = made(config)
    out = jax.jit(model.apply)({"params": params}, *inputs())

    # By hand: models of one layer each, fed by the layer before.
    *tokens, structure = inputs()
    x = model.bind({"params": params}).embeddings(
        Rows(*tokens), etc.NOTHING, etc.NOTHING, etc.NOTHING
    )
    apply = [one_layer(kind) for kind in MIXED]
    for i in range(count):
        repeat, kind = divmod(i, 2)
        where = params["stack"]
        where = (
            jax.tree.map(lambda a, r=repeat: a[r], where["layers"])
            if scan
            else where[f"layers_{repeat}"]
        )
        mine = where["period"][f"{MIXED[kind]}_{kind}"]
        stacked = jax.tree.map(lambda a: a[None], {"layer": mine})
        # In evaluation an LSH layer's rotations are those of its number.
        x = apply[kind]({"params": {"layers": stacked}}, x, structure, np.array([i]))
    for got, want in zip(out, x, strict=True):
        np.testing.assert_allclose(got, want, atol=2e-5)


def test_an_lsh_layer_sees_global_and_long_tokens_as_one_sequence():
    config = config_of(pattern=("lsh",), num_layers=1, pre_norm=True, mlp_dim=1)
    model, params = made(config)
    *tokens, structure = inputs()
    layer = jax.tree.map(lambda a: a[0], params["stack"]["layers"]["layer"])
    x = Rows(
        *(jax.random.normal(jax.random.key(i), (2, k, 8)) for i, k in ((0, N), (1, G)))
    )
    attention = config.patterns[0].module(name=None, num_heads=2, head_dim=4)
    got, _ = jax.jit(attention.apply)({"params": layer["attention"]}, x, structure)
    flat = SelfAttention(
        2,
        4,
        LshChunks(lsh.ChunkNeighbors(4), num_hashes=2),
        projection_bias=False,
        out_bias=False,
        implementation="dense",
    )
    want, _ = jax.jit(flat.apply)(
        {"params": layer["attention"]["flat"]},
        jnp.concatenate([x.global_, x.long], axis=1),
        SequenceInputs(
            np.concatenate(
                [structure.global_example_ids, structure.long_example_ids], 1
            )
        ),
    )
    np.testing.assert_allclose(got.global_, want[:, :G], atol=1e-5)
    np.testing.assert_allclose(got.long, want[:, G:], atol=1e-5)


@pytest.mark.parametrize("pattern, reversible", [(("lsh",), False), (MIXED, True)])
def test_packed_examples_and_padding_do_not_meet(pattern, reversible):
    # In one chunk: in several, who is sorted where depends on all examples.
    config = config_of(
        pattern=pattern, reversible=reversible, pre_norm=True, lsh_chunk_length=N + G
    )
    model, params = made(config)
    long, glob, structure = inputs()
    apply = jax.jit(model.apply)
    other = long.copy()
    other[structure.long_example_ids != 1] = 7
    first = structure.long_example_ids == 1
    before, after = (
        apply({"params": params}, x, glob, structure) for x in (long, other)
    )
    np.testing.assert_allclose(before.long[first], after.long[first], atol=1e-5)
    assert np.abs(before.long[~first] - after.long[~first]).max() > 1e-2


def stepped(config, dropout=0.1):
    """The gradient of a training step, as a function of params."""
    config = dataclasses.replace(
        config, dropout_rate=dropout, attention_dropout_rate=dropout
    )
    model = etc.Etc(config, deterministic=False)

    def loss(params):
        rngs = {"dropout": jax.random.key(5)}
        y = model.apply({"params": params}, *inputs(), rngs=rngs)
        return sum(jnp.sum(jnp.sin(3 * a)) for a in y)

    return jax.jit(jax.value_and_grad(loss))


@pytest.mark.parametrize("share_mlp", [True, False])
@pytest.mark.full
def test_gradients_of_a_reversible_stack_are_those_of_plain_autodiff(
    share_mlp, monkeypatch
):
    config = config_of(
        pattern=MIXED, reversible=True, pre_norm=True, share_mlp=share_mlp, **PLAIN
    )
    _, params = made(config)
    loss, gradients = stepped(config)(params)
    plain = functools.partial(TwoStreamStack, reversible=False)
    monkeypatch.setattr(etc, "TwoStreamStack", plain)
    want_loss, want = stepped(config)(params)
    assert abs(loss - want_loss) < 1e-4
    total = max(np.abs(x).max() for x in jax.tree.leaves(want))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5 * total, rtol=1e-4),
        gradients,
        want,
    )


@pytest.mark.parametrize(
    "count, changes",
    [
        (2, {"pattern": ("lsh",), "num_layers": 2, "scan_layers": False}),
        (4, {"pattern": MIXED, "num_layers": 8}),
        (4, {"pattern": ("lsh",), "reversible": True, "pre_norm": True}),
    ],
    ids=["unrolled", "scanned", "reversible"],
)
@pytest.mark.full(but=["scanned"])
def test_in_evaluation_each_layer_has_rotations_of_its_own(count, changes, monkeypatch):
    drawn = []

    def noted(rotations):
        drawn.append(np.asarray(rotations))
        return rotations

    def recorded(*args):
        # No debug.callback: Flax's scan takes its effect for a broken invariant.
        rotations = draw_rotations(*args)
        return jax.pure_callback(noted, rotations, rotations, vmap_method="expand_dims")

    monkeypatch.setattr(chunks, "draw_rotations", recorded)
    model, params = made(config_of(**changes))
    drawn.clear()
    apply = jax.jit(model.apply)
    for _ in range(2):  # the same in each call
        jax.block_until_ready(apply({"params": params}, *inputs()))
    first, again = drawn[:count], drawn[count:]
    assert len(first) == len(again) == count
    assert all((a != b).any() for a, b in itertools.combinations(first, 2))
    order = [sorted(x.tobytes() for x in call) for call in (first, again)]
    assert order[0] == order[1]


def test_rotations_and_dropout_are_drawn_anew_in_each_step():
    config = config_of(pattern=("lsh",), reversible=True, pre_norm=True)
    model, params = made(config, deterministic=False)
    apply = jax.jit(model.apply)

    def out(seed):
        rngs = {"dropout": jax.random.key(seed)}
        return apply({"params": params}, *inputs(), rngs=rngs).long

    assert np.abs(out(0) - out(1)).max() > 1e-3
    np.testing.assert_array_equal(out(0), out(0))


@pytest.mark.full
def test_memory_of_a_reversible_stack_does_not_grow_with_depth():
    def temporary(depth, reversible):
        config = config_of(
            num_layers=depth, reversible=reversible, pre_norm=True, **PLAIN
        )
        params = jax.eval_shape(etc.Etc(config).init, jax.random.key(0), *inputs())
        compiled = stepped(config, dropout=0.0).lower(params["params"]).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    deep = temporary(24, True)
    assert deep < 1.1 * temporary(6, True)
    assert temporary(24, False) > 2 * deep


@pytest.mark.parametrize("reversible", [True, False])
def test_every_parameter_has_a_sharding_row_in_mixed_stacks(reversible):
    config = config_of(pattern=MIXED, reversible=reversible, pre_norm=True)
    _, params = made(config)
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        axes = sharding.axes_for(sharding.path_of(path), leaf.ndim)
        assert len(axes) == leaf.ndim


def test_a_reversible_layer_has_the_parameters_of_a_plain_one():
    names = {}
    for reversible in (True, False):
        config = config_of(reversible=reversible, pre_norm=True, num_layers=2)
        _, params = made(config)
        found = {p.rpartition("layers/")[2] for p in paths(params["stack"])}
        for scope in ("global_local_0/f/", "global_local_0/g/", "layer/"):
            found = {name.removeprefix(scope) for name in found}
        names[reversible] = found
    assert names[True] == names[False]


@pytest.mark.parametrize(
    "change, field",
    [
        ({"pattern": ("lsch",)}, "pattern is .*expected names of .*global_local"),
        ({"pattern": ()}, "pattern"),
        ({"num_buckets": (7,)}, "num_buckets"),
        ({"num_hashes": 0}, "num_hashes is 0; expected 1 or more"),
        ({"reversible": True}, "pre_norm is False; reversible needs True"),
        (
            {"reversible": True, "pre_norm": True, "remat_policy": "full"},
            "remat_policy is 'full'; reversible needs 'none'",
        ),
    ],
)
def test_stacks_that_do_not_fit_are_refused(change, field):
    with pytest.raises(ValueError, match=field):
        jax.eval_shape(etc.Etc(config_of(**change)).init, jax.random.key(0), *inputs())


def test_masks_as_tensors_are_refused_by_lsh_layers():
    long, glob, _ = inputs()
    explicit = Structure.explicit(l2l_mask=np.ones((2, N, 5), bool))
    with pytest.raises(ValueError, match="needs a Structure, got ExplicitStructure"):
        etc.Etc(config_of(pattern=("lsh",))).init(
            jax.random.key(0), long, glob, explicit
        )
