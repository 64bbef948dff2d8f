"""What the attention forms share: masked logits, rows that see nothing, dropout."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

# Finite, so that a row that sees nothing has no inf - inf; far below any logit.
MASKED = -1e30


@dataclasses.dataclass(frozen=True)
class Options:
    """Static choices of a blocked form; hashable.

    Attributes:
      scale: factor on logits, 1 / sqrt(head_dim).
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
    return jnp.promote_types(dtype, jnp.float32)


def dot(equation: str, a: jax.Array, b: jax.Array, dtype) -> jax.Array:
    """einsum with sums in `dtype`; the wider operand is cast to the narrower type."""
    narrow = a.dtype if jnp.finfo(a.dtype).bits < jnp.finfo(b.dtype).bits else b.dtype
    return jnp.einsum(
        equation, a.astype(narrow), b.astype(narrow), preferred_element_type=dtype
    )


def masked_logits(scores, t, mask, labels, scale, witness):
    """Logits of a block: scaled scores plus label logits, `MASKED` where unseen.

    Args:
      scores: `[..., keys, q]` key-query products.
      t: `[..., labels, q]` label logits, or None.
      mask: broadcastable bool or None (everything is seen).
      labels: `logits`/`gradient` of the block's labels, or None.
      scale: factor on both terms (the official order: the bias is scaled too).
      witness: see `blocking.materialised`.
    """
    if labels is not None:
        scores = scores + labels.logits(t, witness)
    scores = scores * scale
    return scores if mask is None else jnp.where(mask, scores, MASKED)


def finish(acc, total, top):
    """(output, log-sum-exp) of rows; rows that saw nothing give zeros.

    Their log-sum-exp is +1e30, so exp(logit - lse) is an exact zero in a backward pass.

    Args:
      acc: sums of weighted values, `[..., q, d]`.
      total: sum of weights of each row, `[..., q]`.
      top: maximum logit of each row.
    """
    seen = top > MASKED / 2
    scale = jnp.where(seen, 1 / total, 0)
    output = acc * scale[..., None]
    return output, jnp.where(seen, top + jnp.log(total), -MASKED)


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

    Args:
      logits: `[..., keys, q]` of `masked_logits`.
      lse: log-sum-exp of each row, `[..., 1, q]`.
      factors: of `dropout_factors`, or None.
      dp: gradient of the probabilities after dropout.
      delta: of `row_deltas`.
      scale: of the logits.
    """
    p = jnp.exp(logits - lse)
    dropped = p
    if factors is not None:
        dropped, dp = p * factors, dp * factors
    return dropped, p * (dp - delta) * scale


class Draws(NamedTuple):
    """What dropout draws from.

    Every block of long tokens has a key of its own, by its place in the sequence, so
    that neither chunks nor devices change what is drawn.

    Attributes:
      rng: key.
      first_block: int32 scalar, number of the first block of these long tokens.
    """

    rng: jax.Array
    first_block: jax.Array

    def stream(self, number: int) -> Draws:
        """Draws of another kind of block."""
        return self._replace(rng=jax.random.fold_in(self.rng, number))

    def factors(self, options: Options, start, shape, axis: int, dtype) -> jax.Array:
        """Dropout factors of blocks from `start`, which lie along `axis` of `shape`."""
        count = shape[axis]
        rest = (*shape[:axis], *shape[axis + 1 :])
        numbers = self.first_block + start + jnp.arange(count, dtype=jnp.int32)

        def one(number):
            rng = jax.random.fold_in(self.rng, number)
            return dropout_factors(rng, options.dropout_rate, rest, dtype)

        return jax.vmap(one, out_axes=axis)(numbers)


def dropout_factors(rng, rate: float, shape, dtype) -> jax.Array:
    """0 or 1/(1 - rate) for each pair.

    Sixteen random bits a pair, two pairs a word: half the cost of a float each, and the
    rate is exact to 1/65536. The words are of one half of the keys and of the other: a
    last axis of the two would be padded from 2 to 128 places on a TPU.

    Args:
      rng: key.
      rate: below `checks.DROPOUT_RATE_LIMIT`.
      shape: `[..., keys, q]`.
      dtype: of the factors.
    """
    dropped = round(rate * 2**16)
    *lead, keys, q = shape
    words = jax.random.bits(rng, (*lead, -(-keys // 2), q), jnp.uint32)
    bits = jnp.concatenate([words & 0xFFFF, words >> 16], axis=-2)[..., :keys, :]
    keep = 2**16 / (2**16 - dropped)
    return jnp.where(bits >= dropped, jnp.asarray(keep, dtype), 0)
