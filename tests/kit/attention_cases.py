"""Random inputs and structures for the conformance tests of attention."""

import dataclasses

import jax
import numpy as np
import pytest

from etc_jax.base.types import LabelTable, Pieces, Rows
from etc_jax.ops.attention import global_local
from etc_jax.structure import Rules, Structure

PIECES = ("l2l", "l2g", "g2g", "g2l")


@dataclasses.dataclass(frozen=True)
class Inputs:
    """What `attend` is differentiated by, and a weight for each output."""

    query: Rows
    key: Pieces
    value: Pieces
    tables: Rows | None
    weight: Rows

    def differentiable(self):
        return self.query, self.key, self.value, self.tables


def random_inputs(n, g, num_labels, *, seed=0, batch=2, heads=2, size=3):
    """Normal float64 inputs; cast with `jax.tree.map` for other types."""
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return rng.normal(size=shape)

    def long():
        return normal(batch, n, heads, size)

    def glob():
        return normal(batch, g, heads, size)

    def table():
        return LabelTable(
            2 * normal(num_labels, heads, size), 2 * normal(num_labels, heads)
        )

    return Inputs(
        query=Rows(2 * long(), 2 * glob()),
        key=Pieces(long(), glob(), glob(), long()),
        value=Pieces(long(), glob(), glob(), long()),
        tables=Rows(table(), table()) if num_labels else None,
        weight=Rows(long(), glob()),
    )


def random_structure(n, g, *, seed=0, batch=2):
    """Two packed examples and padding in each row, random everything else."""
    rng = np.random.default_rng(seed)

    def examples(length):
        ids = np.sort(rng.integers(0, 3, size=(batch, length)), axis=-1)
        return ids[:, ::-1].astype(np.int32)

    def links(*shape):
        ids = rng.integers(-1, max(g, 1), size=(batch, *shape))
        return np.where(ids < g, ids, -1).astype(np.int16)

    return Structure(
        long_example_ids=examples(n),
        global_example_ids=examples(g),
        links=links(n, 3),
        long_segment_ids=rng.integers(0, 2, size=(batch, n)).astype(np.int32),
        exempt_l2g=rng.integers(0, 4, size=(batch, n)) == 0,
        exempt_g2l=rng.integers(0, 4, size=(batch, g)) == 0,
        order_ids=rng.integers(0, 2, size=(batch, g)).astype(np.int32),
        parent=links(g).astype(np.int32),
    )


def random_explicit(n, g, radius, num_labels, *, masks=PIECES, labels=PIECES, seed=0):
    """Random masks (rows may see nothing) and labels of the pieces named."""
    rng = np.random.default_rng(seed)
    shapes = {"l2l": (n, 2 * radius + 1), "l2g": (n, g), "g2g": (g, g), "g2l": (g, n)}
    tensors = {}
    for piece in masks:
        mask = rng.integers(0, 3, size=(2, *shapes[piece])) > 0
        mask[:, :1] = False  # the first row of each piece sees nothing
        tensors[f"{piece}_mask"] = mask
    for piece in labels if num_labels else ():
        size = (2, *shapes[piece])
        tensors[f"{piece}_labels"] = rng.integers(num_labels, size=size)
    return Structure.explicit(**tensors)


def pairwise(meshes, cases):
    """Each case with one mesh, in turn; with the others in `make test-all`."""
    return [
        pytest.param(
            mesh, *case, marks=() if i % len(meshes) == j else pytest.mark.full
        )
        for i, case in enumerate(cases)
        for j, mesh in enumerate(meshes)
    ]


def outputs_and_gradients(inputs: Inputs, structure, rules: Rules, **options):
    """(outputs, gradients of sum(outputs * weight)), compiled."""

    def loss(differentiable):
        out = global_local.attend(*differentiable, structure, rules, **options)
        total = sum((a * w).sum() for a, w in zip(out, inputs.weight, strict=True))
        return total, out

    gradients, out = jax.jit(jax.grad(loss, has_aux=True))(inputs.differentiable())
    return out, gradients
