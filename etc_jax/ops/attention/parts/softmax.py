"""What the blocked forms share: masked logits, rows that see nothing, gradients."""

import dataclasses

import jax
import jax.numpy as jnp

# Finite, so that a row that sees nothing has no inf - inf; far below any logit.
MASKED = -1e30


@dataclasses.dataclass(frozen=True)
class SoftmaxOptions:
    """Static choices of a blocked form; hashable.

    Attributes:
      scale: factor on products, 1 / sqrt(head_dim) if nothing else is said.
      block_size: long rows (or keys) in one block.
      chunk_blocks: blocks worked on at once; chunks run one after the other.
      dropout_rate: of attention probabilities.
    """

    scale: float
    block_size: int
    chunk_blocks: int
    dropout_rate: float = 0.0


def accumulation_dtype(dtype) -> jnp.dtype:
    """float32, or float64 for float64 inputs."""
    # Logits and softmax are of it too: in bfloat16 one near 10 is a multiple of 1/16.
    return jnp.promote_types(dtype, jnp.float32)


def dot(equation: str, a: jax.Array, b: jax.Array, dtype) -> jax.Array:
    """The einsum of two arrays, of the shapes in `equation`, with sums in `dtype`.

    The wider operand is cast to the narrower type.
    """
    narrow = a.dtype if jnp.finfo(a.dtype).bits < jnp.finfo(b.dtype).bits else b.dtype
    return jnp.einsum(
        equation, a.astype(narrow), b.astype(narrow), preferred_element_type=dtype
    )


def masked_logits(scores, t, mask, labels, scale, witness, bias=None):
    """Logits of a block: scaled scores and label logits, bias; `MASKED` where unseen.

    Args:
      scores: `[..., keys, q]` key-query products.
      t: `[..., labels, q]` label logits, or None.
      mask: broadcastable bool or None (everything is seen).
      labels: `logits`/`gradient` of the block's labels, or None.
      scale: of scores and label logits (the official order: those are scaled too).
      witness: see `blocking.materialised`.
      bias: broadcastable, added as it is, or None.
    """
    if labels is not None:
        scores = scores + labels.logits(t, witness)
    scores = scores * scale
    if bias is not None:
        scores = scores + bias
    return scores if mask is None else jnp.where(mask, scores, MASKED)


def finish(acc, total, top):
    """(output, log-sum-exp) of rows; rows that saw nothing give zeros.

    Their log-sum-exp is +1e30, so exp(logit - lse) is an exact zero in a backward pass.

    Args:
      acc: sums of weighted values, `[..., q, d]`.
      total: sum of weights of each row, `[..., q]`.
      top: maximum logit of each row.
    """
    scale, lse = normalisation(total, top)
    return acc * scale[..., None], lse


def normalisation(total, top):
    """(factor on sums of weighted values, log-sum-exp) of rows; see `finish`."""
    seen = top > MASKED / 2
    # A row that saw nothing has the maximum MASKED, and weights of exp(0) = 1.
    return jnp.where(seen, 1 / total, 0), jnp.where(seen, top + jnp.log(total), -MASKED)


def row_deltas(output, d_output, dtype):
    """Sum of output times its cotangent for each row, as one key row of a block."""
    # As a product of rows: a sum of products of two arrays whose batch is of one takes
    # forty times as long on CPU (jax 0.10).
    sums = jnp.einsum(
        "...d,...d->...",
        output.astype(dtype),
        d_output.astype(dtype),
        precision=jax.lax.Precision.HIGHEST,
    )
    return sums[..., None, :]


def score_gradients(logits, lse, factors, dp, delta, scale: float):
    """(probabilities after dropout, gradient of the unscaled scores) of a block.

    With scale 1 it is the gradient of the logits, which is that of a bias.

    Args:
      logits: `[..., keys, q]` of `masked_logits`.
      lse: log-sum-exp of each row, `[..., 1, q]`.
      factors: of `ops.dropout.factors`, or None.
      dp: gradient of the probabilities after dropout.
      delta: of `row_deltas`.
      scale: of the logits.
    """
    # The probabilities again, [..., keys, q], without a second pass for the sum.
    p = jnp.exp(logits - lse)
    dropped = p
    if factors is not None:
        dropped, dp = p * factors, dp * factors
    # Of a softmax: p * (dp - sum of p * dp over the row); delta is that sum.
    return dropped, p * (dp - delta) * scale
