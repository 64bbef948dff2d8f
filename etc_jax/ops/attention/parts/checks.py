"""Checks that the attentions share."""

import jax

# Kernels, in the order in which they are tried: for NVIDIA GPUs, and for TPUs.
KERNELS = ("pallas", "mosaic")
IMPLEMENTATIONS = ("auto", "dense", *KERNELS, "xla")

# Dropout has 16 random bits a pair of tokens: from this rate on, all are dropped.
DROPOUT_RATE_LIMIT = 1 - 2**-17


def dropout_rate_problem(rate: float) -> str | None:
    """What is wrong with a rate: it is outside of [0, 1), or would round to 1."""
    # So written, NaN is a problem as well.
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


def check_implementation(name: str, *, kernels: bool = False) -> None:
    """Raises ValueError for a name that an attention does not know.

    Args:
      name: of `IMPLEMENTATIONS`.
      kernels: whether it may be one of `KERNELS`.
    """
    choices = [x for x in IMPLEMENTATIONS if kernels or x not in KERNELS]
    if name not in choices:
        raise ValueError(f"implementation {name!r} is not one of {choices}")


def check_rows(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    example_ids: jax.Array | None,
    query_ids: jax.Array | None = None,
) -> None:
    """Raises ValueError if rows do not fit together.

    Args:
      query: expected `[b, q, h, d]`.
      key: expected `[b, k, h, d]`.
      value: expected `[b, k, h, d]`.
      example_ids: expected `[b, k]`, or None.
      query_ids: expected `[b, q]`, or None; needed with `example_ids` if q is not k.
    """
    fits = query.ndim == key.ndim == 4 and key.shape == value.shape
    if not fits or (query.shape[:1], query.shape[2:]) != (key.shape[:1], key.shape[2:]):
        raise ValueError(
            f"query, key and value have shapes {query.shape}, {key.shape} and "
            f"{value.shape}; expected [batch, length, heads, head_dim], of query with "
            "a length of its own"
        )
    # Ids of keys stand for the queries too only where both are of one length.
    b, q, k = *query.shape[:2], key.shape[1]
    if query_ids is None and example_ids is not None and q != k:
        raise ValueError(
            f"example_ids are given for {k} keys, but not query_ids for {q} queries; "
            "give both"
        )
    for name, ids, length in (
        ("example_ids", example_ids, k),
        ("query_ids", query_ids, q),
    ):
        if ids is not None and ids.shape != (b, length):
            raise ValueError(f"{name} have shape {ids.shape}, expected {(b, length)}")


def check_one_length(query: jax.Array, key: jax.Array) -> None:
    """Raises ValueError unless `[b, n, h, d]` queries and keys have one n."""
    if query.shape[1] != key.shape[1]:
        raise ValueError(
            f"there are {query.shape[1]} queries and {key.shape[1]} keys; this "
            "attention is of a sequence to itself: expected one length"
        )
