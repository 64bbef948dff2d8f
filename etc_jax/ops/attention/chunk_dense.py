"""The dense oracle of attention over chunks: every pair, any float type.

Quadratic; exists to be obviously right. Written apart from `chunk_rows`: it is told who
stands where and counts, for each pair, how often a query meets a key.
"""

import jax
import jax.numpy as jnp

# The logit of a token for itself: taken where there is nothing else to see.
SELF = -1e5
MASKED = -1e30


def meetings(
    places: jax.Array, chunk_length: int, before: int, after: int
) -> jax.Array:
    """How often each query meets each key, over all rounds.

    Args:
      places: int `[..., rounds, n]`: where each token stands when its round is sorted.
        Rounds follow each other in one circle of chunks.
      chunk_length: tokens of a chunk; divides n.
      before: chunks before its own that a query looks at.
      after: chunks behind it.

    Returns:
      int `[..., n, n]` of (query, key).
    """
    rounds, n = places.shape[-2:]
    chunks = rounds * n // chunk_length
    round_ = jax.lax.broadcasted_iota(jnp.int32, places.shape, places.ndim - 2)
    chunk = (round_ * n + places) // chunk_length
    count = jnp.zeros((*places.shape[:-2], n, n), jnp.int32)
    for own in range(rounds):
        for other in range(rounds):
            for step in range(-before, after + 1):
                looked_at = (chunk[..., own, :, None] + step) % chunks
                count += looked_at == chunk[..., other, None, :]
    return count


def attend(query, key, value, met, example_ids, *, scale, causal, mask_self, dropout):
    """Attention with every logit at once.

    Args:
      query: `[b, n, h, d]`.
      key: likewise.
      value: likewise.
      met: int `[b or 1, h or 1, n, n]`: a pair counts so many times.
      example_ids: int `[b, n]`; 0 is padding; examples do not see each other.
      scale: of the products.
      causal: no key behind the query.
      mask_self: see `SELF`.
      dropout: function of `[b, h, n, n]` probabilities, or None.

    Returns:
      `[b, n, h, d]`; rows that see nothing are zero.
    """
    n = query.shape[1]
    rows, columns = (
        jax.lax.broadcasted_iota(jnp.int32, (1, 1, n, n), k) for k in (2, 3)
    )
    own, other = example_ids[:, None, :, None], example_ids[:, None, None, :]
    seen = (own == other) & (other > 0) & (met > 0)
    if causal:
        seen &= columns <= rows
    logits = jnp.einsum("bqhd,bkhd->bhqk", query, key) * scale
    if mask_self:
        logits = jnp.where(columns == rows, SELF, logits)
    logits += jnp.log(jnp.maximum(met, 1).astype(logits.dtype))
    probabilities = jax.nn.softmax(jnp.where(seen, logits, MASKED), axis=-1)
    probabilities *= jnp.any(seen, axis=-1, keepdims=True)
    if dropout is not None:
        probabilities = dropout(probabilities)
    return jnp.einsum("bhqk,bkhd->bqhd", probabilities, value)
