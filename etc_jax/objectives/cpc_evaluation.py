"""What the summary tokens know, measured on a fixed pool of held-back sentences.

The pool comes from `data.pretraining.cpc_pool`: each of its sentences is masked in one
example, and encoded alone by the same weights.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

Summaries = Callable[[Any, Any], tuple[jax.Array, jax.Array]]


def _cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`[c, e]`, `[d, e]` -> `[c, d]` in float64; a zero vector is like nothing."""

    def unit(x: np.ndarray) -> np.ndarray:
        x = x.astype(np.float64)
        length = np.linalg.norm(x, axis=-1, keepdims=True)
        return x / np.where(length > 0, length, 1)

    return unit(a) @ unit(b).T


def retrieval(predictions: np.ndarray, targets: np.ndarray) -> float:
    """Share of predictions whose own target is the nearest by cosine, `[c, e]` each."""
    nearest = np.argmax(_cosines(predictions, targets), axis=-1)
    return float(np.mean(nearest == np.arange(len(targets))))


def same_document(vectors: np.ndarray, documents: np.ndarray) -> tuple[float, float]:
    """How often the nearest other sentence is one of the same document.

    Args:
      vectors: `[c, e]`, a summary of each sentence.
      documents: int `[c]`.

    Returns:
      (share over the sentences whose document has others here, the share by chance).

    Raises:
      ValueError: if no document has two sentences.
    """
    alike = documents[:, None] == documents[None, :]
    np.fill_diagonal(alike, False)
    asked = alike.any(axis=1)
    if not asked.any():
        raise ValueError("no document of the pool has two sentences; use a larger pool")
    cosines = _cosines(vectors, vectors)
    np.fill_diagonal(cosines, -np.inf)
    hits = alike[np.arange(len(vectors)), np.argmax(cosines, axis=-1)]
    chance = alike[asked].sum(axis=1).mean() / (len(vectors) - 1)
    return float(hits[asked].mean()), float(chance)


def pool_figures(
    summaries: Summaries, params: Any, pool: Sequence[Any], *, seed: int = 0
) -> dict[str, Any]:
    """Figures of a trained model on a pool.

    Args:
      summaries: (params, batch) -> (predictions, targets), `[rows * s, e]` each.
      params: of the model.
      pool: batches of `data.pretraining.cpc_pool`.
      seed: of the order in which targets are shuffled.

    Returns:
      `cpc_pool_top1`, the share of masked sentences whose own target is the nearest;
      the same with targets in another order (`_shuffled_top1`: near `_chance`, or the
      measure is at fault); `summary_same_document_top1` of sentences encoded alone,
      `context_same_document_top1` of masked ones in their documents, each with the
      share by chance in `same_document_chance`.
    """
    encode = jax.jit(summaries)
    pairs, documents = [], []
    for batch in pool:
        chosen = batch["cpc_weights"].reshape(-1) > 0
        pairs.append([np.asarray(x)[chosen] for x in encode(params, batch)])
        documents.append(batch["cpc_documents"].reshape(-1)[chosen])
    predictions, targets = (np.concatenate(x) for x in zip(*pairs, strict=True))
    documents = np.concatenate(documents)
    shuffled = targets[np.random.default_rng(seed).permutation(len(targets))]
    alone, chance = same_document(targets, documents)
    return {
        "cpc_pool_sentences": len(targets),
        "cpc_pool_documents": len(np.unique(documents)),
        "cpc_pool_top1": retrieval(predictions, targets),
        "cpc_pool_shuffled_top1": retrieval(predictions, shuffled),
        "cpc_pool_chance": 1 / len(targets),
        "summary_same_document_top1": alone,
        "context_same_document_top1": same_document(predictions, documents)[0],
        "same_document_chance": chance,
    }
