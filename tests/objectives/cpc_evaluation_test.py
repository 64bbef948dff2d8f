import numpy as np
import pytest

from etc_jax.objectives.cpc_evaluation import (
    pool_metrics,
    retrieval,
    same_document,
    shuffled_retrieval,
)


def test_retrieval_counts_nearest_targets():
    targets = np.eye(4, dtype=np.float32)
    predictions = targets.copy()
    predictions[3] = [1, 0, 0, 0.5]
    assert retrieval(5 * predictions, targets) == 0.75
    assert retrieval(targets[[1, 2, 3, 0]], targets) == 0.0


def test_shuffled_targets_are_found_by_chance_alone():
    rng = np.random.default_rng(0)
    targets = rng.normal(size=(50, 8))
    found = shuffled_retrieval(targets, targets)
    # 5000 trials at 1 in 50: a standard deviation of 0.2 %.
    assert found == pytest.approx(0.02, abs=0.006)
    # As the plain metric says of one such order.
    order = np.random.default_rng(0).permutation(50)
    assert retrieval(targets, targets[order]) == np.mean(order == np.arange(50))


def test_the_nearest_other_sentence_is_asked_for_its_document():
    vectors = np.array([[1, 0], [1, 0.1], [0, 1], [0.1, 1], [-1, -1]], float)
    # Sentences 0 and 1 find each other; 2 and 3 too, but are of different documents;
    # sentence 4 is the only one of its document and is not asked.
    documents = np.array([5, 5, 5, 7, 8])
    share, chance = same_document(vectors, documents)
    assert share == pytest.approx(2 / 3)
    assert chance == pytest.approx(2 / 4)


def test_a_pool_without_pairs_is_refused():
    with pytest.raises(ValueError, match="no document of the pool has two sentences"):
        same_document(np.eye(3), np.arange(3))


def batch_of(rng, weights, documents):
    return {
        "vectors": rng.normal(size=(len(weights), 8)).astype(np.float32),
        "cpc_weights": np.array(weights, np.float32),
        "cpc_documents": np.array(documents, np.int32),
    }


def test_a_model_that_knows_its_sentences_is_told_from_one_that_does_not():
    rng = np.random.default_rng(0)
    pool = [
        batch_of(rng, [1] * 30 + [0] * 2, [*np.arange(30) // 3, -1, -1])
        for _ in range(4)
    ]

    def knows(scale, batch):
        return scale * batch["vectors"], batch["vectors"]

    metrics = pool_metrics(knows, np.float32(2), pool)
    assert metrics["cpc_pool_sentences"] == 120
    assert metrics["cpc_pool_documents"] == 10
    assert metrics["cpc_pool_top1"] == 1.0
    assert metrics["cpc_pool_shuffled_top1"] == pytest.approx(1 / 120, abs=0.003)
    assert metrics["cpc_pool_chance"] == 1 / 120
    # 10 documents of 12 sentences with random vectors: 11 of 119 others by chance.
    assert metrics["same_document_chance"] == pytest.approx(11 / 119)
    assert metrics["summary_same_document_top1"] < 0.3

    def guesses(shift, batch):
        return batch["vectors"][::-1] + shift, batch["vectors"]

    assert pool_metrics(guesses, np.float32(0), pool)["cpc_pool_top1"] < 0.2


def test_figures_of_pairs_are_left_out_where_every_sentence_is_of_another_document():
    pool = [batch_of(np.random.default_rng(0), [1] * 4, range(4))]
    metrics = pool_metrics(lambda p, x: (x["vectors"],) * 2, np.float32(0), pool)
    assert metrics["cpc_pool_documents"] == metrics["cpc_pool_sentences"] == 4
    assert not [name for name in metrics if "same_document" in name]
