"""Global-local attention by kernels: two softmaxes of two pieces each."""

from __future__ import annotations

from etc_jax import structure as st
from etc_jax.base.types import MeshAxes, Pieces, Rows
from etc_jax.ops.attention.kernels.choice import (
    backend,
    interpreted,
    tpu_problem,
    window_sizes,
)
from etc_jax.ops.attention.kernels.pieces import Keys, RulePiece
from etc_jax.ops.attention.parts.checks import KERNELS
from etc_jax.ops.attention.parts.dropout import Dropout


def problems(
    query: Rows, structure, rules: st.Rules, scale: float
) -> dict[str, str | None]:
    """Why kernels cannot do it, by name; None: they can."""
    if isinstance(structure, st.ExplicitStructure):
        return dict.fromkeys(KERNELS, "the structure is given as tensors")
    sizes = window_sizes(query.long, rules.radius, query.global_.shape[1])
    return {
        "pallas": _shared_label(structure, rules),
        "mosaic": tpu_problem(sizes, scale),
    }


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
    query: Rows,
    key: Pieces,
    value: Pieces,
    tables: Rows | None,
    structure: st.Structure,
    rules: st.Rules,
    scale: float,
    dropout: Dropout,
    mesh_axes: MeshAxes,
) -> Rows:
    """As `ops.attention.global_local.attend`, by kernels of `checks.KERNELS`."""
    joint_rows = backend(kernels)

    tokens = Rows(structure.long_tokens(), structure.global_tokens())
    tables = tables or Rows(None, None)

    def keys(name: str) -> Keys:
        key_tokens = tokens.long if name.endswith("l") else tokens.global_
        return Keys(getattr(key, name), getattr(value, name), key_tokens)

    def rows(query, tokens, table, dropout, *names):
        if not query.shape[1]:
            return query
        names = [name for name in names if getattr(key, name).shape[1]]
        pieces = tuple(
            RulePiece(rules, name, _others(structure, rules, name)) for name in names
        )
        options = joint_rows.Options(
            scale, dropout.rate, pieces, interpret=interpreted(kernels)
        )
        of_keys = tuple(map(keys, names))
        return joint_rows.attend(
            options, query, tokens, of_keys, table, dropout.rng, mesh_axes
        )

    dropouts = Rows(*dropout.split())
    names = Rows(("l2l", "l2g"), ("g2g", "g2l"))
    sides = zip(query, tokens, tables, dropouts, names, strict=True)
    return Rows(*(rows(*side, *names) for *side, names in sides))
