"""Losses of a choice of antecedents where any right one will do (Lee et al. 2017)."""

import jax
import jax.numpy as jnp

from etc_jax.models.coreference import MASKED, SpanPairs


def marginal_loss(pairs: SpanPairs, clusters: jax.Array) -> tuple[jax.Array, jax.Array]:
    """-log of the probability of the right antecedents, summed over the kept spans.

    Right are those of the span's own cluster. Where none of them is among its
    antecedents, or it is no mention, having no antecedent is right.

    Args:
      pairs: of one document.
      clusters: int `[m]`, the cluster of each candidate, from 1; 0 for none.

    Returns:
      (sum of losses in nats, number of kept spans), float32 scalars.
    """
    right = right_choices(pairs, clusters)
    # `MASKED`, not infinity, whose gradient would be NaN.
    of_right = jnp.where(right, pairs.scores, MASKED)
    losses = jax.nn.logsumexp(pairs.scores, axis=1) - jax.nn.logsumexp(of_right, axis=1)
    is_top = pairs.top_mask.astype(jnp.float32)
    return jnp.sum(losses * is_top), jnp.sum(is_top)


def right_choices(pairs: SpanPairs, clusters: jax.Array) -> jax.Array:
    """bool `[k, 1 + c]`, which antecedents are right; see `marginal_loss`."""
    cluster = _clusters_of(pairs, clusters)
    right = (cluster[pairs.antecedents] == cluster[:, None]) & (cluster > 0)[:, None]
    right &= pairs.antecedent_mask
    none_right = ~jnp.any(right, axis=1, keepdims=True)
    return jnp.concatenate([none_right, right], axis=1)


def mention_loss(pairs: SpanPairs, clusters: jax.Array) -> jax.Array:
    """-log of the probability of being a mention or none, summed over the kept spans.

    Without it a mention score means nothing by itself, and an entity that is mentioned
    once is not found; with it one above 0 says that the span is a mention.

    Args:
      pairs: of one document.
      clusters: see `marginal_loss`.

    Returns:
      float32 `[]`, in nats.
    """
    is_mention = _clusters_of(pairs, clusters) > 0
    scores = jnp.where(is_mention, pairs.mention_scores, -pairs.mention_scores)
    return -jnp.sum(jax.nn.log_sigmoid(scores) * pairs.top_mask)


def in_common(a: SpanPairs, b: SpanPairs) -> tuple[SpanPairs, SpanPairs]:
    """Two readings of a document, of the spans and antecedents that both have kept.

    Args:
      a: of one document.
      b: the same, with as many places for spans and antecedents.

    Returns:
      Both, in the places of `a`: row i is of one span, column j of one antecedent. What
      only one of them has kept is masked in both.
    """
    # [k]: kept spans are in ascending order.
    row = jnp.searchsorted(b.top_spans, a.top_spans)
    row = jnp.minimum(row, len(b.top_spans) - 1)
    rows = jax.tree.map(lambda x: x[row], b)
    in_both = a.top_mask & rows.top_mask & (a.top_spans == rows.top_spans)
    # [k, c, 1] and [k, 1, c] -> [k, c, c]: antecedents by their candidates.
    same = (
        a.top_spans[a.antecedents][:, :, None]
        == (b.top_spans[rows.antecedents][:, None])
    )
    same &= a.antecedent_mask[:, :, None] & rows.antecedent_mask[:, None]
    both = jnp.any(same, axis=-1) & in_both[:, None]
    scores_of_b = jnp.take_along_axis(
        rows.scores[:, 1:], jnp.argmax(same, axis=-1), axis=1
    )

    def masked(pairs: SpanPairs, of_antecedents: jax.Array) -> SpanPairs:
        scores = jnp.where(both, of_antecedents, MASKED)
        return a._replace(
            top_mask=in_both,
            mention_scores=pairs.mention_scores,
            antecedent_mask=both,
            scores=jnp.concatenate([pairs.scores[:, :1], scores], axis=1),
        )

    return masked(a, a.scores[:, 1:]), masked(rows, scores_of_b)


def _clusters_of(pairs: SpanPairs, clusters: jax.Array) -> jax.Array:
    return jnp.where(pairs.top_mask, clusters[pairs.top_spans], 0)
