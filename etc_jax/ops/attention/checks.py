"""Checks that the attentions share."""

import jax

IMPLEMENTATIONS = ("auto", "dense", "xla")

# Dropout has 16 random bits a pair of tokens: from this rate on, all are dropped.
DROPOUT_RATE_LIMIT = 1 - 2**-17


def dropout_rate_problem(rate: float) -> str | None:
    """What is wrong with a rate: it is outside of [0, 1), or would round to 1."""
    if not 0.0 <= rate < 1.0:
        return f"must be in [0, 1), got {rate}"
    if rate >= DROPOUT_RATE_LIMIT:
        return (
            f"must be below 1 - 2**-17, got {rate}: dropout of attention has 16 random "
            "bits a pair and would keep nothing"
        )
    return None


def check_dropout_rate(rate: float) -> None:
    """Raises ValueError if there is a `dropout_rate_problem`."""
    if problem := dropout_rate_problem(rate):
        raise ValueError(f"dropout_rate {problem}")


def check_implementation(name: str) -> None:
    """Raises ValueError for a name that is not among `IMPLEMENTATIONS`."""
    if name not in IMPLEMENTATIONS:
        raise ValueError(f"implementation {name!r} is not one of {IMPLEMENTATIONS}")


def check_rows(
    query: jax.Array, key: jax.Array, value: jax.Array, example_ids: jax.Array | None
) -> None:
    """Raises ValueError if the rows of self-attention do not fit together.

    Args:
      query: expected `[b, n, h, d]`.
      key: likewise.
      value: likewise.
      example_ids: expected `[b, n]`, or None.
    """
    if query.ndim != 4 or not query.shape == key.shape == value.shape:
        raise ValueError(
            f"query, key and value have shapes {query.shape}, {key.shape} and "
            f"{value.shape}; expected one shape [batch, length, heads, head_dim]"
        )
    if example_ids is not None and example_ids.shape != query.shape[:2]:
        raise ValueError(
            f"example_ids have shape {example_ids.shape}, expected {query.shape[:2]}"
        )
