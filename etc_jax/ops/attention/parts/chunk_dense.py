"""Who meets whom in attention over chunks, as matrices of all pairs, for the oracle.

Written apart from `chunk_rows`: it gets the place of each token and counts, for each
pair, how often a query meets a key.
"""

import jax
import jax.numpy as jnp

from etc_jax.ops.attention import dense

# The logit of a token for itself: taken where there is nothing else to see.
SELF = -1e5


def meetings(
    positions: jax.Array, chunk_length: int, before: int, after: int
) -> jax.Array:
    """How often each query meets each key, over all rounds.

    Args:
      positions: int `[..., rounds, n]`: where each token stands when its round is
        sorted. Rounds follow each other in one circle of chunks.
      chunk_length: tokens of a chunk; divides n.
      before: chunks before its own that a query looks at.
      after: chunks after it.

    Returns:
      int `[..., n, n]` of (query, key).
    """
    rounds, n = positions.shape[-2:]
    chunks = rounds * n // chunk_length
    round_ = jax.lax.broadcasted_iota(jnp.int32, positions.shape, positions.ndim - 2)
    # Chunks counted through all rounds: [..., rounds, n].
    chunk = (round_ * n + positions) // chunk_length
    count = jnp.zeros((*positions.shape[:-2], n, n), jnp.int32)
    for query_round in range(rounds):
        for key_round in range(rounds):
            for step in range(-before, after + 1):
                looked_at = (chunk[..., query_round, :, None] + step) % chunks
                # [..., n, 1] with [..., 1, n] -> [..., n, n].
                count += looked_at == chunk[..., key_round, None, :]
    return count


def mask_and_bias(
    met: jax.Array, example_ids: jax.Array, dtype, *, causal: bool, mask_self: bool
) -> tuple[jax.Array, jax.Array]:
    """For `dense.attend`.

    Args:
      met: int `[b or 1, h or 1, n, n]`: a pair counts so many times.
      example_ids: int `[b, n]`; 0 is padding; examples do not see each other.
      dtype: of the bias.
      causal: no key after the query.
      mask_self: see `SELF`.
    """
    n = example_ids.shape[1]
    rows, columns = (
        jax.lax.broadcasted_iota(jnp.int32, (1, 1, n, n), k) for k in (2, 3)
    )
    query_ids, key_ids = example_ids[:, None, :, None], example_ids[:, None, None, :]
    # [b or 1, h or 1, n, n] each; the bias is the logarithm of the count.
    mask, bias = dense.counted(met, dtype)
    mask &= (query_ids == key_ids) & (key_ids > 0)
    if causal:
        mask &= columns <= rows
    if mask_self:
        bias = jnp.where(columns == rows, SELF, bias)
    return mask, bias
