"""The windows and global tokens of one sequence as masks of all pairs, for the oracle.

Written apart from the blocked forms.
"""

import jax.numpy as jnp

from etc_jax.ops.attention import dense


def seen(query_ids, key_ids, query_position, *, causal):
    """Whom a query may see at all.

    Args:
      query_ids: int `[b, q]`, examples of the queries.
      key_ids: int `[b, k]`; 0 is padding.
      query_position: int `[b, q]`, places among the keys.
      causal: no key after the query.

    Returns:
      bool `[b, q, k]`.
    """
    mask = query_ids[:, :, None] == key_ids[:, None, :]
    mask &= key_ids[:, None, :] > 0
    if causal:
        key_position = jnp.arange(key_ids.shape[1])[None, None]
        mask &= key_position <= query_position[:, :, None]
    return mask


def attend(
    query,
    key,
    value,
    *,
    radius,
    dilation,
    causal,
    example_ids,
    globals_,
    side_keys,
    offsets,
    bias,
    scale,
    dropout,
):
    """Windows and inline global tokens; arguments as of `sliding_window.attend`.

    Args:
      query: `[b, n, h, d]`.
      key: `[b, n, h, d]`.
      value: `[b, n, h, d]`.
      radius: reach of the window in steps.
      dilation: places of a step, for each head.
      causal: no key after the query.
      example_ids: int `[b, n]`.
      globals_: `sliding_window.Globals` or None.
      side_keys: `sliding_window.SideKeys` or None.
      offsets: `LabelTable` by offset, or None.
      bias: function of offsets, or None.
      scale: of the products.
      dropout: `Dropout`.

    Returns:
      `[b, n, h, d]`.
    """
    b, n = example_ids.shape
    position = jnp.arange(n)
    offset = position[None, :] - position[:, None]
    step = jnp.asarray(dilation)[:, None, None]
    # [1, n, n] with [h, 1, 1] -> [h, n, n].
    near = (jnp.abs(offset)[None] <= radius * step) & (offset[None] % step == 0)
    allowed = seen(
        example_ids,
        example_ids,
        jnp.broadcast_to(position[None], (b, n)),
        causal=causal,
    )
    is_global = jnp.zeros(example_ids.shape, bool)
    if globals_ is not None:
        is_global = jnp.any(globals_.index[:, :, None] == position[None, None], axis=1)
        is_global &= example_ids > 0
    # [b, 1, n, n] & ([1, h, n, n] | [b, 1, 1, n]) -> [b, h, n, n].
    mask = allowed[:, None] & (near[None] | is_global[:, None, None])
    pairs = None if bias is None else bias(offset)[None]
    if offsets is not None:
        # Products with every offset, of which each pair takes its own.
        t = jnp.einsum("bqhd,vhd->bhqv", query, offsets.embedding)
        t = t + offsets.bias.T[None, :, None]
        # Of each pair, [b, h, n, n]; what is clipped is outside of the window.
        label = jnp.clip(offset[None] // step + radius, 0, 2 * radius)
        label = jnp.broadcast_to(label[None], (*t.shape[:-1], n))
        logits = jnp.take_along_axis(t, label, axis=-1) * scale
        pairs = logits if pairs is None else logits + pairs
    if side_keys is not None:
        # Keys after those of the sequence: [b, h, n, n + g].
        side_mask = seen(
            example_ids, side_keys.example_ids, jnp.full((b, n), n), causal=False
        )
        side_mask = jnp.broadcast_to(
            side_mask[:, None], (b, mask.shape[1], *side_mask.shape[1:])
        )
        mask = jnp.concatenate([mask, side_mask], axis=-1)
        # [b, h or 1, g, n] -> [b, h or 1, n, g].
        side = jnp.swapaxes(side_keys.bias.of(0, n), 2, 3)
        lead = (b, max(side.shape[1], pairs.shape[1]))
        pairs = [jnp.broadcast_to(x, (*lead, *x.shape[2:])) for x in (pairs, side)]
        pairs = jnp.concatenate(pairs, axis=-1)
        key = jnp.concatenate([key, side_keys.key], axis=1)
        value = jnp.concatenate([value, side_keys.value], axis=1)
    of_windows, of_globals = dropout.split()
    out = dense.attend(
        query, key, value, mask, pairs, scale=scale, dropout=of_windows.dense()
    )
    if globals_ is None:
        return out
    index = jnp.maximum(globals_.index, 0)
    # [b, n, n] at [b, g, 1] -> [b, 1, g, n].
    rows = jnp.take_along_axis(allowed, index[..., None], axis=1)[:, None]
    if bias is not None:
        pairs = jnp.moveaxis(bias(position[None, None] - index[..., None]), 0, 1)
    global_out = dense.attend(
        *globals_[1:], rows, pairs, scale=scale, dropout=of_globals.dense()
    )
    # Each token takes the row of its own global query.
    # [b, n, g] -> [b, n].
    slot = jnp.argmax(globals_.index[:, None] == position[None, :, None], axis=-1)
    global_out = jnp.take_along_axis(global_out, slot[..., None, None], axis=1)
    return jnp.where(is_global[..., None, None], global_out, out)
