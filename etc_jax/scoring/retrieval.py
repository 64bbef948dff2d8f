"""Retrieval: recall at k and the mean reciprocal rank of the first right passage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from etc_jax.scoring.result import Scores

RECALLS = (1, 5, 10, 100)


def score(gold: Sequence[str], ranks: Mapping[str, int | None]) -> Scores:
    """`mrr`, and `recall@k` for the k of `RECALLS`.

    Args:
      gold: ids of the queries.
      ranks: by query id, the rank from 1 of the first right one among all passages;
        None if it was not found.

    Raises:
      ValueError: if there is no query, or a rank is below 1.
    """
    if not gold:
        raise ValueError("gold: at least one query expected, got none")
    for name, rank in ranks.items():
        if rank is not None and rank < 1:
            raise ValueError(f"the rank of {name!r} is {rank}; expected 1 or more")
    ranked = [rank for name in gold if (rank := ranks.get(name)) is not None]
    metrics = {"mrr": sum(1 / rank for rank in ranked) / len(gold)}
    for k in RECALLS:
        metrics[f"recall@{k}"] = sum(rank <= k for rank in ranked) / len(gold)
    return Scores.of(metrics, list(gold), {"rank": ranks})
