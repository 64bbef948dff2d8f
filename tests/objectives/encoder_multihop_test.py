"""Questions over several documents in one sequence: losses, figures, wrong inputs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from etc_jax import structure
from etc_jax.config_sections import ObjectiveConfig
from etc_jax.models.encoder import BertConfig, LongformerConfig
from etc_jax.models.encoder_heads import EncoderWithoutHead
from etc_jax.models.etc_config import EtcConfig
from etc_jax.objectives import finetuning

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
    return finetuning.find(MODELS[model], ObjectiveConfig(name=name))


def common(weights=(1, 1, 1)):
    rng = np.random.default_rng(3)
    ids = np.zeros((B, N), np.int32)
    ids[:, :12] = np.array(weights)[:, None]
    none = np.zeros((B, 0), np.int32)
    return {
        "long_tokens": rng.integers(1, 30, (B, N)).astype(np.int32),
        "long_types": np.zeros((B, N), np.int32),
        "global_tokens": none,
        "global_types": none,
        "global_index": np.array([[0, 1, 2, 4, -1, -1]] * B, np.int32),
        "structure": structure.Structure(ids, none, np.zeros((B, N, 0), np.int16)),
        "weights": np.array(weights, np.float32),
    }


def wikihop(weights=(1, 1, 1)):
    places = [[2, 4, -1, -1], [1, 2, 5, -1], [3, 4, 5, 6]]
    return {
        **common(weights),
        "candidates": np.array(places, np.int32),
        "labels": {"candidate": np.array([1, 0, 3], np.int32)},
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
        given["long_tokens"],
        given["structure"].long_example_ids,
        **more,
    )
    return np.asarray(rows, np.float64)


def gradients(chosen):
    return jax.jit(jax.grad(lambda p, b: chosen.loss(p, b, None, True)[0]))


# --- WikiHop --------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_the_loss_of_candidates_is_a_softmax_over_their_tokens(model):
    chosen, given = task("wikihop_longformer", model), wikihop(weights=(1, 1, 0))
    params = params_of(chosen)
    rows = rows_of(model, params, given)
    head = jax.tree.map(lambda x: np.asarray(x, np.float64), params["candidate"])
    want, right = 0.0, 0
    for row, (places, label) in enumerate([([2, 4], 1), ([1, 2, 5], 0)]):
        logits = rows[row, places] @ head["kernel"][:, 0] + head["bias"][0]
        want += np.log(np.exp(logits).sum()) - logits[label]
        right += np.argmax(logits) == label
    loss, figures = chosen.loss(params, given, None, True)
    np.testing.assert_allclose(loss, want / 2, rtol=1e-5)
    assert figures["accuracy"] == (right, 2) and set(figures) == {"loss", "accuracy"}


def test_a_candidate_that_is_none_changes_nothing():
    chosen = task("wikihop_longformer")
    params = params_of(chosen)
    given = wikihop()
    longer = np.pad(given["candidates"], ((0, 0), (0, 3)), constant_values=-1)
    a, b = (
        chosen.loss(params, {**given, "candidates": places}, None, True)[0]
        for places in (given["candidates"], longer)
    )
    assert a == pytest.approx(float(b), rel=1e-6)


@pytest.mark.parametrize("name, make", [("wikihop_longformer", wikihop)])
def test_rows_of_weight_0_change_nothing(name, make):
    chosen = task(name)
    run, params = gradients(chosen), params_of(chosen)
    given = make(weights=(1, 1, 0))
    other = {**given, "long_tokens": given["long_tokens"].copy()}
    other["long_tokens"][2] = 7
    got, want = (jax.tree.leaves(run(params, x)) for x in (given, other))
    assert all(np.array_equal(x, y) for x, y in zip(got, want, strict=True))
    empty = run(params, make(weights=(0, 0, 0)))
    assert not any(np.any(np.asarray(x)) for x in jax.tree.leaves(empty))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"candidates": None}, "the batch lacks candidates"),
        ({"candidates": np.full((B, 4), N)}, "candidates holds places 14 to 14"),
        ({"global_index": np.full((B, 4), -2)}, "global_index holds places -2 to -2"),
        ({"long_tokens": np.full((B, N), 30)}, "model.vocab_size is 30; tokenizer"),
    ],
)
def test_wrong_inputs_of_wikihop_are_named(change, message):
    chosen, given = task("wikihop_longformer"), wikihop()
    assert list(chosen.wrong_inputs(given)) == []
    given = {k: x for k, x in {**given, **change}.items() if x is not None}
    [said] = chosen.wrong_inputs(given)
    assert message in said


def test_models_of_another_kind_are_refused():
    with pytest.raises(ValueError, match="trains Encoder, not Etc"):
        finetuning.find(EtcConfig(), ObjectiveConfig(name="wikihop_longformer"))
