"""Shared names for arrays that travel together."""

from typing import Any, NamedTuple

Array = Any


class MeshAxes(NamedTuple):
    """Mesh axes that batch and heads are split over; static.

    Attributes:
      batch, heads: names of axes of the mesh in `jax.set_mesh`.
    """

    batch: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()


# Neither is split.
WHOLE = MeshAxes()


class Rows(NamedTuple):
    """One thing for the long rows and one for the global rows."""

    long: Array
    global_: Array


class Pieces(NamedTuple):
    """One thing for each piece of attention; x2y: queries from x, keys from y."""

    l2l: Array
    l2g: Array
    g2g: Array
    g2l: Array


class LabelTable(NamedTuple):
    """Relative-position labels of one softmax.

    Attributes:
      embedding: `[labels, heads, head_dim]`; its dot product with the query is a logit.
      bias: `[labels, heads]`; added to that logit.
    """

    embedding: Array
    bias: Array
