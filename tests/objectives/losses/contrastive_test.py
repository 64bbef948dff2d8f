"""The contrastive loss: cases by hand, what is no negative, and devices."""

import jax
import numpy as np
import pytest
from learning import random_params
from mean_loss import loss_of

from etc_jax.config.sections import FinetuningConfig
from etc_jax.models.bert.config import BertConfig
from etc_jax.models.longformer.config import LongformerConfig
from etc_jax.objectives.learners.retrieval import RetrievalConfig, SequenceRetrieval
from etc_jax.objectives.losses.contrastive import (
    NOWHERE,
    compare,
    contrastive_losses,
)
from etc_jax.sharding import MeshConfig, make_mesh
from etc_jax.sharding.batch import to_global
from etc_jax.tasks.retrieval.records import RetrievalOptions
from etc_jax.training.preflight.plan import on_mesh

SIZES = {"vocab_size": 40, "embed_dim": 8, "num_layers": 1, "num_heads": 2}
SIZES |= {"mlp_dim": 8, "max_length": 16, "dropout_rate": 0.0}
SIZES |= {"attention_dropout_rate": 0.0}


def unit(rng, *shape):
    rows = rng.normal(size=shape)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def example(b=5, k=2, e=4, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "query": unit(rng, b, e),
        "passage": unit(rng, b, e),
        "negatives": unit(rng, b, k, e),
        "query_keys": np.arange(1, 2 * b + 1).reshape(b, 2),
        "passage_keys": np.arange(1, 2 * b * (1 + k) + 1).reshape(b, 1 + k, 2),
        "weights": np.ones(b),
    }


def by_loop(x, temperature, forbidden=()):
    """-log softmax of the own passage, in float64."""
    b, k = x["negatives"].shape[:2]
    found = []
    for i in range(b):
        own = x["query"][i] @ x["passage"][i] / temperature
        total = 0.0
        for j in range(b):
            if (i, j) not in forbidden:
                total += np.exp(x["query"][i] @ x["passage"][j] / temperature)
            for m in range(k):
                if (i, j, m) not in forbidden:
                    score = x["query"][i] @ x["negatives"][j, m] / temperature
                    total += np.exp(score)
        found.append(np.log(total) - own)
    return np.array(found)


@jax.jit
def both_losses(x):
    """(of queries, of passages, logits of passages)."""
    found = compare(**x, temperature=0.3)
    return *map(contrastive_losses, found), found.passages


def losses(x):
    return both_losses(x)[0]


def test_the_loss_is_that_of_a_plain_loop():
    x = example()
    np.testing.assert_allclose(losses(x), by_loop(x, 0.3), rtol=2e-5)
    none = {**x, "negatives": x["negatives"][:, :0]}
    none["passage_keys"] = x["passage_keys"][:, :1]
    np.testing.assert_allclose(losses(none), by_loop(none, 0.3), rtol=2e-5)


def test_passages_look_for_their_queries():
    x = example(k=0)
    turned = {**x, "query": x["passage"], "passage": x["query"]}
    np.testing.assert_allclose(both_losses(x)[1], by_loop(turned, 0.3), rtol=2e-5)


def test_what_answers_a_query_too_is_no_negative():
    x = example()
    passages, queries = x["passage_keys"], x["query_keys"]
    passages[3, 0] = passages[1, 0]  # the same passage twice
    queries[4] = queries[0]  # the same query twice
    passages[2, 2] = passages[0, 0]  # a hard negative that answers 0, and so 4
    forbidden = {(1, 3), (3, 1), (0, 4), (4, 0), (0, 2, 1), (4, 2, 1)}
    np.testing.assert_allclose(losses(x), by_loop(x, 0.3, forbidden), rtol=2e-5)
    logits = np.asarray(both_losses(x)[2])
    assert {(int(i), int(j)) for i, j in np.argwhere(logits <= NOWHERE)} == {
        *((1, 3), (3, 1), (0, 4), (4, 0))
    }


def test_padding_and_missing_negatives_count_nowhere():
    x = example()
    x["weights"][4] = 0.0
    x["passage_keys"][1, 2] = 0
    forbidden = {(i, 4) for i in range(4)} | {(i, 1, 1) for i in range(4)}
    forbidden |= {(i, 4, m) for i in range(4) for m in range(2)}
    want = by_loop(x, 0.3, forbidden)
    np.testing.assert_allclose(losses(x)[:4], want[:4], rtol=2e-5)
    assert losses(x)[4] == 0


# --- the learner ----------------------------------------------------------------------


def learner(model=None, **objective):
    options = RetrievalOptions(query_length=6)
    config = RetrievalConfig("retrieval", **objective)
    return SequenceRetrieval(model or BertConfig(**SIZES), config, (), options)


def batch_of(b=8, n=10, seed=0):
    rng = np.random.default_rng(seed)

    def ids(*shape):
        found = rng.integers(1, 40, shape)
        lengths = rng.integers(3, shape[-1] + 1, (*shape[:-1], 1))
        return np.where(np.arange(shape[-1]) < lengths, found, -1).astype(np.int32)

    passage = ids(b, n)
    keys = np.arange(1, 2 * b + 1, dtype=np.int32).reshape(b, 1, 2)
    keys[5, 0] = keys[2, 0]
    return {
        "tokens": np.maximum(passage, 0),
        "types": np.zeros((b, n), np.int32),
        "example_ids": (passage >= 0).astype(np.int32),
        "global_index": np.zeros((b, 1), np.int32),
        "query": ids(b, 6),
        "labels": {
            "query_key": np.arange(2 * b, dtype=np.int32).reshape(b, 2),
            "passage_keys": keys,
        },
        "weights": np.ones(b, np.float32),
    }


@pytest.fixture(scope="module")
def trained():
    """(learner, parameters, batch, loss and gradients on one device)."""
    made, batch = learner(symmetric=True), batch_of()
    params = random_params(made)

    def loss(params, batch):
        return loss_of(made)(params, batch, None, True)[0]

    step = jax.jit(jax.value_and_grad(loss))
    return made, params, batch, step, step(params, batch)


@pytest.mark.full
def test_eight_devices_learn_what_one_does(trained):
    made, params, batch, step, (want, want_grads) = trained
    mesh = make_mesh(MeshConfig(data=8))
    with on_mesh(mesh):
        shared = to_global(batch, mesh, 8)
        compiled = step.lower(params, shared).compile()
        got, grads = compiled(params, shared)
    np.testing.assert_allclose(got, want, rtol=1e-6)
    for x, y in zip(*map(jax.tree.leaves, (grads, want_grads)), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)
    # The vectors of all devices meet: with those of one alone it would be another loss.
    assert "all-gather" in compiled.as_text()


def test_rows_of_padding_alone_cost_nothing(trained):
    made, params, batch, step, (loss, _) = trained
    assert loss > 0
    empty = jax.tree.map(np.zeros_like, batch)
    empty["query"] -= 1
    nothing, grads = step(params, empty)
    assert nothing == 0
    assert not any(np.any(x) for x in jax.tree.leaves(grads))


def test_the_first_token_of_a_longformer_is_global():
    model = LongformerConfig(**SIZES, attention_window=(4,), attention="dense")
    made = learner(model, pooling="global")
    assert made.problem is None
    [texts] = made.inputs(batch_of())
    assert texts["passage"]["global_index"].tolist() == [[0]] * 8
    [texts] = learner().inputs(batch_of())
    assert "global_index" not in texts["passage"]


def test_wrong_options_are_named():
    problems = list(RetrievalConfig("retrieval", temperature=0.0).problems())
    assert problems == [("temperature", "is 0.0; expected more than 0")]
    assert isinstance(RetrievalConfig("retrieval"), FinetuningConfig)


def test_a_pooling_that_the_model_has_no_tokens_for_is_refused():
    for wrong in ("global", "max"):
        wanted = f"'{wrong}', which a BertConfig does not have; expected mean or cls"
        assert wanted in learner(pooling=wrong).problem
    long = RetrievalOptions(query_length=20)
    made = SequenceRetrieval(
        BertConfig(**SIZES), RetrievalConfig("retrieval"), (), long
    )
    assert "query_length is 20, but the model reads 16" in made.problem
