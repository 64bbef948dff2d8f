"""Logits over a large vocabulary, and their cross entropy some tokens at a time.

The logits of all tokens never exist at once (Kitaev et al. 2020, section 3, "chunking"
of the output); the backward pass computes them again.
"""

import functools
from typing import NamedTuple

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


class Regularisers(NamedTuple):
    """What is added to the cross entropy; numbers, no arrays.

    Attributes:
      label_smoothing: s of `cross_entropy`.
      z_loss: z of it.
    """

    label_smoothing: float = 0.0
    z_loss: float = 0.0

    def checked(self) -> "Regularisers":
        """Itself.

        Raises:
          ValueError: if a number is out of range.
        """
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(
                f"label_smoothing is {self.label_smoothing}, expected 0 <= "
                "label_smoothing < 1: it is the share of the target that all tokens of "
                "the vocabulary get"
            )
        if not 0 <= self.z_loss < float("inf"):
            raise ValueError(
                f"z_loss is {self.z_loss}, expected 0 or more; T5 has 1e-4"
            )
        return self


def cross_entropy(
    x: jax.Array,
    kernel: jax.Array,
    bias: jax.Array,
    targets: jax.Array,
    chunk_length: int = 0,
    *,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
) -> tuple[jax.Array, jax.Array]:
    """The negative log-probability of each target, and whether it is the likeliest.

    With s = `label_smoothing`, z = `z_loss` and p the probabilities of the v tokens,
    the loss is

        (1 - s) * -log p[target] + s * mean(-log p) + z * logsumexp(logits) ** 2

    The mean is over the whole vocabulary, target included (Szegedy et al. 2016, section
    7; transformers' LabelSmoother). fairseq spreads its s over the v - 1 other tokens:
    there it is this one times (v - 1) / v. The last term is T5X's. What is 0 is not
    computed.

    Args:
      x: `[b, n, e]`.
      kernel: `[e, v]`.
      bias: `[v]`.
      targets: int `[b, n]` in 0..v - 1.
      chunk_length: most tokens of each row at once; 0: all.
      label_smoothing: 0 <= s < 1.
      z_loss: z, 0 or more.

    Returns:
      (float32 `[b, n]` in nats, bool `[b, n]`).

    Raises:
      ValueError: if `label_smoothing` or `z_loss` is out of range.
    """
    n = x.shape[1]
    extra = Regularisers(label_smoothing, z_loss).checked()
    if not chunk_length or n <= chunk_length:
        # [b, n, e] x [e, v] -> [b, n, v].
        scores = logits(x, kernel) + bias[None, None]
        losses, _ = _losses(extra, scores, targets)
        return losses, _hits(scores, targets)
    count = -(-n // chunk_length)
    # x: [count, b, l, e], targets: [count, b, l]; l = ceil(n / count).
    losses, hits = _chunked(
        extra, _chunks(x, count), kernel, bias, _chunks(targets, count)
    )
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


def _losses(
    extra: Regularisers, scores: jax.Array, targets: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """(loss, log-sum-exp) of each row."""
    s, z = extra
    # [b, l, v] at [b, l, 1] -> [b, l].
    wanted = jnp.take_along_axis(scores, targets[..., None], axis=-1)[..., 0]
    lse = jax.nn.logsumexp(scores, axis=-1)
    if s:
        wanted = (1 - s) * wanted + s * jnp.mean(scores, axis=-1)
    losses = lse - wanted
    return losses + z * lse**2 if z else losses, lse


def _scores_grad(
    extra: Regularisers, scores: jax.Array, targets: jax.Array, lse: jax.Array
) -> jax.Array:
    """The gradient of each row's loss with respect to its logits, `[b, l, v]`."""
    s, z = extra
    size = scores.shape[-1]
    is_target = jnp.arange(size)[None, None] == targets[..., None]
    probabilities = jnp.exp(scores - lse[..., None])
    if z:  # the gradient of lse is the probabilities
        probabilities = probabilities * (1 + 2 * z * lse[..., None])
    if s:
        return probabilities - ((1 - s) * is_target + s / size)
    return probabilities - is_target


def _hits(scores: jax.Array, targets: jax.Array) -> jax.Array:
    return jnp.argmax(scores, axis=-1) == targets


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _chunked(extra, x, kernel, bias, targets):
    """(losses, hits) `[chunks, b, l]` of x `[chunks, b, l, e]`."""
    (losses, hits), _ = _chunked_fwd(extra, x, kernel, bias, targets)
    return losses, hits


def _gathered(kernel: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """The kernel as all chunks need it, its rows on every device.

    Inside the loop it would be collected from its devices anew for each chunk.
    """
    return constrain(kernel.astype(dtype), None, "activation_vocab")


def _chunked_fwd(extra, x, kernel, bias, targets):
    matrix = _gathered(kernel, x.dtype)

    def one(chunk):
        rows, wanted = chunk
        # [b, l, e] x [e, v] -> [b, l, v]: logits of one chunk, not kept.
        scores = _product(rows, matrix) + bias[None, None]
        return *_losses(extra, scores, wanted), _hits(scores, wanted)

    losses, lse, hits = jax.lax.map(one, (x, targets))
    return (losses, hits), (x, kernel, bias, targets, lse)


def _chunked_bwd(extra, residuals, grads):
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
        scores_grad = _scores_grad(extra, scores, wanted, lse) * grad[..., None]
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
