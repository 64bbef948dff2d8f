"""The dense oracle of global-local attention: every pair, any float type.

Quadratic in everything; exists to be obviously right. Written apart from the blocked
form: it shares only the pair functions of `structure`.
"""

import jax
import jax.numpy as jnp

from etc_jax import structure as st


def band_to_square(band: jax.Array) -> jax.Array:
    """`[..., n, 2r+1]` -> `[..., n, n]`: slot s of row i goes to column i + s - r."""
    n, width = band.shape[-2:]
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


def _joint(query, parts, table):
    """One softmax over several key sets.

    Args:
      query: `[b, q, h, d]`.
      parts: (key `[b, k, h, d]`, value, (mask, labels)) each.
      table: `LabelTable` or None.
    """
    logits, seen = [], []
    for key, _, (mask, labels) in parts:
        score = jnp.einsum("bqhd,bkhd->bhqk", query, key)
        if labels is not None and table is not None:
            t = jnp.einsum("bqhd,vhd->bhqv", query, table.embedding)
            t = t + table.bias.T[None, :, None, :]
            shape = (*t.shape[:-1], labels.shape[-1])
            index = jnp.broadcast_to(labels[:, None], shape)
            score = score + jnp.take_along_axis(t, index, axis=-1)
        mask = jnp.broadcast_to(mask[:, None], score.shape)
        logits.append(score / jnp.sqrt(jnp.asarray(query.shape[-1], query.dtype)))
        seen.append(mask)
    logits = jnp.concatenate(logits, axis=-1)
    seen = jnp.concatenate(seen, axis=-1)
    values = jnp.concatenate([value for _, value, _ in parts], axis=1)
    if not logits.shape[-1]:
        return jnp.zeros_like(query), None
    logits = jnp.where(seen, logits, -jnp.inf)
    top = jnp.max(logits, axis=-1, keepdims=True)
    weights = jnp.exp(logits - jnp.where(jnp.isfinite(top), top, 0))
    total = jnp.sum(weights, axis=-1, keepdims=True)
    probabilities = weights / jnp.where(total > 0, total, 1)
    return probabilities, values


def attend(query, key, value, tables, pairs: dict, dropout=None):
    """Global-local attention with every logit at once.

    Args:
      query: `Rows` of `[b, n, h, d]` and `[b, g, h, d]`.
      key: `Pieces` of `[b, n or g, h, d]`.
      value: likewise.
      tables: `Rows` of `LabelTable`, or None.
      pairs: of `pair_matrices`.
      dropout: function of `[b, h, q, k]` probabilities, or None.

    Returns:
      (long `[b, n, h, d]`, global `[b, g, h, d]`); rows that see nothing are zero.
    """
    outputs = []
    for rows, own, other, table in (
        (query.long, "l2l", "l2g", tables and tables.long),
        (query.global_, "g2g", "g2l", tables and tables.global_),
    ):
        parts = [(getattr(key, p), getattr(value, p), pairs[p]) for p in (own, other)]
        probabilities, values = _joint(rows, parts, table)
        if values is None:
            outputs.append(probabilities)
            continue
        if dropout is not None:
            probabilities = dropout(probabilities)
        outputs.append(jnp.einsum("bhqk,bkhd->bqhd", probabilities, values))
    return tuple(outputs)
