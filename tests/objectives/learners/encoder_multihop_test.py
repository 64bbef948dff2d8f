"""Questions over several documents in one sequence: losses and figures."""

import math

import jax
import numpy as np
import pytest
from encoder_learners import MODELS, B, N, batch, global_tokens, learner
from mean_loss import loss_of
from random_params import random_params

from etc_jax import sharding
from etc_jax.models.encoder.heads import EncoderWithoutHead
from etc_jax.models.encoder.multihop import EvidenceLogits


def params_of(chosen):
    return random_params(chosen.init, scale=0.0)


def rows_of(model, params, given):
    """float64 `[b, n, e]`, of the encoder alone."""
    rows = EncoderWithoutHead(MODELS[model]).apply(
        {"params": {"encoder": params["encoder"]}},
        given["tokens"],
        given["example_ids"],
        **global_tokens(model, given),
    )
    return np.asarray(rows, np.float64)


# --- WikiHop --------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["bert", "longformer"])
@pytest.mark.full(but=["longformer"])
def test_the_loss_of_candidates_is_a_softmax_over_their_tokens(model):
    chosen, given = learner("wikihop", model), batch("wikihop", (1, 1, 0))
    params = params_of(chosen)
    rows = rows_of(model, params, given)
    head = jax.tree.map(lambda x: np.asarray(x, np.float64), params["candidate"])
    want, right = 0.0, 0
    for row, (places, label) in enumerate([([2, 4], 1), ([1, 2, 5], 0)]):
        logits = rows[row, places] @ head["kernel"][:, 0] + head["bias"][0]
        want += np.log(np.exp(logits).sum()) - logits[label]
        right += np.argmax(logits) == label
    loss, metrics = loss_of(chosen)(params, given, None, True)
    np.testing.assert_allclose(loss, want / 2, rtol=1e-5)
    assert metrics["accuracy"] == (right, 2) and set(metrics) == {"loss", "accuracy"}


def test_a_candidate_that_is_none_changes_nothing():
    chosen, given = learner("wikihop"), batch("wikihop")
    params = params_of(chosen)
    longer = np.pad(given["candidates"], ((0, 0), (0, 3)), constant_values=-1)
    a, b = (
        loss_of(chosen)(params, {**given, "candidates": places}, None, True)[0]
        for places in (given["candidates"], longer)
    )
    assert a == pytest.approx(float(b), rel=1e-6)


# --- HotpotQA -------------------------------------------------------------------------


def two_layers(params, name, rows):
    """gelu between two maps, in float64."""
    inner, outer = (
        {k: np.asarray(x, np.float64) for k, x in params[f"{name}_{part}"].items()}
        for part in ("dense", "out")
    )
    x = rows @ inner["kernel"] + inner["bias"]
    x = x * (1 + np.vectorize(math.erf)(x / np.sqrt(2))) / 2
    return x @ outer["kernel"] + outer["bias"]


def log_sum(x):
    return np.log(np.exp(x).sum())


@pytest.mark.parametrize("model", ["bert", "longformer"])
@pytest.mark.full(but=["longformer"])
def test_the_loss_of_evidence_is_the_sum_of_its_parts(model):
    chosen, given = learner("hotpotqa", model), batch("hotpotqa", (1, 1, 0))
    params = params_of(chosen)
    rows = rows_of(model, params, given)
    want = dict.fromkeys(("paragraph", "support", "answer_type", "start", "end"), 0.0)
    for b, (paragraphs, sentences, kind) in enumerate(
        [([2, 4], [6, 8], 0), ([1, 2, 5], [3, 4, 6], 2)]
    ):
        for part, name, label, places in (
            ("paragraph", "paragraph", "relevant", paragraphs),
            ("support", "sentence", "support", sentences),
        ):
            logits = two_layers(params, name, rows[b, places])[:, 0]
            p = 1 / (1 + np.exp(-logits))
            right = given["labels"][label][b, : len(places)] > 0
            want[part] -= np.log(np.where(right, p, 1 - p)).mean()
        types = two_layers(params, "type", rows[b, 0])
        want["answer_type"] += log_sum(types) - types[kind]
    span = jax.tree.map(lambda x: np.asarray(x, np.float64), params["answer_span"])
    # The second example is answered by "no".
    logits = (rows[0] @ span["kernel"] + span["bias"])[:12]
    for side, (name, places) in enumerate((("start", [5, 9]), ("end", [6, 9]))):
        x = logits[:, side]
        want[name] = log_sum(x) - log_sum(x[places])
    loss, metrics = loss_of(chosen)(params, given, None, True)
    total = sum(want.values()) - (want["start"] + want["end"]) / 2
    np.testing.assert_allclose(loss, total / 2, rtol=1e-5)
    for part, value in want.items():
        np.testing.assert_allclose(metrics[f"{part}_loss"][0], value, rtol=1e-5)
    assert metrics["start_loss"][1] == metrics["span_accuracy"][1] == 1
    assert metrics["answer_type_accuracy"][1] == 2


def test_figures_of_evidence_count_what_is_there():
    chosen, given = learner("hotpotqa"), batch("hotpotqa")
    g = given["sentences"].shape[1]
    sure = {name: given["labels"][name] * 40.0 - 20 for name in ("relevant", "support")}
    # Sentences that are none do not count, whatever is said of them.
    sure["support"][given["sentences"] < 0] = 20.0
    start, end = (
        np.any(given["labels"][side][:, :, None] == np.arange(N), axis=1) * 20.0
        for side in ("starts", "ends")
    )
    types = np.eye(3)[given["labels"]["answer_type"]] * 20.0
    outputs = EvidenceLogits(sure["relevant"], sure["support"], types, start, end)
    total, metrics = chosen.losses(outputs, given)
    assert metrics["support_f1"] == (8.0, 8.0) and sure["support"].shape == (B, g)
    assert metrics["span_accuracy"] == (2, 2)
    assert metrics["answer_type_accuracy"] == (3, 3)
    # Of two places that are as likely, each has a half: together they are sure.
    assert total < 1e-3


def test_every_parameter_has_its_place_on_a_mesh():
    mesh = sharding.make_mesh(sharding.MeshConfig(data=1), jax.devices()[:1])
    for name in ("wikihop", "hotpotqa"):
        shapes = jax.eval_shape(learner(name).init, jax.random.key(0))
        sharding.tree_shardings(shapes, mesh)
