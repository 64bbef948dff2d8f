"""Questions over several documents in one sequence: losses, figures, wrong inputs."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mean_loss import loss_of

from etc_jax import sharding
from etc_jax.config.kinds import section_of
from etc_jax.models.encoder.config import BertConfig, LongformerConfig
from etc_jax.models.encoder.heads import EncoderWithoutHead
from etc_jax.models.encoder.multihop import EvidenceLogits
from etc_jax.models.reformer.config import ReformerConfig
from etc_jax.objectives.learners import finetuning

SIZES = {
    "vocab_size": 30,
    "embed_dim": 8,
    "num_layers": 1,
    "num_heads": 2,
    "mlp_dim": 12,
    "max_length": 16,
    "attention": "dense",
}
MODELS = {
    "bert": BertConfig(**SIZES),
    "longformer": LongformerConfig(**SIZES, attention_window=(4,)),
}
B, N = 3, 14


def task(name, model="longformer"):
    return finetuning.find(MODELS[model], section_of(name)(name))


def common(weights=(1, 1, 1)):
    rng = np.random.default_rng(3)
    ids = np.zeros((B, N), np.int32)
    ids[:, :12] = np.array(weights)[:, None]
    return {
        "tokens": rng.integers(1, 30, (B, N)).astype(np.int32),
        "types": np.zeros((B, N), np.int32),
        "global_index": np.array([[0, 1, 2, 4, -1, -1]] * B, np.int32),
        "example_ids": ids,
        "weights": np.array(weights, np.float32),
    }


def wikihop(weights=(1, 1, 1)):
    places = [[2, 4, -1, -1], [1, 2, 5, -1], [3, 4, 5, 6]]
    return {
        **common(weights),
        "candidates": np.array(places, np.int32),
        "labels": {"candidate": np.array([1, 0, 3], np.int32)},
    }


STARTS, ENDS = [[5, 9, -1], [-1] * 3, [6, -1, -1]], [[6, 9, -1], [-1] * 3, [7, -1, -1]]


def hotpotqa(weights=(1, 1, 1)):
    labels = {
        "relevant": [[1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0]],
        "support": [[0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]],
        "answer_type": [0, 2, 0],
        "starts": STARTS,
        "ends": ENDS,
    }
    return {
        **common(weights),
        "paragraphs": np.array([[2, 4, -1, -1], [1, 2, 5, -1], [3, 4, -1, -1]]),
        "sentences": np.array([[6, 8, -1, -1], [3, 4, 6, -1], [5, 7, 8, 9]]),
        "labels": {name: np.array(x, np.int32) for name, x in labels.items()},
    }


def params_of(chosen):
    rng = np.random.default_rng(0)
    abstract = jax.eval_shape(chosen.init, jax.random.key(0))
    return jax.tree.map(
        lambda a: jnp.asarray(0.3 * rng.normal(size=a.shape), a.dtype), abstract
    )


def rows_of(model, params, given):
    """float64 `[b, n, e]`, of the encoder alone."""
    more = {"global_index": given["global_index"]} if model == "longformer" else {}
    rows = EncoderWithoutHead(MODELS[model]).apply(
        {"params": {"encoder": params["encoder"]}},
        given["tokens"],
        given["example_ids"],
        **more,
    )
    return np.asarray(rows, np.float64)


def gradients(chosen):
    return jax.jit(jax.grad(lambda p, b: loss_of(chosen)(p, b, None, True)[0]))


# --- WikiHop --------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.full(but=["longformer"])
def test_the_loss_of_candidates_is_a_softmax_over_their_tokens(model):
    chosen, given = task("wikihop", model), wikihop(weights=(1, 1, 0))
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
    chosen = task("wikihop")
    params = params_of(chosen)
    given = wikihop()
    longer = np.pad(given["candidates"], ((0, 0), (0, 3)), constant_values=-1)
    a, b = (
        loss_of(chosen)(params, {**given, "candidates": places}, None, True)[0]
        for places in (given["candidates"], longer)
    )
    assert a == pytest.approx(float(b), rel=1e-6)


@pytest.mark.parametrize("name, make", [("wikihop", wikihop), ("hotpotqa", hotpotqa)])
def test_rows_of_weight_0_change_nothing(name, make):
    chosen = task(name)
    run, params = gradients(chosen), params_of(chosen)
    given = make(weights=(1, 1, 0))
    other = {**given, "tokens": given["tokens"].copy()}
    other["tokens"][2] = 7
    got, want = (jax.tree.leaves(run(params, x)) for x in (given, other))
    assert all(np.array_equal(x, y) for x, y in zip(got, want, strict=True))
    empty = run(params, make(weights=(0, 0, 0)))
    assert not any(np.any(np.asarray(x)) for x in jax.tree.leaves(empty))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"candidates": None}, "the batch lacks candidates"),
        (
            {"candidates": np.full((B, 4), N)},
            "candidates holds positions from 14 to 14",
        ),
        (
            {"global_index": np.full((B, 4), -2)},
            "global_index holds positions from -2 ",
        ),
        ({"tokens": np.full((B, N), 30)}, "model.vocab_size is 30; tokenizer"),
    ],
)
def test_wrong_inputs_of_wikihop_are_named(change, message):
    chosen, given = task("wikihop"), wikihop()
    assert chosen.problems(given) == []
    given = {k: x for k, x in {**given, **change}.items() if x is not None}
    [said] = chosen.problems(given)
    assert message in said


@pytest.mark.parametrize("name", ["wikihop", "hotpotqa"])
def test_models_of_another_kind_are_refused(name):
    with pytest.raises(ValueError, match="trains Encoder, not Reformer; set model.f"):
        finetuning.find(ReformerConfig(), section_of(name)(name))


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


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.full(but=["longformer"])
def test_the_loss_of_evidence_is_the_sum_of_its_parts(model):
    chosen, given = task("hotpotqa", model), hotpotqa(weights=(1, 1, 0))
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
    chosen, given = task("hotpotqa"), hotpotqa()
    g = given["sentences"].shape[1]
    sure = {name: given["labels"][name] * 40.0 - 20 for name in ("relevant", "support")}
    # Sentences that are none do not count, whatever is said of them.
    sure["support"][given["sentences"] < 0] = 20.0
    start, end = (
        np.any(np.array(places)[:, :, None] == np.arange(N), axis=1) * 20.0
        for places in (STARTS, ENDS)
    )
    types = np.eye(3)[given["labels"]["answer_type"]] * 20.0
    outputs = EvidenceLogits(sure["relevant"], sure["support"], types, start, end)
    total, metrics = chosen.losses(outputs, given)
    assert metrics["support_f1"] == (8.0, 8.0) and sure["support"].shape == (B, g)
    assert metrics["span_accuracy"] == (2, 2)
    assert metrics["answer_type_accuracy"] == (3, 3)
    # Of two places that are as likely, each has a half: together they are sure.
    assert total < 1e-3


@pytest.mark.parametrize("name", ["paragraphs", "sentences"])
def test_wrong_inputs_of_hotpotqa_are_named(name):
    chosen, given = task("hotpotqa"), hotpotqa()
    assert chosen.problems(given) == []
    [said] = chosen.problems({**given, name: np.full((B, 4), N)})
    assert f"{name} holds positions from 14 to 14, expected -1 for none" in said
    del given[name]
    [said] = chosen.problems(given)
    assert f"the batch lacks {name}" in said


def test_every_parameter_has_its_place_on_a_mesh():
    mesh = sharding.make_mesh(sharding.MeshConfig(data=1), jax.devices()[:1])
    for name in ("wikihop", "hotpotqa"):
        shapes = jax.eval_shape(task(name).init, jax.random.key(0))
        sharding.tree_shardings(shapes, mesh)
