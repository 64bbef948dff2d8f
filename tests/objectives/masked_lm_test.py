"""The loss at masked places: against all logits, without weights, of any model."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from mean_loss import loss_of

from etc_jax.models.reformer.body import ReformerLm
from etc_jax.models.reformer.config import ReformerConfig
from etc_jax.objectives.masked_lm import MaskedLm

MODEL = ReformerConfig(
    vocab_size=23,
    embed_dim=8,
    num_layers=1,
    pattern=("local",),
    num_heads=2,
    mlp_dim=8,
    causal=False,
    max_length=12,
    axial_shape=None,
    axial_dims=None,
    local_chunk_length=4,
    local_chunks_after=1,
    dropout_rate=0.0,
    initializer_range=0.5,
)


def make_batch(seed=0, b=2, n=12, p=5):
    rng = np.random.default_rng(seed)
    places = [np.sort(rng.permutation(n)[:p]) for _ in range(b)]
    return {
        "tokens": rng.integers(0, 23, (b, n)).astype(np.int32),
        "example_ids": np.repeat([[1], [1]], n, 1).astype(np.int32),
        "mlm_positions": np.array(places, np.int32),
        "mlm_targets": rng.integers(0, 23, (b, p)).astype(np.int32),
        "mlm_weights": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], np.float32),
        "mlm_overflow": np.array([0, 2], np.int32),
    }


TASK = MaskedLm(MODEL, ReformerLm)


@pytest.fixture(scope="module")
def params():
    return jax.jit(TASK.init)(jax.random.key(0))


@functools.partial(jax.jit, static_argnums=0)
def evaluate(task, params, batch):
    return loss_of(task)(params, batch, None, True)


@pytest.mark.parametrize("chunk", [0, 2])
def test_it_is_the_cross_entropy_of_all_logits_at_these_places(params, chunk):
    batch = make_batch()
    logits = jax.jit(ReformerLm(MODEL).apply)({"params": params}, batch["tokens"])
    logits = np.asarray(logits, np.float64)
    losses, hits = [], []
    for row in range(2):
        for place, target, weight in zip(
            *(batch[k][row] for k in ("mlm_positions", "mlm_targets", "mlm_weights")),
            strict=True,
        ):
            if weight:
                scores = logits[row, place]
                losses.append(np.log(np.exp(scores).sum()) - scores[target])
                hits.append(scores.argmax() == target)
    model = dataclasses.replace(MODEL, logits_chunk_length=chunk)
    loss, sums = evaluate(MaskedLm(model, ReformerLm), params, batch)
    np.testing.assert_allclose(loss, np.mean(losses), rtol=1e-5)
    for name, values in (("loss", losses), ("accuracy", hits)):
        np.testing.assert_allclose(sums[name], (np.sum(values), 7), rtol=1e-5)
    np.testing.assert_allclose(sums["bits"][0] * np.log(2), np.sum(losses), rtol=1e-5)
    np.testing.assert_array_equal(sums["overflow"], (2, 9))


def test_logits_are_made_of_the_masked_places_alone(params):
    """No array of the loss and its gradient is a vocabulary wide and a row long."""
    batch = make_batch()
    grad = jax.grad(lambda p: loss_of(TASK)(p, batch, None, True)[0])
    text = str(jax.make_jaxpr(grad)(params))
    assert "2,5,23]" in text and "2,12,23]" not in text


def test_both_sides_are_seen(params):
    """The loss of a place hangs on what is before it and on what is after."""
    batch = make_batch()
    batch["mlm_positions"] = np.full((2, 5), 6, np.int32)

    def loss(place):
        tokens = batch["tokens"].copy()
        tokens[:, place] = (tokens[:, place] + 1) % 23
        return evaluate(TASK, params, {**batch, "tokens": tokens})[0]

    whole = evaluate(TASK, params, batch)[0]
    assert abs(loss(4) - whole) > 1e-3 and abs(loss(8) - whole) > 1e-3


def test_examples_in_a_row_do_not_see_each_other(params):
    batch = make_batch()
    batch["example_ids"] = np.array([[1] * 6 + [2] * 5 + [0]] * 2, np.int32)
    batch["mlm_positions"] = np.array([[0, 1, 3, 4, 5]] * 2, np.int32)
    before = evaluate(TASK, params, batch)[0]
    batch["tokens"][:, 6:] = 3
    after = evaluate(TASK, params, batch)[0]
    np.testing.assert_allclose(after, before, rtol=1e-6)


def test_without_weights_there_is_no_loss_and_no_gradient(params):
    batch = make_batch()
    batch["mlm_weights"] *= 0
    loss_fn = jax.value_and_grad(lambda p: loss_of(TASK)(p, batch, None, True)[0])
    loss, grads = jax.jit(loss_fn)(params)
    assert loss == 0
    assert all((np.asarray(g) == 0).all() for g in jax.tree.leaves(grads))


class Neighbours(nn.Module):
    """Foretells a token from the sum of its neighbours' embeddings."""

    config: ReformerConfig
    deterministic: bool = True

    def setup(self):
        size = self.config.vocab_size
        self.table = nn.Embed(size, 8)
        self.out = nn.Dense(size)

    def __call__(self, tokens):
        x = jnp.pad(self.table(tokens), ((0, 0), (1, 1), (0, 0)))
        return self.out(x[:, :-2] + x[:, 2:])

    def masked_losses(self, tokens, example_ids, positions, targets):
        logits = jnp.take_along_axis(self(tokens), positions[..., None], axis=1)
        scores = jax.nn.log_softmax(logits)
        losses = -jnp.take_along_axis(scores, targets[..., None], axis=2)[..., 0]
        return losses, logits.argmax(-1) == targets


def test_a_model_needs_one_method_to_be_trained():
    task = MaskedLm(MODEL, Neighbours)
    params = task.init(jax.random.key(1))
    batch = make_batch()
    step = jax.jit(
        jax.value_and_grad(
            lambda p: loss_of(task)(p, batch, jax.random.key(2), False)[0]
        )
    )
    losses = []
    for _ in range(30):
        loss, grads = step(params)
        params = jax.tree.map(lambda p, g: p - 0.5 * g, params, grads)
        losses.append(float(loss))
    assert losses[-1] < 0.2 * losses[0]
