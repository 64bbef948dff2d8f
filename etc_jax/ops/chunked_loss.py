"""Logits over a large vocabulary, and losses of them some tokens at a time.

The logits of all tokens never exist at once (Kitaev et al. 2020, section 3, "chunking"
of the output); the backward pass computes them again.
"""

import dataclasses
import functools
from typing import Any, NamedTuple, Protocol

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


class RowLoss(Protocol):
    """A loss of the logits of each row, computed a chunk of rows at a time.

    It is hashable: one of equal fields is the same loss.
    """

    def losses(
        self, scores: jax.Array, targets: jax.Array | None
    ) -> tuple[tuple[jax.Array, ...], Any]:
        """The loss of each row, and what its gradient needs.

        Args:
          scores: `[b, l, ..., v]`, logits of some rows, in float32 or wider.
          targets: `[b, l]`, or None if the loss has none.

        Returns:
          ((losses `[b, l]`, any further arrays `[b, l]` without a gradient), arrays
          `[b, l, ...]` that are kept for `gradient`).
        """

    def gradient(
        self,
        scores: jax.Array,
        targets: jax.Array | None,
        residuals: Any,
        grad: jax.Array,
    ) -> jax.Array:
        """The gradient of `sum(losses * grad)` with respect to `scores`, in its shape.

        Args:
          scores: see `losses`.
          targets: see there.
          residuals: what `losses` gave for it.
          grad: `[b, l]`.
        """


@dataclasses.dataclass(frozen=True)
class CrossEntropy:
    """The cross entropy of targets; a `RowLoss` with the likeliest ones besides.

    Attributes:
      label_smoothing: s of `cross_entropy`.
      z_loss: z of it.
    """

    label_smoothing: float = 0.0
    z_loss: float = 0.0

    def checked(self) -> "CrossEntropy":
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

    def losses(self, scores, targets):
        """((losses, hits), log-sum-exp); see `RowLoss`."""
        s, z = self.label_smoothing, self.z_loss
        # [b, l, v] at [b, l, 1] -> [b, l].
        wanted = jnp.take_along_axis(scores, targets[..., None], axis=-1)[..., 0]
        lse = jax.nn.logsumexp(scores, axis=-1)
        if s:
            wanted = (1 - s) * wanted + s * jnp.mean(scores, axis=-1)
        losses = lse - wanted
        hits = jnp.argmax(scores, axis=-1) == targets
        return (losses + z * lse**2 if z else losses, hits), lse

    def gradient(self, scores, targets, residuals, grad):
        """See `RowLoss`."""
        s, z, size, lse = self.label_smoothing, self.z_loss, scores.shape[-1], residuals
        wanted = jnp.arange(size)[None, None] == targets[..., None]
        if s:
            wanted = (1 - s) * wanted + s / size
        probabilities = jnp.exp(scores - lse[..., None])
        if z:  # the gradient of lse is the probabilities
            probabilities = probabilities * (1 + 2 * z * lse[..., None])
        return (probabilities - wanted) * grad[..., None]


class FactoredLogits(NamedTuple):
    """Logits over a vocabulary as the product that gives them, which is not computed.

    Attributes:
      rows: `[b, n, e]`.
      kernel: `[e, v]`.
      bias: `[v]`.
      chunk_length: most tokens of each row whose logits exist at once; 0: all.
    """

    rows: jax.Array
    kernel: jax.Array
    bias: jax.Array
    chunk_length: int = 0

    def cross_entropy(self, targets: jax.Array, **extra: float):
        """Of targets `[b, n]`; `extra` are `label_smoothing` and `z_loss`."""
        return cross_entropy(*self[:3], targets, self.chunk_length, **extra)


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
    loss = CrossEntropy(label_smoothing, z_loss).checked()
    return of_rows(loss, x, kernel, bias, targets, chunk_length)


def of_rows(
    loss: RowLoss,
    x: jax.Array,
    kernel: jax.Array,
    bias: jax.Array,
    targets: jax.Array | None,
    chunk_length: int = 0,
) -> tuple[jax.Array, ...]:
    """What a loss gives for each row, of the logits of a chunk of rows at a time.

    Args:
      loss: of the logits.
      x: `[b, n, ..., e]`.
      kernel: `[e, v]`.
      bias: `[v]`.
      targets: `[b, n]`, or None; see `RowLoss`.
      chunk_length: most of the n rows at once; 0: all.

    Returns:
      `[b, n]` each, the losses first.
    """
    n = x.shape[1]
    if not chunk_length or n <= chunk_length:
        # [b, n, ..., e] x [e, v] -> [b, n, ..., v].
        return loss.losses(_shifted(logits(x, kernel), bias), targets)[0]
    count = -(-n // chunk_length)
    # x: [count, b, l, ..., e], targets: [count, b, l]; l = ceil(n / count).
    cut, targets = jax.tree.map(lambda a: _chunks(a, count), (x, targets))
    by_chunk = _chunked(loss, cut, kernel, bias, targets)
    return tuple(_unchunked(a, n) for a in by_chunk)


def _shifted(scores: jax.Array, bias: jax.Array) -> jax.Array:
    return scores + bias.reshape((1,) * (scores.ndim - 1) + (-1,))


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


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _chunked(loss, x, kernel, bias, targets):
    """What `loss` gives, `[chunks, b, l]` each, of x `[chunks, b, l, ..., e]`."""
    return _chunked_fwd(loss, x, kernel, bias, targets)[0]


def _gathered(kernel: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """The kernel as all chunks need it, its rows on every device.

    Inside the loop it would be collected from its devices anew for each chunk.
    """
    return constrain(kernel.astype(dtype), None, "activation_vocab")


def _chunked_fwd(loss, x, kernel, bias, targets):
    matrix = _gathered(kernel, x.dtype)

    def one(chunk):
        rows, wanted = chunk
        # [b, l, ..., e] x [e, v] -> [b, l, ..., v]: logits of one chunk, not kept.
        return loss.losses(_shifted(_product(rows, matrix), bias), wanted)

    results, saved = jax.lax.map(one, (x, targets))
    return results, (x, kernel, bias, targets, saved)


def _chunked_bwd(loss, residuals, grads):
    x, kernel, bias, targets, saved = residuals
    matrix = _gathered(kernel, x.dtype)
    b, width, size = x.shape[1], x.shape[-1], kernel.shape[-1]
    # Each device adds up the gradients of its own rows, which meet once, after the
    # loop: a sum over all rows in the loop would be a reduction for each chunk.
    shards = ways("batch") if b % ways("batch") == 0 else 1

    def by_shard(a):
        # [b, l, ..., x] -> [shards, b / shards * l * ..., x].
        return a.reshape(shards, -1, a.shape[-1])

    def pinned(kernel_grad, bias_grad):
        return (
            constrain(kernel_grad, "batch", None, "activation_vocab"),
            constrain(bias_grad, "batch", "activation_vocab"),
        )

    def add(total, chunk):
        rows, wanted, saved, grad = chunk
        scores = _shifted(_product(rows, matrix), bias)
        scores_grad = loss.gradient(scores, wanted, saved, grad)
        columns = by_shard(scores_grad.astype(x.dtype))
        # [shards, rows, e] x [shards, rows, v] -> [shards, e, v].
        kernel_grad = jnp.einsum(
            "sre,srv->sev", by_shard(rows), columns, preferred_element_type=_wide(x)
        )
        total = total[0] + kernel_grad, total[1] + by_shard(scores_grad).sum(axis=1)
        return pinned(*total), _input_gradient(scores_grad, x, matrix)

    zeros = pinned(
        jnp.zeros((shards, width, size), _wide(x)), jnp.zeros((shards, size), _wide(x))
    )
    (kernel_grad, bias_grad), x_grad = jax.lax.scan(
        add, zeros, (x, targets, saved, grads[0])
    )
    return (
        x_grad,
        kernel_grad.sum(axis=0).astype(kernel.dtype),
        bias_grad.sum(axis=0).astype(bias.dtype),
        None,
    )


_chunked.defvjp(_chunked_fwd, _chunked_bwd)
