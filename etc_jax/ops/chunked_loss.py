"""Logits over a large vocabulary, and their cross entropy some tokens at a time.

The logits of all tokens never exist at once (Kitaev et al. 2020, section 3, "chunking"
of the output); the backward pass computes them again.
"""

import jax
import jax.numpy as jnp

from etc_jax.ops import blocking
from etc_jax.sharding import constrain, sequence_axis, ways


@jax.custom_vjp
def logits(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """`x @ kernel`, multiplied in the dtype of `x` and summed and kept in float32.

    In bfloat16 a logit near 10 is a multiple of 1/16, so that the likeliest tokens
    often tie and the normaliser is a sum of rounded terms. In the backward pass the
    gradient of the logits is rounded to the dtype of `x` for its two products; that
    with respect to `kernel` is summed in float32 as well.

    Args:
      x: `[..., e]`.
      kernel: `[e, v]`, in any float dtype.

    Returns:
      `[..., v]` in float32, or in the dtype of `x` if that is wider.
    """
    return _product(x, kernel)


def _wide(x: jax.Array) -> jnp.dtype:
    return jnp.promote_types(x.dtype, jnp.float32)


def _product(x, kernel):
    return jnp.matmul(x, kernel.astype(x.dtype), preferred_element_type=_wide(x))


def _input_gradient(grad, x, kernel):
    return grad.astype(x.dtype) @ kernel.astype(x.dtype).T


def _logits_fwd(x, kernel):
    return _product(x, kernel), (x, kernel)


def _logits_bwd(residuals, grad):
    x, kernel = residuals
    columns = grad.astype(x.dtype)
    if sequence_axis() is None:
        # [..., e] and [..., v] -> [rows, e] and [rows, v].
        rows, columns = (a.reshape(-1, a.shape[-1]) for a in (x, columns))
        kernel_grad = jnp.matmul(rows.T, columns, preferred_element_type=_wide(x))
    else:
        # Rows of batch and sequence, both split over devices, have no layout: they
        # would be gathered. XLA for CPUs has no such product of bfloat16 numbers.
        kernel_grad = jnp.einsum(
            "...e,...v->ev", x.astype(_wide(x)), columns.astype(_wide(x))
        )
    return _input_gradient(grad, x, kernel), kernel_grad.astype(kernel.dtype)


logits.defvjp(_logits_fwd, _logits_bwd)


def cross_entropy(
    x: jax.Array,
    kernel: jax.Array,
    bias: jax.Array,
    targets: jax.Array,
    chunk_length: int = 0,
) -> tuple[jax.Array, jax.Array]:
    """The negative log-probability of each target, and whether it is the likeliest.

    Args:
      x: `[b, n, e]`.
      kernel: `[e, v]`.
      bias: `[v]`.
      targets: int `[b, n]` in 0..v - 1.
      chunk_length: most tokens of each row at once; 0: all.

    Returns:
      (float32 `[b, n]` in nats, bool `[b, n]`).
    """
    n = x.shape[1]
    if not chunk_length or n <= chunk_length:
        # [b, n, e] x [e, v] -> [b, n, v].
        scores = logits(x, kernel) + bias[None, None]
        losses, _ = _losses(scores, targets)
        return losses, _hits(scores, targets)
    count = -(-n // chunk_length)
    # x: [count, b, l, e], targets: [count, b, l]; l = ceil(n / count).
    losses, hits = _chunked(_chunks(x, count), kernel, bias, _chunks(targets, count))
    return _unchunked(losses, n), _unchunked(hits, n)


def _chunks(a: jax.Array, count: int) -> jax.Array:
    """`[b, n, ...]` -> `[count, b, n / count, ...]`, padded with zeros.

    Token j * count + i goes to chunk i: where the tokens are split over devices, each
    has a part of every chunk.
    """
    a = blocking.pad_axis(a, 1, 0, -a.shape[1] % count)
    a = a.reshape(a.shape[0], -1, count, *a.shape[2:])
    return jnp.moveaxis(a, 2, 0)


def _unchunked(a: jax.Array, n: int) -> jax.Array:
    # [count, b, l] -> [b, l, count] -> [b, n], without the padding.
    a = jnp.moveaxis(a, 0, 2)
    return a.reshape(a.shape[0], -1)[:, :n]


def _losses(scores: jax.Array, targets: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(cross entropy, log-sum-exp) of each row."""
    # [b, l, v] at [b, l, 1] -> [b, l].
    picked = jnp.take_along_axis(scores, targets[..., None], axis=-1)[..., 0]
    lse = jax.nn.logsumexp(scores, axis=-1)
    return lse - picked, lse


def _hits(scores: jax.Array, targets: jax.Array) -> jax.Array:
    return jnp.argmax(scores, axis=-1) == targets


@jax.custom_vjp
def _chunked(x, kernel, bias, targets):
    """(losses, hits) `[chunks, b, l]` of x `[chunks, b, l, e]`."""
    (losses, hits), _ = _chunked_fwd(x, kernel, bias, targets)
    return losses, hits


def _gathered(kernel: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """The kernel as all chunks need it, its rows on every device.

    Inside the loop it would be collected from its devices anew for each chunk.
    """
    return constrain(kernel.astype(dtype), None, "activation_vocab")


def _chunked_fwd(x, kernel, bias, targets):
    matrix = _gathered(kernel, x.dtype)

    def one(chunk):
        rows, wanted = chunk
        # [b, l, e] x [e, v] -> [b, l, v]: logits of one chunk, not kept.
        scores = _product(rows, matrix) + bias[None, None]
        return *_losses(scores, wanted), _hits(scores, wanted)

    losses, lse, hits = jax.lax.map(one, (x, targets))
    return (losses, hits), (x, kernel, bias, targets, lse)


def _chunked_bwd(residuals, grads):
    x, kernel, bias, targets, lse = residuals
    matrix = _gathered(kernel, x.dtype)
    b, width, size = x.shape[1], x.shape[-1], kernel.shape[-1]
    # Each device adds up the gradients of its own rows, which meet once, after the
    # loop: a sum over all rows in the loop would be a reduction for each chunk.
    shards = ways("batch") if b % ways("batch") == 0 else 1

    def own(a):
        # [b, l, x] -> [shards, b / shards * l, x].
        return a.reshape(shards, -1, a.shape[-1])

    def pinned(kernel_grad, bias_grad):
        return (
            constrain(kernel_grad, "batch", None, "activation_vocab"),
            constrain(bias_grad, "batch", "activation_vocab"),
        )

    def add(total, chunk):
        rows, wanted, lse, grad = chunk
        scores = _product(rows, matrix) + bias[None, None]
        # The gradient of lse - picked: softmax minus one-hot, [b, l, v].
        is_target = jnp.arange(size)[None, None] == wanted[..., None]
        scores_grad = (jnp.exp(scores - lse[..., None]) - is_target) * grad[..., None]
        columns = own(scores_grad.astype(x.dtype))
        # [shards, rows, e] x [shards, rows, v] -> [shards, e, v].
        kernel_grad = jnp.einsum(
            "sre,srv->sev", own(rows), columns, preferred_element_type=_wide(x)
        )
        total = total[0] + kernel_grad, total[1] + own(scores_grad).sum(axis=1)
        return pinned(*total), _input_gradient(scores_grad, x, matrix)

    zeros = pinned(
        jnp.zeros((shards, width, size), _wide(x)), jnp.zeros((shards, size), _wide(x))
    )
    (kernel_grad, bias_grad), x_grad = jax.lax.scan(
        add, zeros, (x, targets, lse, grads[0])
    )
    return (
        x_grad,
        kernel_grad.sum(axis=0).astype(kernel.dtype),
        bias_grad.sum(axis=0).astype(bias.dtype),
        None,
    )


_chunked.defvjp(_chunked_fwd, _chunked_bwd)
