"""What every implementation of global-local attention must do."""

import dataclasses
import functools

import attention_cases as cases
import jax
import numpy as np
import pytest

from etc_jax.base.types import Rows
from etc_jax.ops.attention import global_local
from etc_jax.ops.attention.parts import global_local_dense
from etc_jax.structure import Link, Rules

BLOCK = 8
NUM_LABELS = 12
LINKS = (Link("sentence"), Link("paragraph"), Link("mention", opens=False, label=None))

# name: (n, g, rules, chunk_blocks); lengths lie around one block of 8.
RULE_CASES = {
    "one token": (1, 1, Rules(radius=3, max_distance=2), None),
    "block-1, r < k": (7, 2, Rules(radius=2, max_distance=4, hard_g2l=True), None),
    "block, r = k, own link label": (
        8,
        3,
        Rules(
            radius=3,
            max_distance=3,
            hard_l2g=True,
            links=(*LINKS[:2], Link("mention", True, 8)),
        ),
        None,
    ),
    "block+1, r > k": (9, 2, Rules(radius=5, max_distance=2), 1),
    "prime, everything": (
        23,
        5,
        Rules(
            radius=4, max_distance=2, hard_g2l=True, hard_l2g=True, parent_labels=(8, 9)
        ),
        2,
    ),
    "no long tokens": (0, 3, Rules(radius=2, max_distance=2), None),
    "no global tokens": (11, 0, Rules(radius=2, max_distance=2), 1),
    "r >= n, no labels": (13, 3, Rules(radius=20, hard_g2l=True, hard_l2g=True), None),
}

# name: (n, g, radius, labels?, masked pieces, labelled pieces, chunk_blocks)
EXPLICIT_CASES = {
    "one token": (1, 2, 2, True, cases.PIECES, cases.PIECES, None),
    "prime in chunks": (13, 3, 3, True, cases.PIECES, cases.PIECES, 1),
    "no labels": (9, 3, 3, False, cases.PIECES, (), None),
    "no masks": (17, 3, 4, True, (), cases.PIECES, 2),
    "r >= n": (7, 2, 9, True, cases.PIECES, cases.PIECES, None),
    "half the masks, half the labels": (
        11,
        3,
        2,
        True,
        ("l2l", "g2l"),
        ("g2g", "g2l"),
        1,
    ),
    "no global tokens": (9, 0, 2, True, cases.PIECES, cases.PIECES, None),
    "no long tokens": (0, 3, 2, True, cases.PIECES, cases.PIECES, None),
}


def num_labels(rules):
    return NUM_LABELS if rules.max_distance else None


def assert_trees_close(got, want, atol):
    """Equal structure (an absent gradient counts as absent) and close leaves."""
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, atol=atol, rtol=0)


def blind_rows(structure, rules, n, g):
    """`Rows` of bool `[b, n]`, `[b, g]`: rows that see nothing, by the dense masks."""
    pairs = global_local_dense.pair_matrices(structure, rules, n, g)

    def blind(own, other):
        masks = [
            np.broadcast_to(pairs[p][0], (2, *pairs[p][0].shape[1:]))
            for p in (own, other)
        ]
        return ~np.concatenate(masks, axis=-1).any(-1)

    return Rows(blind("l2l", "l2g"), blind("g2g", "g2l"))


def check_against_the_oracle(inputs, structure, rules, chunk_blocks):
    """Values and gradients equal; rows that see nothing are exact zeros."""
    with jax.enable_x64(True):
        want = cases.outputs_and_gradients(
            inputs, structure, rules, implementation="dense"
        )
        got = cases.outputs_and_gradients(
            inputs,
            structure,
            rules,
            implementation="xla",
            block_size=BLOCK,
            chunk_blocks=chunk_blocks,
        )
        assert all(x.dtype == np.float64 for x in jax.tree.leaves(got))
        assert_trees_close(got, want, 1e-10)
        assert all(np.isfinite(x).all() for x in jax.tree.leaves(got))
        n, g = inputs.query.long.shape[1], inputs.query.global_.shape[1]
        blind = blind_rows(structure, rules, n, g)
        for out, d_query, rows in zip(got[0], got[1][0], blind, strict=True):
            assert not np.asarray(out)[rows].any()
            assert not np.asarray(d_query)[rows].any()
    return blind


@pytest.mark.parametrize("name", RULE_CASES)
@pytest.mark.full(but=["prime, everything", "no long tokens", "one token"])
def test_rules_equal_the_oracle(name):
    n, g, rules, chunk_blocks = RULE_CASES[name]
    inputs = cases.random_inputs(n, g, num_labels(rules))
    structure = cases.random_structure(n, g, seed=3)
    check_against_the_oracle(inputs, structure, rules, chunk_blocks)


@pytest.mark.parametrize("name", EXPLICIT_CASES)
@pytest.mark.full(
    but=["prime in chunks", "half the masks, half the labels", "no global tokens"]
)
def test_explicit_tensors_equal_the_oracle(name):
    n, g, radius, labelled, masks, labels, chunk_blocks = EXPLICIT_CASES[name]
    size = NUM_LABELS if labelled else None
    inputs = cases.random_inputs(n, g, size)
    structure = cases.random_explicit(n, g, radius, size, masks=masks, labels=labels)
    blind = check_against_the_oracle(
        inputs, structure, Rules(radius=radius), chunk_blocks
    )
    if masks == cases.PIECES:
        assert all(rows[:, :1].all() for rows in blind)


def test_the_random_structures_have_rows_that_see_nothing():
    rules = RULE_CASES["prime, everything"][2]
    blind = blind_rows(cases.random_structure(23, 5, seed=3), rules, 23, 5)
    assert all(rows.any() and not rows.all() for rows in blind)


def widened(structure, extra_long, extra_global):
    """The same structure with padding after, whose other vectors are arbitrary."""

    def pad(name, x):
        if x is None:
            return None
        is_global = name in ("global_example_ids", "exempt_g2l", "order_ids", "parent")
        extra = extra_global if is_global else extra_long
        widths = [(0, 0), (0, extra)] + [(0, 0)] * (x.ndim - 2)
        return np.pad(x, widths, constant_values=0)

    fields = {f.name: f.name for f in dataclasses.fields(structure)}
    return type(structure)(**{f: pad(f, getattr(structure, f)) for f in fields})


@pytest.mark.parametrize(
    "implementation", ["xla", pytest.param("dense", marks=pytest.mark.full)]
)
def test_padding_changes_nothing(implementation):
    n, g, rules, _ = RULE_CASES["prime, everything"]
    inputs = cases.random_inputs(n, g, NUM_LABELS)
    wide = cases.random_inputs(n + 6, g + 2, NUM_LABELS, seed=9)

    def insert(small, large):
        if small.shape == large.shape:
            return small
        large = large.copy()
        large[:, : small.shape[1]] = small
        return large

    wide = cases.Inputs(
        *(
            jax.tree.map(insert, getattr(inputs, f.name), getattr(wide, f.name))
            for f in dataclasses.fields(inputs)
        )
    )
    structure = cases.random_structure(n, g, seed=3)
    with jax.enable_x64(True):
        options = {"implementation": implementation}
        small = cases.outputs_and_gradients(inputs, structure, rules, **options)
        large = cases.outputs_and_gradients(
            wide, widened(structure, 6, 2), rules, **options
        )
    for a, b in zip(jax.tree.leaves(small), jax.tree.leaves(large), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape:
            assert not b[:, a.shape[1] :].any()  # nothing flows to padding
            b = b[:, : a.shape[1]]
        np.testing.assert_allclose(a, b, atol=1e-10)


def test_bfloat16_is_near_float32():
    n, g, rules, chunk_blocks = RULE_CASES["block, r = k, own link label"]
    inputs = cases.random_inputs(n, g, NUM_LABELS)
    structure = cases.random_structure(n, g, seed=3)
    options = {"implementation": "xla", "chunk_blocks": chunk_blocks}

    def attend(*args):
        return global_local.attend(*args, structure, rules, **options)

    def run(dtype):
        # Smaller logits: the rounding of inputs, not of the op, grows with them.
        args = jax.tree.map(lambda x: (0.5 * x).astype(dtype), inputs.differentiable())
        out = jax.jit(attend)(*args)
        assert all(x.dtype == dtype for x in out)
        return jax.tree.map(lambda x: np.asarray(x, np.float32), out)

    assert_trees_close(run(jax.numpy.bfloat16), run(np.float32), 2e-2)


# --- dropout --------------------------------------------------------------------------


def dropout_setup(implementation):
    rules = Rules(radius=3, max_distance=2)
    inputs = cases.random_inputs(13, 3, NUM_LABELS)
    structure = cases.random_structure(13, 3, seed=3)

    def run(args, rng, rate=0.25):
        return global_local.attend(
            *args,
            structure,
            rules,
            implementation=implementation,
            dropout_rate=rate,
            dropout_rng=rng,
            block_size=4,
            chunk_blocks=2,
        )

    return inputs, run


@functools.cache
def without_dropout(implementation):
    """What attention gives with no key for dropout, in float32."""
    inputs, run = dropout_setup(implementation)
    args = jax.tree.map(np.float32, inputs.differentiable())
    return jax.jit(run)(args, None)


@pytest.mark.parametrize("implementation", ["xla", "dense"])
def test_dropout_is_a_function_of_its_key_with_the_right_mean(implementation):
    inputs, run = dropout_setup(implementation)
    args = jax.tree.map(np.float32, inputs.differentiable())
    keys = jax.random.split(jax.random.key(0), 500)
    many = jax.jit(jax.vmap(run, in_axes=(None, 0)))
    first, again = many(args, keys), many(args, keys)
    plain = without_dropout(implementation)
    for a, b, c in zip(first, again, plain, strict=True):
        np.testing.assert_array_equal(a, b)
        assert (np.asarray(a[0]) != np.asarray(a[1])).any()
        # Four standard errors of the mean, plus rounding where nothing varies.
        error = 4.5 * np.std(a, axis=0) / np.sqrt(len(keys)) + 1e-5
        assert (np.abs(np.mean(a, axis=0) - c) <= error).all()


@pytest.mark.full
def test_the_gradient_of_dropout_equals_finite_differences():
    with jax.enable_x64(True):
        inputs, run = dropout_setup("xla")
        args = inputs.differentiable()
        direction = jax.tree.map(
            lambda x: np.random.default_rng(x.size).normal(size=x.shape), args
        )

        # One function for values and gradients, as it takes long to compile.
        @jax.jit
        @jax.value_and_grad
        def loss(args):
            out = run(args, jax.random.key(5))
            return sum((a * w).sum() for a, w in zip(out, inputs.weight, strict=True))

        def at(step):
            moved = jax.tree.map(lambda x, d: x + step * d, args, direction)
            return float(loss(moved)[0])

        numeric = (at(1e-5) - at(-1e-5)) / 2e-5
        _, gradient = loss(args)
        products = jax.tree.map(lambda a, b: float((a * b).sum()), gradient, direction)
        exact = sum(jax.tree.leaves(products))
    assert exact == pytest.approx(numeric, rel=1e-6)


@pytest.mark.parametrize("implementation", ["xla", "dense"])
def test_no_dropout_without_a_key_or_a_rate(implementation):
    inputs, run = dropout_setup(implementation)
    args = jax.tree.map(np.float32, inputs.differentiable())
    got = jax.jit(functools.partial(run, rate=0.0))(args, jax.random.key(0))
    assert_trees_close(got, without_dropout(implementation), 0)


# --- errors ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change, message",
    [
        ({"implementation": "fast"}, "implementation 'fast' is not one of"),
        ({"block_size": 0}, "block_size is 0; expected 1 or more"),
        ({"rules": Rules(radius=3)}, "max_distance is 0, so label tables must be None"),
        ({"length": 12}, r"long_example_ids has shape \(2, 12\), expected \(2, 13\)"),
    ],
)
def test_what_does_not_fit_is_named(change, message):
    inputs = cases.random_inputs(13, 3, NUM_LABELS)
    structure = cases.random_structure(change.pop("length", 13), 3)
    rules = change.pop("rules", Rules(radius=3, max_distance=2))
    options = {"implementation": "xla"} | change
    with pytest.raises(ValueError, match=message):
        global_local.attend(*inputs.differentiable(), structure, rules, **options)


def test_a_dropout_rate_of_one_is_refused():
    inputs, run = dropout_setup("xla")
    with pytest.raises(ValueError, match=r"dropout_rate must be in \[0, 1\), got 1"):
        run(inputs.differentiable(), jax.random.key(0), rate=1.0)
