"""What the Reformer benchmarks compile: the layers they say, and a model's loss."""

import dataclasses
import functools

import jax
import numpy as np
import pytest
import tiny_model

from benchmarks.kit import harness
from benchmarks.speed import reformer_parts
from benchmarks.speed.reformer_parts import (
    AttentionSizes,
    attention_arrays,
    attention_step,
)
from etc_jax.models.reformer.body import ReformerLm

TINY = AttentionSizes(
    length=16, batch=2, num_heads=2, head_dim=4, chunk_length=4, seed=3
)
CONFIG = dataclasses.replace(
    tiny_model.REFORMER,
    num_layers=2,
    max_length=16,
    axial_shape=None,
    axial_dims=None,
    lsh_chunk_length=4,
    num_buckets=None,
)


# Compiled once.
step_of = functools.cache(attention_step)


@pytest.fixture(scope="module")
def model_step():
    return reformer_parts.model_step(CONFIG, batch=2, length=16)


def test_lsh_attention_is_that_of_its_oracle():
    steps = step_of(TINY), step_of(TINY, implementation="dense")
    got, want = (attention_arrays(step.run()) for step in steps)
    assert got.keys() == want.keys()
    assert {"output", "grad input", "grad query_key", "grad out"} <= got.keys()
    for name in want:
        assert harness.scaled_error(got[name], want[name]) < 1e-5
        assert np.max(np.abs(got[name])) > 1e-2


def test_full_attention_is_a_softmax_over_all_earlier_tokens():
    step = step_of(dataclasses.replace(TINY, kind="full"))
    got = attention_arrays(step.run())["output"]
    params, x = jax.tree.map(lambda a: np.asarray(a, np.float64), step.args)
    w = {name: part["kernel"] for name, part in params.items()}
    for row in range(2):
        query = np.einsum("ne,ehd->nhd", x[row], w["query_key"])
        value = np.einsum("ne,ehd->nhd", x[row], w["value"])
        key = query / np.linalg.norm(query, axis=-1, keepdims=True)
        for i in range(TINY.length):
            logits = np.einsum("hd,nhd->hn", query[i], key[: i + 1])
            p = np.exp(logits)
            p /= p.sum(axis=-1, keepdims=True)
            mixed = np.einsum("hn,nhd->hd", p, value[: i + 1])
            want = np.einsum("hd,hde->e", mixed, w["out"])
            np.testing.assert_allclose(got[row, i], want, atol=1e-4)


def test_both_kinds_have_the_same_weights():
    shapes = [
        jax.tree.map(np.shape, step_of(sizes).args)
        for sizes in (TINY, dataclasses.replace(TINY, kind="full"))
    ]
    assert shapes[0] == shapes[1]


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="kind 'sparse' is not one of"):
        AttentionSizes(kind="sparse")


def test_the_loss_is_of_every_token_but_the_first(model_step):
    params, tokens = model_step.args
    logits = jax.jit(ReformerLm(CONFIG).apply)({"params": params}, tokens)
    log_p = np.asarray(jax.nn.log_softmax(logits, axis=-1))
    picked = [log_p[b, i, tokens[b, i + 1]] for b in range(2) for i in range(15)]
    loss, _ = model_step.run()
    assert float(loss) == pytest.approx(-np.mean(picked), rel=1e-5)


def test_the_memory_of_a_step_counts_parameters_and_gradients(model_step):
    found = reformer_parts.memory_of(model_step)
    params = sum(x.nbytes for x in jax.tree.leaves(model_step.args[0]))
    # Tokens, the loss and what lies between arrays.
    assert params <= found.arguments <= params + 1024
    assert params <= found.outputs <= params + 1024
    assert found.temporaries == model_step.temp_bytes > 0
