"""Checks that the attentions share."""

import jax

IMPLEMENTATIONS = ("auto", "dense", "xla")


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
