"""Who sees whom in global-local attention, as matrices of all pairs, for the oracle.

Written apart from the blocked form: it shares only the pair functions of `structure`.
"""

import jax
import jax.numpy as jnp

from etc_jax import structure as st
from etc_jax.base.types import Rows
from etc_jax.ops.attention import dense


def band_to_square(band: jax.Array) -> jax.Array:
    """`[..., n, 2r+1]` -> `[..., n, n]`: slot s of row i goes to column i + s - r."""
    n, width = band.shape[-2:]
    # Slot of column j in row i, j - i + r: [n, n].
    slot = jnp.arange(n)[None, :] - jnp.arange(n)[:, None] + width // 2
    inside = (slot >= 0) & (slot < width)
    index = jnp.broadcast_to(jnp.clip(slot, 0, width - 1), (*band.shape[:-1], n))
    square = jnp.take_along_axis(band, index, axis=-1)
    return jnp.where(inside.reshape((1,) * (band.ndim - 2) + (n, n)), square, 0)


def pair_matrices(structure, rules: st.Rules, n: int, g: int) -> dict:
    """`{"l2l": (mask, labels), ...}` of every pair; labels may be None.

    Args:
      structure: `Structure` or `ExplicitStructure` of a batch.
      rules: the rules.
      n: length of the long input.
      g: length of the global input.

    Returns:
      masks bool and labels int of shapes `[b, n, n]`, `[b, n, g]`, `[b, g, g]`,
      `[b, g, n]` (or broadcastable with a leading 1).
    """
    if isinstance(structure, st.ExplicitStructure):
        return _explicit_matrices(structure, rules, n, g)
    long, glob = structure.long_tokens(), structure.global_tokens()
    rows, columns = st.as_rows, st.as_columns
    return {
        "l2l": st.l2l(rules, rows(long), columns(long)),
        "l2g": st.l2g(rules, rows(long), columns(glob)),
        "g2g": st.g2g(rules, rows(glob), columns(glob)),
        "g2l": st.g2l(rules, rows(glob), columns(long)),
    }


def _explicit_matrices(structure, rules: st.Rules, n: int, g: int) -> dict:
    sizes = {"l": n, "g": g}
    out = {}
    for piece in ("l2l", "l2g", "g2g", "g2l"):
        mask = getattr(structure, f"{piece}_mask")
        labels = getattr(structure, f"{piece}_labels")
        if mask is None:
            width = 2 * rules.radius + 1 if piece == "l2l" else sizes[piece[2]]
            mask = jnp.ones((1, sizes[piece[0]], width), jnp.int32)
        if piece == "l2l":
            mask = band_to_square(jnp.asarray(mask, jnp.int32))
            labels = None if labels is None else band_to_square(labels)
        out[piece] = (mask > 0, labels)
    return out


def _label_bias(query, labels, table):
    """`[b, h, q, k]` label logits of queries `[b, q, h, d]`, or None without labels."""
    if labels is None or table is None:
        return None
    # [b, q, h, d] x [v, h, d] -> [b, h, q, v].
    t = jnp.einsum("bqhd,vhd->bhqv", query, table.embedding)
    t = t + table.bias.T[None, :, None, :]
    # At [b, 1, q, k] -> [b, h, q, k].
    return jnp.take_along_axis(t, labels[:, None], axis=-1)


def _side_by_side(parts, shape):
    """(mask, labels) of several key sets as one; labels are None if all are."""
    batch, rows = shape

    def joined(arrays):
        # A label may be one for all.
        whole = [jnp.broadcast_to(x, (batch, rows, keys)) for x, keys in arrays]
        return jnp.concatenate(whole, axis=-1)

    # A key set without keys needs no labels.
    labels = [(x, mask.shape[-1]) for mask, x in parts if mask.shape[-1]]
    labelled = [pair for pair in labels if pair[0] is not None]
    if labelled and len(labelled) < len(labels):
        raise ValueError("labels are given for one of two key sets; give both or none")
    masks = joined([(mask, mask.shape[-1]) for mask, _ in parts])
    return masks, joined(labelled) if labelled else None


def attend(query, key, value, tables, pairs: dict, *, scale: float, dropouts):
    """Global-local attention with every logit at once.

    Args:
      query: `Rows` of `[b, n, h, d]` and `[b, g, h, d]`.
      key: `Pieces` of `[b, n or g, h, d]`.
      value: `Pieces` of `[b, n or g, h, d]`.
      tables: `Rows` of `LabelTable`, or None.
      pairs: of `pair_matrices`.
      scale: of products and label logits.
      dropouts: `Rows` of `Dropout`.

    Returns:
      `Rows` like `query`; rows that see nothing are zero.
    """
    outputs = []
    for rows, name, other_name, table, dropout in (
        (query.long, "l2l", "l2g", tables and tables.long, dropouts.long),
        (query.global_, "g2g", "g2l", tables and tables.global_, dropouts.global_),
    ):
        # Both key sets side by side, [b, n + g or g + n, h, d]: one softmax.
        keys, values = (
            jnp.concatenate([getattr(x, name), getattr(x, other_name)], axis=1)
            for x in (key, value)
        )
        mask, labels = _side_by_side((pairs[name], pairs[other_name]), rows.shape[:2])
        bias = _label_bias(rows, labels, table)
        out = dense.attend(
            rows,
            keys,
            values,
            mask[:, None],
            None if bias is None else bias * scale,
            scale=scale,
            dropout=dropout.dense(),
        )
        outputs.append(out)
    return Rows(*outputs)
