"""Global queries: one softmax over all global and all long tokens (g2g + g2l).

Long keys come in chunks; maximum, sum and output are updated chunk by chunk, so the
`[g, n]` logits never exist at once. The backward pass recomputes them from the saved
log-sum-exp (paper, section 3.2).
"""

import functools

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from etc_jax.ops import blocking, dropout
from etc_jax.ops.attention.bias import OffsetBias, PairBias, summed_to
from etc_jax.ops.attention.parts.softmax import (
    MASKED,
    SoftmaxOptions,
    accumulation_dtype,
    dot,
    finish,
    masked_logits,
    row_deltas,
    score_gradients,
)

Array = jax.Array

# Streams of dropout.
_G2L, _G2G = 0, 1


def _label_logits(query: Array, table, dtype) -> Array | None:
    """`[b, h, g, d]` with `[V, h, d]`, `[V, h]` -> `[b, h, V, g]`."""
    if table is None:
        return None
    bias = table.bias.astype(dtype).T[None, :, :, None]
    embedding = table.embedding.astype(query.dtype)
    return dot("vhd,bhqd->bhvq", embedding, query, dtype) + bias


def _block(options, query, key, t, block_fn, witness, dtype, bias=None):
    """(masked logits, labels) of one block of keys."""
    # [b, h, k, d] x [b, h, g, d] -> [b, h, k, g]: keys are rows, queries columns.
    scores = dot("bhkd,bhqd->bhkq", key, query, dtype)
    mask, labels = blocking.materialised(block_fn, witness, witness)
    logits = masked_logits(scores, t, mask, labels, options.scale, witness, bias)
    return logits, labels


def _long_block(options, query, key, t, bias, pairs, draws, index, dtype):
    """(start, keys, (logits, factors or None, labels)) of one chunk of long keys."""
    size = options.chunk_blocks * options.block_size
    start = index * size
    # Long keys begin after the padding: [b, h, size, d].
    k = blocking.slice_axis(key, start + pairs.radius, size, 2)

    def block_fn(index):
        return pairs.g2l(index * size, size)

    if bias is not None:
        bias = bias.block(start, size, query.shape[2])
    logits, labels = _block(options, query, k, t, block_fn, index, dtype, bias)
    factors = None
    if draws is not None:
        b, h, _, g = logits.shape
        # [b, h, C, block, g], drawn for each block: chunks change nothing.
        blocks = (b, h, options.chunk_blocks, options.block_size, g)
        first_block = index * options.chunk_blocks
        factors = draws.stream(_G2L).factors(
            options.dropout_rate, first_block, blocks, 2, dtype
        )
        factors = blocking.unblock(factors, 2)
    return start, k, (logits, factors, labels)


def _global_block(options, query, g_key, t, pairs, draws, dtype):
    """(logits, factors or None, labels) of the global keys."""
    witness = jnp.zeros((), jnp.int32)
    logits, labels = _block(
        options, query, g_key, t, lambda _: pairs.g2g(), witness, dtype
    )
    factors = None
    if draws is not None:
        rng = draws.stream(_G2G).rng
        factors = dropout.factors(rng, options.dropout_rate, logits.shape, dtype)
    return logits, factors, labels


def _absorb(state, logits, factors, value, dtype):
    """Online softmax: adds one block of keys to (maximum, sum, output)."""
    top, total, acc = state
    # All [b, h, g]. Sums so far are relative to the old maximum: shrunk to the new.
    new = jnp.maximum(top, logits.max(-2))
    shrink = jnp.exp(top - new)
    weights = jnp.exp(logits - new[..., None, :])
    # Before dropout, which is of probabilities: it does not change their sum.
    total = total * shrink + weights.sum(-2)
    if factors is not None:
        weights = weights * factors
    acc = acc * shrink[..., None] + dot("bhkq,bhkd->bhqd", weights, value, dtype)
    return new, total, acc


def _chunks(options: SoftmaxOptions, key: Array, pairs) -> Array:
    size = options.chunk_blocks * options.block_size
    count = (key.shape[2] - 2 * pairs.radius) // size
    return jnp.arange(count, dtype=jnp.int32)


def _forward(options, query, g_key, g_value, key, value, table, bias, pairs, draws):
    dtype = accumulation_dtype(query.dtype)
    t = _label_logits(query, table, dtype)
    size = options.chunk_blocks * options.block_size

    logits, factors, _ = _global_block(options, query, g_key, t, pairs, draws, dtype)
    # Before any key. The maximum is finite, so that `top - new` is never inf - inf.
    state = (
        jnp.full(query.shape[:-1], MASKED, dtype),
        jnp.zeros(query.shape[:-1], dtype),
        jnp.zeros(query.shape, dtype),
    )
    state = _absorb(state, logits, factors, g_value, dtype)

    def body(state, index):
        start, _, (logits, factors, _) = _long_block(
            options, query, key, t, bias, pairs, draws, index, dtype
        )
        v = blocking.slice_axis(value, start + pairs.radius, size, 2)
        return _absorb(state, logits, factors, v, dtype), None

    (top, total, acc), _ = jax.lax.scan(body, state, _chunks(options, key, pairs))
    output, lse = finish(acc, total, top)
    return output.astype(query.dtype), lse


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def global_rows(
    options,
    query,
    g_key,
    g_value,
    key,
    value,
    table,
    bias: PairBias | OffsetBias | None,
    pairs,
    draws,
):
    """Attention of global queries over all global and all long tokens.

    Args:
      options: static choices; a chunk is `block_size * chunk_blocks` long keys.
      query: `[b, h, g, d]`.
      g_key: `[b, h, g, d]` of the global tokens.
      g_value: `[b, h, g, d]` of the global tokens.
      key: `[b, h, r + n + r, d]` of the long tokens, padded by `pairs.radius` as
        `long_rows` needs them, n a whole number of chunks.
      value: `[b, h, r + n + r, d]`, padded as `key`.
      table: `LabelTable` with `[V, h, d]`, `[V, h]`, or None.
      bias: of the long keys, padded as these, without `pairs.radius`; or None.
      pairs: masks and labels of the blocks.
      draws: of attention dropout, or None.

    Returns:
      (`[b, h, g, d]` in the dtype of `query`, rows that see nothing are zero; `[b, h,
      g]` log-sum-exp of the logits, 1e30 in these rows).
    """
    return _forward(
        options, query, g_key, g_value, key, value, table, bias, pairs, draws
    )


def _vjp_forward(options, *inputs):
    output, lse = checkpoint_name(_forward(options, *inputs), "attention")
    return (output, lse), (inputs, output, lse)


def _vjp_backward(options, saved, cotangents):
    inputs, output, lse = saved
    query, g_key, g_value, key, value, table, bias, pairs, draws = inputs
    d_output, d_lse = cotangents
    dtype = accumulation_dtype(query.dtype)
    size = options.chunk_blocks * options.block_size
    t = _label_logits(query, table, dtype)
    # A logit moves the log-sum-exp by its probability.
    delta = row_deltas(output, d_output, dtype) - d_lse[..., None, :]

    def gradients(block, k, v):
        """Gradients of one block of keys: (dq, dt or 0, dk, dv, of the scores)."""
        logits, factors, labels = block
        # [b, h, k, g], as the logits.
        dp = dot("bhkd,bhqd->bhkq", v, d_output, dtype)
        dropped, ds = score_gradients(
            logits, lse[..., None, :], factors, dp, delta, options.scale
        )
        dt = jnp.zeros((), dtype)
        if labels is not None:
            # [b, h, V, g].
            dt = labels.gradient(ds, table.bias.shape[0])
        return (
            dot("bhkq,bhkd->bhqd", ds, k, dtype),
            dt,
            dot("bhkq,bhqd->bhkd", ds, query, dtype).astype(k.dtype),
            dot("bhkq,bhqd->bhkd", dropped, d_output, dtype).astype(v.dtype),
            ds,
        )

    block = _global_block(options, query, g_key, t, pairs, draws, dtype)
    dq, dt, d_g_key, d_g_value, _ = gradients(block, g_key, g_value)

    def body(carry, index):
        start, k, block = _long_block(
            options, query, key, t, bias, pairs, draws, index, dtype
        )
        v = blocking.slice_axis(value, start + pairs.radius, size, 2)
        part_dq, part_dt, dk, dv, ds = gradients(block, k, v)
        dq, dt, d_bias = carry
        if bias is not None:
            d_bias = bias.add_gradient(d_bias, ds, start)
        return (dq + part_dq, dt + part_dt, d_bias), (dk, dv)

    d_bias = None if bias is None else bias.no_gradient(query.shape[:2], dtype)
    # dq, dt and d_bias are sums over chunks; each chunk has its own rows of dk, dv.
    (dq, dt, d_bias), (dk, dv) = jax.lax.scan(
        body, (dq, dt, d_bias), _chunks(options, key, pairs)
    )
    if bias is not None:
        # `ds` is of the scores, before the scale; a bias is added after it.
        values = summed_to(d_bias, bias.values.shape) / options.scale
        d_bias = bias._replace(values=values.astype(bias.values.dtype))
    d_table = None
    if table is not None:
        dq += dot("bhvq,vhd->bhqd", dt, table.embedding.astype(query.dtype), dtype)
        d_table = type(table)(
            dot("bhvq,bhqd->vhd", dt, query, dtype).astype(table.embedding.dtype),
            # [b, h, V, g] -> [h, V] -> [V, h].
            jnp.sum(dt, axis=(0, 3)).T.astype(table.bias.dtype),
        )

    def join(x):
        """Chunks `[chunks, b, h, k, d]` -> padded `[b, h, r + n + r, d]`."""
        x = blocking.unblock(jnp.moveaxis(x, 0, 2), 2)
        return blocking.pad_axis(x, 2, pairs.radius, pairs.radius)

    return (
        dq.astype(query.dtype),
        d_g_key,
        d_g_value,
        join(dk),
        join(dv),
        d_table,
        d_bias,
        None,
        None,
    )


global_rows.defvjp(_vjp_forward, _vjp_backward)
