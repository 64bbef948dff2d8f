"""Global-local attention by kernels: two softmaxes of two pieces each."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from etc_jax import structure as st
from etc_jax.base.types import MeshAxes, Pieces, Rows
from etc_jax.ops import blocking, sequence
from etc_jax.ops.attention.kernels.choice import (
    SPLIT,
    backend,
    interpreted,
    tpu_problem,
    window_sizes,
)
from etc_jax.ops.attention.kernels.pieces import Keys, RulePiece
from etc_jax.ops.attention.parts.checks import KERNELS
from etc_jax.ops.attention.parts.dropout import Dropout
from etc_jax.ops.attention.parts.pairs import SequenceShard, tokens_around


def problems(
    query: Rows, structure, rules: st.Rules, scale: float, is_split: bool
) -> dict[str, str | None]:
    """Why kernels cannot do it, by name; None: they can."""
    if isinstance(structure, st.ExplicitStructure):
        return dict.fromkeys(KERNELS, "the structure is given as tensors")
    sizes = window_sizes(query.long, rules.radius, query.global_.shape[1])
    pallas = SPLIT if is_split else _shared_label(structure, rules)
    return {"pallas": pallas, "mosaic": tpu_problem(sizes, scale)}


def _shared_label(structure: st.Structure, rules: st.Rules) -> str | None:
    last = 2 * rules.max_distance
    for name in ("l2g", "g2g"):
        # The kernels write the gradient of such a label once for each row.
        if any(label <= last for label in _others(structure, rules, name)):
            return f"pairs of {name} have a label up to {last}, which a distance has"
    return None


def _others(structure: st.Structure, rules: st.Rules, name: str) -> tuple[int, ...]:
    """Labels of a piece that are none of a distance."""
    if not rules.max_distance or name == "l2l":
        return ()
    if name != "g2g":
        return rules.side_labels[: structure.links.shape[-1] + 1]
    others = ()
    if structure.order_ids is not None:
        others += (rules.other_order_label,)
    if rules.parent_labels is not None and structure.parent is not None:
        others += rules.parent_labels
    return tuple(dict.fromkeys(others))


def attend(
    kernels: str,
    mesh_axes: MeshAxes,
    query: Rows,
    key: Pieces,
    value: Pieces,
    tables: Rows | None,
    structure: st.Structure,
    rules: st.Rules,
    scale: float,
    dropout: Dropout,
    shard: SequenceShard,
) -> Rows:
    """As `ops.attention.global_local.attend`, by kernels of `checks.KERNELS`.

    `shard` says where these long tokens stand in the whole sequence.
    """
    joint_rows = backend(kernels)
    n, reach = query.long.shape[1], 0
    if shard.axis_name is not None:
        reach = min(rules.radius, shard.total(n))
    long, global_ = structure.long_tokens(), structure.global_tokens()
    # Rows of a window and its keys stand at the same places.
    rows_of_windows = jax.tree.map(
        lambda x: blocking.pad_axis(x, -1, reach, reach), long
    )
    keys_of_windows = Keys(
        *shard.around((key.l2l, value.l2l), reach, 1),
        tokens_around(structure, rows_of_windows, reach, shard),
    )
    ids = global_.example_ids
    once = global_._replace(example_ids=jnp.where(shard.once(ids > 0), ids, 0))
    first = shard.first(n)
    # The keys of each piece, and the number of the first of them.
    of_keys = {
        "l2l": (keys_of_windows, first - reach),
        "l2g": (Keys(key.l2g, value.l2g, global_), 0),
        "g2g": (Keys(key.g2g, value.g2g, once), 0),
        "g2l": (Keys(key.g2l, value.g2l, long), first),
    }
    tables = tables or Rows(None, None)
    dropouts = Rows(*dropout.split())

    def rows(query, tokens, first_row, table, dropout, *names):
        """(output, log-sum-exp or None) of a softmax over keys that are there."""
        names = [name for name in names if of_keys[name][0].key.shape[1]]
        pieces = tuple(
            RulePiece(rules, name, _others(structure, rules, name)) for name in names
        )
        options = joint_rows.Options(
            scale, dropout.rate, pieces, interpret=interpreted(kernels)
        )
        keys, first_keys = zip(*(of_keys[name] for name in names), strict=True)
        inputs = query, tokens, keys, table, dropout.rng, mesh_axes
        if shard.axis_name is None:
            return joint_rows.attend(options, *inputs), None
        return joint_rows.attend_part(options, *inputs, first=(first_row, first_keys))

    out = query
    if n:
        wide = blocking.pad_axis(query.long, 1, reach, reach)
        sides = rows_of_windows, first - reach, tables.long, dropouts.long
        wide, _ = rows(wide, *sides, "l2l", "l2g")
        out = out._replace(long=wide[:, reach : reach + n])
    if query.global_.shape[1]:
        sides = global_, 0, tables.global_, dropouts.global_
        part, lse = rows(query.global_, *sides, "g2g", "g2l")
        if lse is not None:
            # [b, g, h, d] <-> [b, h, g, d]
            part = jnp.swapaxes(part, 1, 2)
            part = sequence.join_softmax(part, lse, shard.axis_name)
            part = jnp.swapaxes(part, 1, 2)
        out = out._replace(global_=part)
    return out
