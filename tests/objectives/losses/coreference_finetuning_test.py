"""Coreference as a fine-tuning task: parts, losses, figures, wrong inputs."""

import functools

import jax
import numpy as np
import pytest
from encoder_learners import MODELS, tokens_of
from mean_loss import loss_of
from random_params import random_params

from etc_jax.config.kinds import section_of
from etc_jax.objectives.learners import finetuning
from etc_jax.objectives.losses.coreference import marginal_loss, mention_loss

HEAD = {"ffnn_dim": 6, "top_ratio": 1.0, "max_antecedents": 4}
B, N, M = 2, 16, 24


def task(model="longformer", **changes):
    """A learner; changes are options of the inputs."""
    objective = section_of("coreference")("coreference", **HEAD)
    options = {"span_tokens": 3, **changes}
    return finetuning.find(MODELS[model], objective, options=options)


def batch(weights=(1, 1)):
    spans = [(i, i + j) for i in range(1, 7) for j in range(3)]
    spans += [(-1, -1)] * (M - len(spans))
    clusters = np.zeros((B, M), np.int32)
    clusters[0, [0, 6, 13]], clusters[1, [3, 9]], clusters[1, 15] = 1, 2, 1
    return {
        **tokens_of(weights, N, 14),
        "global_index": np.full((B, 1), -1, np.int32),
        "spans": np.array([spans] * B, np.int32),
        "num_words": np.array([6, 6], np.int32),
        "labels": {"clusters": clusters},
    }


def params_of(chosen):
    return random_params(chosen.init, scale=0.0)


@functools.partial(jax.jit, static_argnums=0)
def outputs_of(chosen, params, given):
    return chosen.outputs(params, given)


@pytest.mark.parametrize("model, singletons", [("bert", False), ("longformer", True)])
@pytest.mark.full(but=["longformer-True"])
def test_the_loss_is_that_of_each_document(model, singletons):
    chosen, given = task(model, singletons=singletons), batch(weights=(1, 0))
    params = params_of(chosen)
    outputs = outputs_of(chosen, params, given)
    first = jax.tree.map(lambda x: x[0], outputs)
    clusters = given["labels"]["clusters"][0]
    want, kept = marginal_loss(first, clusters)
    if singletons:
        want += mention_loss(first, clusters)
    loss, metrics = jax.jit(loss_of(chosen), static_argnums=3)(
        params, given, None, True
    )
    np.testing.assert_allclose(loss, want, rtol=1e-5)
    assert set(metrics) == {"loss", "antecedent_accuracy", "mention_recall"}
    assert metrics["antecedent_accuracy"][1] == kept
    mine = clusters[np.asarray(first.top_spans)] * np.asarray(first.top_mask)
    assert metrics["mention_recall"] == (np.count_nonzero(mine), 3)


def test_right_antecedents_are_counted_by_hand():
    chosen, given = task(), batch()
    outputs = outputs_of(chosen, params_of(chosen), given)
    outputs = jax.tree.map(np.asarray, outputs)
    clusters, hits, kept = given["labels"]["clusters"], 0, 0
    for row in range(B):
        for i in np.flatnonzero(outputs.top_mask[row]):
            own = clusters[row, outputs.top_spans[row, i]]
            antecedents = [
                clusters[row, outputs.top_spans[row, a]] if there else -1
                for a, there in zip(
                    outputs.antecedents[row, i],
                    outputs.antecedent_mask[row, i],
                    strict=True,
                )
            ]
            right = [own > 0 and a == own for a in antecedents]
            choice = int(np.argmax(outputs.scores[row, i]))
            hits += right[choice - 1] if choice else not any(right)
            kept += 1
    _, metrics = chosen.losses(outputs, given)
    assert metrics["antecedent_accuracy"] == (hits, kept) and 0 < hits < kept


def test_mention_loss_is_that_of_a_plain_loop():
    chosen, given = task(), batch()
    outputs = outputs_of(chosen, params_of(chosen), given)
    outputs = jax.tree.map(np.asarray, outputs)
    one = jax.tree.map(lambda x: x[1], outputs)
    want = 0.0
    for span, kept, score in zip(
        one.top_spans, one.top_mask, np.float64(one.mention_scores), strict=True
    ):
        p = 1 / (1 + np.exp(-score))
        is_mention = given["labels"]["clusters"][1, span] > 0
        want -= kept * np.log(p if is_mention else 1 - p)
    got = mention_loss(one, given["labels"]["clusters"][1])
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_parts_do_not_see_each_other():
    whole, parted = task("bert"), task("bert", part_length=8)
    params, given = params_of(whole), batch()
    other = {**given, "tokens": given["tokens"].copy()}
    other["tokens"][:, 8:] = 7  # no span is there
    for chosen, changes in ((whole, True), (parted, False)):
        a, b = (outputs_of(chosen, params, x).mention_scores for x in (given, other))
        assert (np.abs(np.asarray(a) - b).max() > 1e-4) == changes


def test_parameters_do_not_depend_on_parts():
    shapes = [
        jax.tree.map(lambda x: x.shape, jax.eval_shape(t.init, jax.random.key(0)))
        for t in (task(), task(part_length=8))
    ]
    assert shapes[0] == shapes[1] and set(shapes[0]) == {"encoder", "head"}


@pytest.mark.full
def test_rows_of_weight_0_change_nothing():
    chosen = task(singletons=True)
    run = jax.jit(jax.grad(lambda p, b: loss_of(chosen)(p, b, None, True)[0]))
    given = batch(weights=(1, 0))
    other = {**given, "tokens": given["tokens"].copy()}
    other["tokens"][1] = 7
    params = params_of(chosen)
    got, want = (jax.tree.leaves(run(params, x)) for x in (given, other))
    assert all(np.array_equal(x, y) for x, y in zip(got, want, strict=True))
    # A row without a window has no span and no word.
    empty = batch(weights=(0, 0))
    empty |= {"spans": np.full((B, M, 2), -1), "num_words": np.zeros(B, np.int32)}
    zero = run(params, {**empty, "labels": {"clusters": np.zeros((B, M), np.int32)}})
    assert not any(np.any(np.asarray(x)) for x in jax.tree.leaves(zero))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"spans": None}, "the batch lacks spans"),
        (
            {"spans": np.full((B, M, 2), N)},
            "spans holds positions from 16 to 16, expected -1 for none, or 0 to 15",
        ),
        (
            {
                **dict.fromkeys(("tokens", "example_ids"), np.ones((B, 12), int)),
                "types": np.zeros((B, 12), int),
            },
            "no whole parts of part_length = 8",
        ),
    ],
)
def test_wrong_inputs_are_named(change, message):
    chosen, given = task(part_length=8), batch()
    assert chosen.problems(given) == []
    given = {k: x for k, x in {**given, **change}.items() if x is not None}
    [said] = chosen.problems(given)
    assert message in said


@pytest.mark.parametrize(
    "field, value",
    [
        ("ffnn_dim", 0),
        ("max_antecedents", 0),
        ("head_dropout_rate", 1.0),
        ("top_ratio", 0.0),
    ],
)
def test_sizes_of_the_head_are_checked(field, value):
    objective = section_of("coreference")("coreference", **{field: value})
    assert [where for where, _ in objective.problems()] == [field]
