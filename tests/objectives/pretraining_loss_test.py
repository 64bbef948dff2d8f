"""The loss of MLM + CPC on a tiny model and a batch of random text."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from mean_loss import loss_of
from random_params import random_params
from random_sentences import token_cache
from tiny_model import token_ids
from trees import assert_close

from etc_jax.data.pretraining.examples import PretrainingSizes
from etc_jax.data.pretraining.readers import PretrainingReader
from etc_jax.data.text.packing import pack
from etc_jax.models.etc.body import EtcForPretraining
from etc_jax.models.etc.config import EtcConfig
from etc_jax.objectives.jobs.pretraining import check_batch
from etc_jax.objectives.pretraining import Pretraining
from etc_jax.objectives.sections import MlmCpcConfig
from etc_jax.training.evaluation import mean_metrics
from etc_jax.training.reporting import metrics
from etc_jax.training.step import make_eval_step

VOCAB_SIZE = 40
IDS = token_ids(VOCAB_SIZE)
SIZES = PretrainingSizes(32, 8, mlm_capacity=8, cpc_long_length=12, cpc_global_length=3)
MODEL = EtcConfig(
    vocab_size=VOCAB_SIZE,
    num_types=2,
    embed_dim=16,
    num_layers=2,
    num_heads=2,
    mlp_dim=32,
    radius=4,
    max_distance=3,
    num_labels=10,
    dropout_rate=0.3,
    attention_dropout_rate=0.3,
    attention="dense",  # compiles faster
)


def make_batch(rows=4, windows_wanted=3):
    """Rows of real windows, and one of padding at least."""
    cache = token_cache(IDS, windows_wanted)  # of seven sentences each
    plan = pack(cache, long_length=32, global_length=8, max_sentence_tokens=10)
    assert plan.num_windows == windows_wanted < rows
    reader = PretrainingReader(
        cache, plan, IDS, SIZES, batch_size=rows, seed=0, evaluation=True
    )
    return jax.tree.map(jnp.asarray, reader.batch_at(0))


BATCH = make_batch()
LOG_TEMPERATURE = -1.5
TASK = Pretraining(MODEL, MlmCpcConfig())
BOTH, CPC_ALONE = (0.8, 0.2), (0.0, 3.0)


@pytest.fixture(scope="module")
def params():
    found = random_params(TASK.init, spread=0.2)
    return found | {"cpc_log_temperature": jnp.float32(LOG_TEMPERATURE)}


@functools.partial(jax.jit, static_argnums=2)
def compiled(params, batch, weights, rng):
    """((loss, sums), gradient) without dropout."""
    task = Pretraining(MODEL, MlmCpcConfig("mlm_cpc", *weights))
    loss = jax.value_and_grad(loss_of(task), has_aux=True)
    return loss(params, batch, rng, deterministic=True)


def loss_and_gradient(params, batch, weights=BOTH, seed=0):
    """(loss, {name: mean}, gradient) without dropout."""
    rng = jax.random.key(seed)
    (loss, sums), gradient = compiled(params, batch, weights, rng)
    return float(loss), {k: float(s) / float(w) for k, (s, w) in sums.items()}, gradient


def test_the_batch_has_all_that_the_tests_need():
    assert 1 < BATCH["cpc_weights"].sum() < BATCH["cpc_weights"].size
    assert 1 < BATCH["mlm_weights"].sum() < BATCH["mlm_weights"].size
    used_rows = np.asarray(BATCH["mlm_weights"]).any(axis=1)
    assert used_rows.tolist() == [True, True, True, False]


def log_softmax(rows):
    rows = np.asarray(rows, np.float64)
    return rows - np.log(np.exp(rows).sum(axis=-1, keepdims=True))


def expected_parts(params):
    """(MLM, CPC) losses from the encoder's outputs, place by place."""
    module = EtcForPretraining(MODEL)

    @jax.jit
    def outputs(params):
        def apply(*args, method):
            return module.apply({"params": params}, *args, method=method)

        def encode(prefix):
            names = ("long_tokens", "global_tokens", "structure")
            return apply(*(BATCH[prefix + name] for name in names), method="encode")

        main = encode("")
        logits = apply(main.long, BATCH["mlm_positions"], method="mlm_logits")
        return main, encode("cpc_"), logits

    main, lone, logits = jax.tree.map(np.asarray, outputs(params))
    mlm = [
        -log_softmax(logits[place])[BATCH["mlm_targets"][place]]
        for place in zip(*np.nonzero(BATCH["mlm_weights"]), strict=True)
    ]
    places = list(zip(*np.nonzero(BATCH["cpc_weights"]), strict=True))
    predictions, targets = [], []
    for b, s in places:
        predictions.append(main.global_[b, BATCH["cpc_positions"][b, s]])
        targets.append(lone.global_[b, s])
    unit = lambda x: np.float64(x) / np.linalg.norm(np.float64(x))  # noqa: E731
    scores = [
        [unit(p) @ unit(t) / np.exp(LOG_TEMPERATURE) for t in targets]
        for p in predictions
    ]
    cpc = -np.diagonal(log_softmax(scores))
    return np.mean(mlm), np.mean(cpc)


def test_the_loss_is_the_weighted_sum_of_its_parts(params):
    mlm, cpc = expected_parts(params)
    loss, means, _ = loss_and_gradient(params, BATCH)
    assert loss == pytest.approx(0.8 * mlm + 0.2 * cpc, rel=1e-5)
    assert means["mlm_loss"] == pytest.approx(mlm, rel=1e-5)
    assert means["cpc_loss"] == pytest.approx(cpc, rel=1e-5)
    other, *_ = loss_and_gradient(params, BATCH, CPC_ALONE)
    assert other == pytest.approx(3.0 * cpc, rel=1e-5)


def test_sums_are_over_the_places_in_use(params):
    _, sums = compiled(params, BATCH, BOTH, jax.random.key(0))[0]
    for name, weights in (("mlm", "mlm_weights"), ("cpc", "cpc_weights")):
        for figure in ("loss", "accuracy"):
            used = float(BATCH[weights].sum())
            assert float(sums[f"{name}_{figure}"][1]) == used


def test_dropout_changes_the_loss_and_follows_the_key(params):
    loss_fn = jax.jit(loss_of(TASK), static_argnums=3)
    first, again, second = (
        float(loss_fn(params, BATCH, jax.random.key(seed), False)[0])
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != second
    without, *_ = loss_and_gradient(params, BATCH, seed=1)
    assert without not in (first, second)
    assert without == loss_and_gradient(params, BATCH, seed=2)[0]


def test_the_contrastive_gradient_reaches_the_encoder_from_both_sides(params):
    main, lone = jnp.arange(4, 20), jnp.arange(20, 40)

    def within(tokens, ids):
        return jnp.where(tokens >= 4, ids[tokens % len(ids)], tokens)

    batch = {
        **BATCH,
        "long_tokens": within(BATCH["long_tokens"], main),
        "cpc_long_tokens": within(BATCH["cpc_long_tokens"], lone),
    }
    *_, gradient = loss_and_gradient(params, batch, CPC_ALONE)
    table = gradient["encoder"]["embeddings"]["token_embedder"]["embedding"]
    for ids, tokens in ((main, "long_tokens"), (lone, "cpc_long_tokens")):
        used = jnp.intersect1d(ids, batch[tokens])
        assert len(used) > 3
        assert jnp.all(jnp.abs(table[used]).max(axis=-1) > 1e-7), tokens
    kernels = gradient["encoder"]["stack"]["layers"]["layer"]["mlp"]["wi"]["kernel"]
    assert jnp.all(jnp.abs(kernels).max(axis=(1, 2)) > 1e-7)
    assert not np.any(gradient["mlm_dense"]["kernel"])
    assert abs(float(gradient["cpc_log_temperature"])) > 1e-7


def garbled(batch):
    """Other content wherever weights are 0 and where padding is."""
    rng = np.random.default_rng(5)

    def replace(name, unused, high):
        fresh = rng.integers(0, high, batch[name].shape).astype(np.int32)
        return jnp.where(unused, fresh, batch[name])

    mlm, cpc = batch["mlm_weights"] == 0, batch["cpc_weights"] == 0
    made = {
        "mlm_positions": replace("mlm_positions", mlm, 32),
        "mlm_targets": replace("mlm_targets", mlm, VOCAB_SIZE),
        "cpc_positions": replace("cpc_positions", cpc, 8),
    }
    for prefix, axis in itertools.product(("", "cpc_"), ("long", "global")):
        name = f"{prefix}{axis}_tokens"
        ids = getattr(batch[f"{prefix}structure"], f"{axis}_example_ids")
        made[name] = replace(name, ids == 0, VOCAB_SIZE)
    return {**batch, **made}


def test_padding_and_unused_places_never_matter(params):
    other = garbled(BATCH)
    differing = [
        k for k in BATCH if k[-9:] != "structure" and np.any(other[k] != BATCH[k])
    ]
    assert len(differing) == 7
    loss, means, gradient = loss_and_gradient(params, BATCH)
    other_loss, other_means, other_gradient = loss_and_gradient(params, other)
    assert other_loss == pytest.approx(loss, rel=1e-6)
    assert other_means == pytest.approx(means, rel=1e-6)
    assert_close(other_gradient, gradient, rtol=1e-4, atol=1e-7)


def test_a_batch_of_padding_alone_is_0_with_finite_gradients(params):
    empty = jax.tree.map(lambda x: jnp.broadcast_to(x[-1:], x.shape), BATCH)
    (loss, sums), gradient = compiled(params, empty, BOTH, jax.random.key(0))
    assert float(loss) == 0.0
    assert all(float(weight) == 0.0 for _, weight in sums.values())
    assert not any(np.any(x) for x in jax.tree.leaves(gradient))


@pytest.mark.full
def test_a_tiny_model_learns_one_batch_by_heart(params):
    tx = optax.adam(1e-2)

    @jax.jit
    def update(params, state, gradient):
        updates, state = tx.update(gradient, state)
        return optax.apply_updates(params, updates), state

    state, history = tx.init(params), []
    for _ in range(150):
        _, means, gradient = loss_and_gradient(params, BATCH)
        params, state = update(params, state, gradient)
        history.append(means)
    assert history[0]["mlm_loss"] - history[-1]["mlm_loss"] > 2
    assert history[-1]["cpc_accuracy"] > 0.9 > history[0]["cpc_accuracy"]


def test_a_good_batch_has_no_problems():
    assert check_batch(BATCH, MODEL) == []


@pytest.mark.parametrize(
    "name", ["long_tokens", "global_tokens", "cpc_long_tokens", "mlm_targets"]
)
@pytest.mark.parametrize("bad", [VOCAB_SIZE, -1])
def test_ids_outside_the_vocabulary_are_named(name, bad):
    batch = {**BATCH, name: BATCH[name].at[1, 2].set(bad)}
    (problem,) = check_batch(batch, MODEL)
    assert problem.startswith(f"{name} holds ids from ")
    assert str(bad) in problem and f"model.vocab_size is {VOCAB_SIZE}" in problem


@pytest.mark.parametrize(
    "name, place, message",
    [
        ("mlm_positions", 32, "to 32, expected 0 to 31, as the axis long has 32"),
        ("mlm_positions", -1, "from -1 to"),
        ("cpc_positions", 8, "to 8, expected 0 to 7, as the axis global has 8"),
    ],
)
def test_places_beyond_the_input_are_named(name, place, message):
    batch = {**BATCH, name: BATCH[name].at[0, 0].set(place)}
    (problem,) = check_batch(batch, MODEL)
    assert problem.startswith(f"{name} holds positions") and message in problem


@pytest.mark.parametrize("name, reach", [("structure", 8), ("cpc_structure", 3)])
def test_links_to_tokens_that_are_not_there_are_named(name, reach):
    structure = BATCH[name]
    links = structure.links.at[0, 0, 0].set(reach)
    batch = {**BATCH, name: dataclasses.replace(structure, links=links)}
    (problem,) = check_batch(batch, MODEL)
    assert problem.startswith(f"{name}: ")
    assert f"links points at global token {reach}" in problem


def test_every_problem_is_told_at_once():
    batch = {
        **BATCH,
        "long_tokens": BATCH["long_tokens"] + VOCAB_SIZE,
        "mlm_positions": BATCH["mlm_positions"] + 32,
    }
    assert len(check_batch(batch, MODEL)) == 2


def test_without_cpc_entries_the_loss_is_mlm_alone(params):
    words = {k: v for k, v in BATCH.items() if not k.startswith("cpc_")}
    task = Pretraining(MODEL, MlmCpcConfig(mlm_weight=1.0, cpc_weight=0.0))
    loss, sums = jax.jit(loss_of(task), static_argnums=3)(params, words, None, True)
    _, both = compiled(params, BATCH, BOTH, jax.random.key(0))[0]
    assert sorted(sums) == ["mlm_accuracy", "mlm_loss", "mlm_overflow"]
    np.testing.assert_allclose(sums["mlm_loss"], both["mlm_loss"], rtol=1e-5)
    np.testing.assert_allclose(loss, sums["mlm_loss"][0] / sums["mlm_loss"][1])
    assert check_batch(words, MODEL) == []


def test_overflow_is_a_share_of_what_was_chosen(params):
    batch = {**BATCH, "cpc_overflow": BATCH["cpc_overflow"].at[1].set(3)}
    _, sums = compiled(params, batch, BOTH, jax.random.key(0))[0]
    used = float(BATCH["cpc_weights"].sum())
    assert [float(x) for x in sums["cpc_overflow"]] == [3.0, used + 3.0]


def test_negatives_of_the_same_document_can_be_left_out(params):
    assert len(np.unique(BATCH["cpc_documents"])) > 2  # unused places among them
    alone = {**BATCH, "cpc_documents": jnp.zeros_like(BATCH["cpc_documents"])}
    task = Pretraining(MODEL, MlmCpcConfig(exclude_same_document=True))
    loss_fn = jax.jit(loss_of(task), static_argnums=3)
    _, sums = loss_fn(params, alone, None, True)
    assert float(sums["cpc_loss"][0]) == 0.0  # every candidate but one's own is out
    _, sums = loss_fn(params, BATCH, None, True)
    assert float(sums["cpc_loss"][0]) > 0.0


@pytest.mark.parametrize("weights", [(0.8, 0.0), BOTH])
def test_the_evaluation_loss_weighs_by_targets_not_by_batches(params, weights):
    task = Pretraining(MODEL, MlmCpcConfig("mlm_cpc", *weights))
    batch = BATCH
    if not weights[1]:
        batch = {k: v for k, v in BATCH.items() if not k.startswith("cpc_")}
    evaluate = jax.jit(make_eval_step(task.loss))

    def whole(size):
        total = {}
        for at in range(0, 4, size):
            # As many rows in all, so that one program does: the last one is padding.
            index = [*range(at, at + size), *[3] * (4 - size)]
            rows = jax.tree.map(lambda x, index=index: x[np.array(index)], batch)
            total = metrics.add_sums(total, evaluate(params, rows))
        return mean_metrics(total, task.loss_weights)

    at_once, halves = whole(4), whole(2)
    # The rows have unlike numbers of masked words, and the last one has none.
    assert halves["mlm_loss"] == pytest.approx(at_once["mlm_loss"], rel=1e-5)
    if not weights[1]:
        assert halves["loss"] == pytest.approx(at_once["loss"], rel=1e-5)
        assert at_once["loss"] == pytest.approx(0.8 * at_once["mlm_loss"], rel=1e-6)
    else:
        parts = 0.8 * halves["mlm_loss"] + 0.2 * halves["cpc_loss"]
        assert halves["loss"] == pytest.approx(parts, rel=1e-6)
