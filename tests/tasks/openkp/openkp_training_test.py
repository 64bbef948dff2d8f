"""Windows go into the model, its logits into the loss and into keyphrases."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from multihop_samples import tokenizer
from openkp_samples import record
from structured_batch import batch

from etc_jax.base.types import Rows
from etc_jax.data.schema import stacked
from etc_jax.formats.structured import StructuredSizes
from etc_jax.models.etc.config import EtcConfig
from etc_jax.models.openkp import EtcForKeyphrases
from etc_jax.objectives.losses import keyphrase
from etc_jax.ops.ngrams import ngram_mask, num_words
from etc_jax.ops.visual import Visual
from etc_jax.tasks import openkp

MODEL = EtcForKeyphrases(
    EtcConfig(
        vocab_size=tokenizer().vocab_size,
        embed_dim=8,
        num_heads=2,
        mlp_dim=16,
        num_layers=1,
        radius=5,
        max_distance=3,
        num_labels=10,
        attention="dense",
    )
)


@pytest.fixture(scope="module")
def windows():
    pages = [
        record(phrases=["mill", "country of"], url="a"),
        record(("Ann Lee", "a baker in Ton", "Ann Lee"), phrases=["Ann Lee"], url="b"),
    ]
    return [
        w
        for p in pages
        for w in openkp.inputs.features(p, tokenizer(), StructuredSizes(24, 5))
    ]


def inputs(windows):
    x = jax.tree.map(jnp.asarray, stacked(windows))
    return (
        Rows(x["long_tokens"], x["global_tokens"]),
        x["structure"],
        Rows(x["long_types"], x["global_types"]),
        x["long_words"],
        Visual(**x["visual"]),
    )


@pytest.fixture(scope="module")
def descent(windows):
    """(first state, function of a step of either loss): compiled once."""
    x, labels = inputs(windows), batch(windows)[3]
    rest = {"allowed": ngram_mask(num_words(x[3]), len(windows[0].tokens.long))}
    ones = jnp.ones(len(windows))

    def loss(params, best_share):
        logits = MODEL.apply({"params": params}, *x)
        first, _, _ = keyphrase.first_occurrence(
            logits, labels["start"], labels["length"], ones, **rest
        )
        best, _, _ = keyphrase.best_occurrence(
            logits, labels["occurrences"], labels["length"], ones, **rest
        )
        return best_share * best + (1 - best_share) * first, logits

    optimizer = optax.adam(0.02)

    @jax.jit
    def step(state, best_share):
        params, moments = state
        grad_fn = jax.value_and_grad(loss, has_aux=True)
        (value, logits), grads = grad_fn(params, best_share)
        updates, moments = optimizer.update(grads, moments)
        return (optax.apply_updates(params, updates), moments), value, logits

    shapes = jax.eval_shape(MODEL.init, jax.random.key(0), *x)["params"]
    rng = np.random.default_rng(0)
    params = jax.tree.map(lambda a: jnp.float32(0.3 * rng.normal(size=a.shape)), shapes)
    return (params, optimizer.init(params)), step


@pytest.mark.parametrize("best_share", [0.0, 1.0], ids=["first", "best"])
@pytest.mark.full(but=["best"])
def test_descent_finds_the_keyphrases_of_two_pages(windows, descent, best_share):
    state, step = descent
    values = []
    for _ in range(150):
        state, value, logits = step(state, best_share)
        values.append(float(value))
    assert values[-1] < 0.5 * values[0]
    got = openkp.DATA_SET.in_format().answers(np.asarray(logits), windows)
    assert {tuple(p) for p in got["a"][:2]} == {("mill",), ("country", "of")}
    assert got["b"][0] == ["ann", "lee"]
