import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mean_loss import loss_of
from random_params import random_params

from etc_jax import structure
from etc_jax.config.kinds import section_of
from etc_jax.data.windows.token_types import GLOBAL_CANDIDATE_TYPE
from etc_jax.models.etc.config import EtcConfig
from etc_jax.models.heads import AnswerLogits
from etc_jax.objectives.learners import finetuning
from etc_jax.objectives.pretraining import Pretraining
from etc_jax.objectives.sections import MlmCpcConfig

MODEL = EtcConfig(
    vocab_size=40,
    embed_dim=8,
    num_heads=2,
    mlp_dim=16,
    num_layers=1,
    radius=4,
    max_distance=3,
    num_labels=10,
    dropout_rate=0.1,
    attention_dropout_rate=0.1,
    attention="dense",
)
B, N, G = 3, 20, 8
CANDIDATES = 4


def task(name, **objective):
    return finetuning.find(MODEL, section_of(name)(name, **objective))


def batch(name, weights=(1, 1, 1)):
    """Random inputs; rows of weight 0 are padding throughout."""
    rng = np.random.default_rng(3)
    real = np.array(weights, np.float32)
    ids = np.broadcast_to(real[:, None].astype(np.int32), (B, N))
    types = np.zeros((B, G), np.int32)
    types[:, :CANDIDATES] = GLOBAL_CANDIDATE_TYPE
    labels = {
        "hotpotqa": {
            "support": rng.integers(0, 2, (B, G)),
            "answer_type": np.array([0, 1, 0]),
            "begin": np.array([4, 0, 11]),
            "end": np.array([6, 0, 11]),
        },
        "natural_questions": {
            "answer_type": np.array([4, 0, 3]),
            "short_begin": np.array([4, 0, 0]),
            "short_end": np.array([6, 0, 0]),
            "long_begin": np.array([2, 0, 0]),
            "long_end": np.array([9, 0, 12]),
        },
        "openkp": {
            "start": np.array([[1, 6, -1], [2, -1, -1], [0, 1, 5]]),
            "length": np.array([[2, 1, -1], [5, -1, -1], [1, 1, 1]]),
            "occurrences": _occurrences(),
        },
        "wikihop": {"candidate": np.array([2, 0, 3])},
    }[name]
    return {
        **(_page(rng) if name == "openkp" else {}),
        "long_tokens": rng.integers(1, 40, (B, N)).astype(np.int32),
        "global_tokens": rng.integers(1, 40, (B, G)).astype(np.int32),
        "long_types": rng.integers(0, 5, (B, N)).astype(np.int32),
        "global_types": types * real[:, None].astype(np.int32),
        "structure": structure.Structure(
            long_example_ids=ids,
            global_example_ids=ids[:, :G],
            links=rng.integers(-1, G, (B, N, 2)).astype(np.int16),
        ),
        "labels": {
            k: v if v.dtype == np.uint8 else v.astype(np.int32)
            for k, v in labels.items()
        },
        "weights": real,
    }


def _occurrences():
    """The first page has its first keyphrase twice, its second three times."""
    found = np.zeros((B, N), np.uint8)
    for page, place, bit in (
        *((0, 1, 0), (0, 9, 0), (0, 6, 1), (0, 3, 1), (0, 12, 1)),
        *((1, 2, 0), (2, 0, 0), (2, 1, 1), (2, 5, 2)),
    ):
        found[page, place] |= 1 << bit
    return found


WORDS = (15, 12, 7)


def _page(rng):
    """Words of one or two tokens, -1 after them, and looks."""
    words = np.full((B, N), -1, np.int32)
    for row, number in zip(words, WORDS, strict=True):
        row[: number + 4] = np.sort([*range(number), *range(4)])
    bytes_ = {k: rng.integers(0, 24, (B, G)).astype(np.uint8) for k in _BYTES}
    boxes = rng.uniform(-1, 1, (B, G, 8)).astype(np.float32)
    return {"long_words": words, "visual": {**bytes_, "boxes": boxes}}


_BYTES = ("font", "parent_font", "flags")


def params_of(chosen):
    return random_params(chosen.init, scale=0.0)


def log_softmax(x):
    return x - np.log(np.sum(np.exp(x), axis=-1, keepdims=True))


TASKS = ("hotpotqa", "natural_questions", "openkp", "wikihop")


@pytest.fixture(scope="module", params=TASKS)
def name(request):
    return request.param


KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def run(name):
    """Compiled: batch -> ((loss, sums), gradients)."""
    chosen = task(name)
    params = params_of(chosen)
    compiled = jax.jit(
        jax.value_and_grad(loss_of(chosen), has_aux=True), static_argnums=3
    )
    return lambda batch: compiled(params, batch, KEY, True)


def test_the_encoder_is_that_of_pretraining(name):
    pretrained = jax.eval_shape(
        Pretraining(MODEL, MlmCpcConfig()).init, jax.random.key(0)
    )
    tuned = jax.eval_shape(task(name).init, jax.random.key(0))
    looks = {"visual"} if name == "openkp" else set()
    assert set(tuned) == {"encoder", "head"} | looks
    describe = lambda t: jax.tree.map(lambda a: (a.shape, a.dtype), t)  # noqa: E731
    assert describe(tuned["encoder"]) == describe(pretrained["encoder"])


@pytest.mark.full(but=["hotpotqa", "wikihop"])
def test_rows_of_weight_0_change_nothing(name, run):
    given = batch(name, (1, 1, 0))
    other = {**given, "long_tokens": given["long_tokens"].copy()}
    other["long_tokens"][2] = 7
    other["labels"] = {k: v.copy() for k, v in given["labels"].items()}
    for label in other["labels"].values():
        label[2] = 1
    got, want = (jax.tree.leaves(run(x)) for x in (given, other))
    assert all(np.array_equal(x, y) for x, y in zip(got, want, strict=True))


def test_a_batch_of_padding_has_no_loss_and_no_gradients(name, run):
    (loss, _), gradients = run(batch(name, (0, 0, 0)))
    assert loss == 0
    assert not any(np.any(np.asarray(x)) for x in jax.tree.leaves(gradients))


# Of those whose heads have none the encoder is one.
@pytest.mark.parametrize("name", ["hotpotqa", "openkp", "wikihop"])
@pytest.mark.full(but=["wikihop"])
def test_dropout_is_that_of_its_key(name):
    chosen, given = task(name), batch(name)
    params = params_of(chosen)
    loss = jax.jit(lambda rng: loss_of(chosen)(params, given, rng, False)[0])
    first, again, other = (float(loss(jax.random.key(i))) for i in (0, 0, 1))
    assert first == again != other


@pytest.mark.full(but=["natural_questions", "wikihop"])
def test_outputs_are_the_logits_that_the_loss_is_of(name, run):
    chosen, given = task(name), batch(name, (1, 1, 0))
    outputs = jax.jit(chosen.outputs)(params_of(chosen), given)
    assert all(x.dtype == jnp.float32 for x in jax.tree.leaves(outputs))
    total, _ = chosen.losses(outputs, given)
    (loss, _), _ = run(given)
    np.testing.assert_allclose(loss, total / 2, rtol=1e-5)


def check_figures(total, sums, parts, expected):
    """Of two rows: the loss is the mean of its parts, each of which is a metric."""
    expected = {f"{k}_loss": (v, 2) for k, v in parts.items()} | expected
    assert set(sums) == set(expected)
    np.testing.assert_allclose(total, sum(parts.values()) / len(parts), rtol=1e-5)
    for figure, (value, weight) in expected.items():
        np.testing.assert_allclose(sums[figure][0], value, rtol=1e-5, err_msg=figure)
        assert sums[figure][1] == weight, figure


def test_figures_of_hotpotqa_are_those_of_a_plain_loop():
    chosen, given = task("hotpotqa"), batch("hotpotqa", (1, 1, 0))
    rng = np.random.default_rng(5)
    outputs = AnswerLogits(
        answer_type=rng.normal(size=(B, 3)),
        span=rng.normal(size=(B, N, 2)),
        support=rng.normal(size=(B, G)),
    )
    outputs.span[0, (4, 6), (0, 1)] += 9.0
    total, sums = chosen.losses(jax.tree.map(jnp.float32, outputs), given)
    labels = given["labels"]
    parts = {"support": 0.0, "answer_type": 0.0, "begin": 0.0, "end": 0.0}
    kinds = spans = span_rows = 0
    given_support, both, wanted = 0, 0, 0
    for i in (0, 1):
        x, y = outputs.support[i], labels["support"][i]
        p = 1 / (1 + np.exp(-x))
        parts["support"] -= np.sum(np.where(y, np.log(p), np.log(1 - p)))
        kind = labels["answer_type"][i]
        parts["answer_type"] -= log_softmax(outputs.answer_type[i])[kind]
        for side, end in enumerate(("begin", "end")):
            parts[end] -= log_softmax(outputs.span[i, :, side])[labels[end][i]]
        kinds += np.argmax(outputs.answer_type[i]) == kind
        best = np.argmax(outputs.span[i], axis=0)
        if kind == 0:
            span_rows += 1
            spans += (best == [labels["begin"][i], labels["end"][i]]).all()
        both += np.sum((p >= 0.4) & (y == 1))
        given_support, wanted = given_support + np.sum(p >= 0.4), wanted + y.sum()
    expected = {
        "answer_type_accuracy": (kinds, 2),
        "span_accuracy": (spans, span_rows),
        "support_f1": (2 * both, given_support + wanted),
    }
    assert both > 0 and (spans, span_rows) == (1, 1)
    check_figures(total, sums, parts, expected)


def test_figures_of_natural_questions_are_those_of_a_plain_loop():
    given = batch("natural_questions", (1, 1, 0))
    # Of the second window the answer's end is there alone: no whole span.
    given["labels"]["long_end"][1] = 5
    chosen, labels = task("natural_questions"), given["labels"]
    rng = np.random.default_rng(5)
    outputs = AnswerLogits(
        answer_type=rng.normal(size=(B, 5)), span=rng.normal(size=(B, N, 4))
    )
    outputs.span[0, (4, 6), (0, 1)] += 9.0
    total, sums = chosen.losses(jax.tree.map(jnp.float32, outputs), given)
    places = ("short_begin", "short_end", "long_begin", "long_end")
    parts = dict.fromkeys((*places, "answer_type"), 0.0)
    kinds = 0
    for i in (0, 1):
        kind = labels["answer_type"][i]
        parts["answer_type"] -= log_softmax(outputs.answer_type[i])[kind]
        kinds += np.argmax(outputs.answer_type[i]) == kind
        for column, end in enumerate(places):
            parts[end] -= log_softmax(outputs.span[i, :, column])[labels[end][i]]
    best = np.argmax(outputs.span[0], axis=0)
    assert best[:2].tolist() == [4, 6] and best[2:].tolist() != [2, 9]
    expected = {
        "answer_type_accuracy": (kinds, 2),
        "short_accuracy": (1, 1),
        "long_accuracy": (0, 1),
    }
    check_figures(total, sums, parts, expected)


@pytest.mark.parametrize("which", ["first", "best"])
def test_loss_of_openkp_is_that_of_a_plain_loop(which):
    chosen, given = task("openkp", keyphrase_loss=which), batch("openkp", (1, 1, 0))
    logits = np.random.default_rng(5).normal(size=(B, 5, N))
    # Of the first page: the second keyphrase is rated best where it comes last.
    logits[0, 0, (3, 6, 12)] = 1.0, 2.0, 9.0
    runs = [(k, i) for k in range(5) for i in range(N)]
    want = hits = 0.0
    for page in (0, 1):
        there = [(k, i) for k, i in runs if k + i < WORDS[page]]
        targets = {
            ("first", 0): [(1, 1), (0, 6)],
            ("best", 0): [max([(1, 1), (1, 9)], key=lambda r: logits[0][r]), (0, 12)],
        }.get((which, page), [(4, 2)])
        everywhere = [(1, 1), (1, 9), (0, 6), (0, 3), (0, 12)] if page == 0 else targets
        left_out = [r for r in everywhere if which == "best" and r not in targets]
        kept = [r for r in there if r not in left_out]
        mass = np.log(sum(np.exp(logits[page][r]) for r in kept))
        for r in kept:
            share = (r in targets) / len(targets) + 1e-4 / len(kept)
            want -= share / (1 + 1e-4) * (logits[page][r] - mass)
        guess = max(there, key=lambda r: logits[page][r])
        hits += guess in (targets if which == "first" else everywhere)
    masked = np.full_like(logits, -10000.0)
    for page, number in enumerate(WORDS):
        for k, i in runs:
            if k + i < number:
                masked[page, k, i] = logits[page, k, i]
    total, sums = chosen.losses(jnp.float32(masked), given)
    np.testing.assert_allclose(total, want, rtol=1e-5)
    assert sums == {"accuracy": (hits, 2)}
    assert hits == (which == "best")


def test_openkp_without_looks_has_no_parameters_for_them():
    chosen, given = task("openkp", visual_features=False), batch("openkp")
    params = params_of(chosen)
    assert set(params) == {"encoder", "head"}
    other = {**given, "visual": {k: 0 * x for k, x in given["visual"].items()}}
    run = jax.jit(chosen.outputs)
    np.testing.assert_array_equal(run(params, given), run(params, other))


@pytest.mark.parametrize(
    "change, message",
    [
        (
            {"long_words": np.full((B, N), N)},
            f"long_words holds positions from {N}",
        ),
        (
            {"long_words": np.full((B, N), -2)},
            "long_words holds positions from -2 to -2",
        ),
        ({"visual": {"font": np.full((B, G), 24)}}, "visual.font holds 24, but there"),
        ({"visual": {"boxes": np.full((B, G, 8), np.nan)}}, "visual.boxes holds"),
        ({"visual": {"boxes": None}}, "the batch lacks visual.boxes"),
        ({"long_words": None}, "the batch lacks long_words"),
    ],
)
def test_inputs_of_openkp_that_no_page_has_are_named(change, message):
    chosen, given = task("openkp"), batch("openkp")
    assert chosen.problems(given) == []
    [(name, value)] = change.items()
    if name == "visual":
        value = {**given["visual"], **value}
        value = {k: x for k, x in value.items() if x is not None}
    given[name] = value
    if value is None:
        del given[name]
    [said] = chosen.problems(given)
    assert said.startswith(message)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_loss_of_wikihop_is_over_the_candidates_alone(smoothing):
    chosen, given = task("wikihop", label_smoothing=smoothing), batch("wikihop")
    outputs = np.random.default_rng(5).normal(size=(B, G))
    logits = outputs[:, :CANDIDATES]
    total, sums = chosen.losses(jnp.float32(outputs), given)
    right = np.eye(CANDIDATES)[given["labels"]["candidate"]]
    target = (1 - smoothing) * right + smoothing / CANDIDATES
    np.testing.assert_allclose(total, -np.sum(target * log_softmax(logits)), rtol=1e-5)
    hits = np.sum(np.argmax(logits, axis=-1) == given["labels"]["candidate"])
    assert sums["accuracy"] == (hits, B)


def test_the_final_layer_of_wikihop_can_be_left_out():
    key = jax.random.key(0)
    with_it = jax.eval_shape(task("wikihop").init, key)["head"]
    without = jax.eval_shape(task("wikihop", final_layer=False).init, key)["head"]
    assert set(with_it) == {"mlp", "mlp_norm", "candidate"}
    assert set(without) == {"candidate"}


def test_a_task_is_one_value_for_a_compiled_function():
    assert hash(task("wikihop")) == hash(task("wikihop"))
    changed = dataclasses.replace(task("wikihop"), model=EtcConfig())
    assert changed != task("wikihop")
