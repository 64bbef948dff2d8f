"""What the summary tokens know, measured on a fixed pool of validation sentences.

The pool comes from `readers.cpc_pool`: each of its sentences is masked in one
example, and encoded alone by the same weights.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from etc_jax.sharding.batch import replicated
from etc_jax.training.preflight import compiling

# One order finds a few by luck: over a hundred, the share by chance is seen.
SHUFFLES = 100

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


def shuffled_retrieval(predictions: np.ndarray, targets: np.ndarray) -> float:
    """`retrieval` of `[c, e]` among targets in another order, mean over `SHUFFLES`."""
    rng = np.random.default_rng(0)
    nearest = np.argmax(_cosines(predictions, targets), axis=-1)
    # Where target p(i) stands at place i, prediction i is right if p(i) is its nearest.
    orders = [rng.permutation(len(targets)) for _ in range(SHUFFLES)]
    return float(np.mean([nearest == order for order in orders]))


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


def pool_metrics(
    summaries: Summaries, params: Any, pool: Sequence[Any]
) -> dict[str, Any]:
    """Metrics of a trained model on a pool.

    Args:
      summaries: (params, batch) -> (predictions, targets), `[rows * s, e]` each.
      params: of the model.
      pool: batches of `data.pretraining.readers.cpc_pool`.

    Returns:
      `cpc_pool_top1`, the share of masked sentences whose own target is the nearest;
      the same with targets in other orders (`_shuffled_top1`: near `_chance`, or the
      metric is at fault); `summary_same_document_top1` of sentences encoded alone,
      `context_same_document_top1` of masked ones in their documents, each with the
      share by chance in `same_document_chance`; these only if some document has two
      sentences in the pool.
    """
    sharding = getattr(jax.tree.leaves(params)[0], "sharding", None)
    # Every process reads all of them, wherever the parameters are.
    is_split = isinstance(sharding, jax.NamedSharding)
    whole = replicated(sharding.mesh) if is_split else None
    encode = jax.jit(summaries, out_shardings=whole)
    encode = compiling.Announced("the encoder of the final report", encode)
    pairs, documents = [], []
    for batch in pool:
        chosen = batch["cpc_weights"].reshape(-1) > 0
        pairs.append([np.asarray(x)[chosen] for x in encode(params, batch)])
        documents.append(batch["cpc_documents"].reshape(-1)[chosen])
    predictions, targets = (np.concatenate(x) for x in zip(*pairs, strict=True))
    documents = np.concatenate(documents)
    num_documents = len(np.unique(documents))
    metrics = {
        "cpc_pool_sentences": len(targets),
        "cpc_pool_documents": num_documents,
        "cpc_pool_top1": retrieval(predictions, targets),
        "cpc_pool_shuffled_top1": shuffled_retrieval(predictions, targets),
        "cpc_pool_chance": 1 / len(targets),
    }
    if num_documents == len(documents):
        return metrics
    alone, chance = same_document(targets, documents)
    return {
        **metrics,
        "summary_same_document_top1": alone,
        "context_same_document_top1": same_document(predictions, documents)[0],
        "same_document_chance": chance,
    }
