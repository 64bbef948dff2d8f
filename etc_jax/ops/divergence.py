"""How far two distributions are apart: KL(p || q) + KL(q || p), of logits."""

import dataclasses

import jax
import jax.numpy as jnp

from etc_jax.ops import chunked_loss
from etc_jax.ops.chunked_loss import FactoredLogits


def of_softmax(p: jax.Array, q: jax.Array) -> jax.Array:
    """Of the softmaxes over the last axis, in nats.

    A class that both rule out, by a logit as low as -1e4 or -1e30, adds nothing.

    Args:
      p: `[..., c]`, logits.
      q: the same.

    Returns:
      `[...]` in float32, or in the dtype of the logits if that is wider.
    """
    log_p, log_q = (jax.nn.log_softmax(_wide(x), axis=-1) for x in (p, q))
    # Both sums in one, of which no term is negative.
    return jnp.sum((jnp.exp(log_p) - jnp.exp(log_q)) * (log_p - log_q), axis=-1)


def of_sigmoid(p: jax.Array, q: jax.Array) -> jax.Array:
    """Of choices between yes and no, each by a logit of yes: `[...]`, in nats.

    Args:
      p: `[...]`, logits.
      q: the same.
    """
    p, q = _wide(p), _wide(q)
    # The terms of yes and of no have the same first factor, but for its sign, and
    # their second ones differ by the logits, log(yes / no).
    return (jax.nn.sigmoid(p) - jax.nn.sigmoid(q)) * (p - q)


def of_vocabulary(p: FactoredLogits, q: FactoredLogits) -> jax.Array:
    """Of the predictions of each token over a vocabulary, `chunk_length` at once.

    Args:
      p: of some tokens.
      q: of the same tokens, by the same `kernel` and `bias`.

    Returns:
      `[b, n]`, as of `of_softmax`.
    """
    # [b, n, e], twice -> [b, n, 2, e]
    rows = jnp.stack([p.rows, q.rows], axis=2)
    return chunked_loss.of_rows(_Apart(), rows, *p[1:3], None, p.chunk_length)[0]


@dataclasses.dataclass(frozen=True)
class _Apart:
    """The `chunked_loss.RowLoss` of pairs of rows, `[b, l, 2, v]`; no targets."""

    def losses(self, scores, targets):
        del targets
        return (of_softmax(scores[:, :, 0], scores[:, :, 1]),), None

    def gradient(self, scores, targets, residuals, grad):
        del targets, residuals
        _, pull = jax.vjp(lambda scores: self.losses(scores, None)[0][0], scores)
        return pull(grad)[0]


def _wide(x: jax.Array) -> jax.Array:
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))
