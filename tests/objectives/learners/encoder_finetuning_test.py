"""Tasks of encoders of one sequence: what models read, losses, wrong inputs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mean_loss import loss_of

from etc_jax.config.kinds import section_of
from etc_jax.models import useful_flops
from etc_jax.models.encoder.config import (
    BertConfig,
    BigBirdConfig,
    LongformerConfig,
    RobertaConfig,
)
from etc_jax.models.encoder.heads import EncoderForSpans
from etc_jax.models.etc.config import EtcConfig
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
    "roberta": RobertaConfig(**SIZES),
    "longformer": LongformerConfig(**SIZES, attention_window=(4,)),
    "big_bird": BigBirdConfig(**SIZES, block_size=2, num_globals=3),
}
B, N = 3, 14
STARTS = [[3, 7, -1], [5, -1, -1], [2, 4, 9]]
ENDS = [[4, 7, -1], [6, -1, -1], [2, 5, 9]]


def task(model, name="triviaqa"):
    return finetuning.find(model, section_of(name)(name))


def batch(weights=(1, 1, 1), length=12):
    rng = np.random.default_rng(3)
    ids = np.zeros((B, N), np.int32)
    ids[:, :length] = np.array(weights)[:, None]
    return {
        "tokens": rng.integers(1, 30, (B, N)).astype(np.int32),
        "types": np.zeros((B, N), np.int32),
        "global_index": np.array([[0, 1, -1, -1]] * B, np.int32),
        "example_ids": ids,
        "labels": {"starts": np.array(STARTS), "ends": np.array(ENDS)},
        "weights": np.array(weights, np.float32),
    }


def params_of(chosen):
    rng = np.random.default_rng(0)
    abstract = jax.eval_shape(chosen.init, jax.random.key(0))
    return jax.tree.map(
        lambda a: jnp.asarray(0.3 * rng.normal(size=a.shape), a.dtype), abstract
    )


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.full(but=["big_bird", "longformer"])
def test_the_loss_is_that_of_the_logits_of_the_model(name):
    model, given = MODELS[name], batch(weights=(1, 1, 0))
    chosen = task(model)
    params = params_of(chosen)
    more = {"global_index": given["global_index"]} if name == "longformer" else {}
    logits = jax.jit(EncoderForSpans(model).apply)(
        {"params": params},
        given["tokens"],
        given["example_ids"],
        **more,
    )
    want = 0.0
    for row in (0, 1):
        for x, places in ((logits.start, STARTS[row]), (logits.end, ENDS[row])):
            p = np.exp(np.asarray(x[row, :12], np.float64))
            want -= np.log(sum(p[i] for i in places if i >= 0) / p.sum()) / 2
    loss, metrics = jax.jit(loss_of(chosen), static_argnums=3)(
        params, given, None, True
    )
    np.testing.assert_allclose(loss, want / 2, rtol=1e-5)
    assert set(metrics) == {"loss", "start_loss", "end_loss", "span_accuracy"}
    assert metrics["loss"][1] == 2


def test_global_tokens_are_those_of_the_batch():
    chosen, given = task(MODELS["longformer"]), batch()
    params = params_of(chosen)
    other = {**given, "global_index": np.full((B, 4), -1, np.int32)}
    a, b = (chosen.outputs(params, x).start for x in (given, other))
    assert np.abs(np.asarray(a) - b).max() > 1e-3


def test_rows_of_weight_0_change_nothing():
    chosen = task(MODELS["longformer"])
    run = jax.jit(jax.grad(lambda p, b: loss_of(chosen)(p, b, None, True)[0]))
    given = batch(weights=(1, 1, 0))
    other = {**given, "tokens": given["tokens"].copy()}
    other["tokens"][2] = 7
    params = params_of(chosen)
    got, want = (jax.tree.leaves(run(params, x)) for x in (given, other))
    assert all(np.array_equal(x, y) for x, y in zip(got, want, strict=True))
    empty = run(params, batch(weights=(0, 0, 0)))
    assert not any(np.any(np.asarray(x)) for x in jax.tree.leaves(empty))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"tokens": np.full((B, N), 30)}, "model.vocab_size is 30; tokenizer"),
        ({"types": np.ones((B, N))}, "model.num_types is 1; the inputs are"),
        (
            {"global_index": np.full((B, 4), N)},
            "global_index holds positions from 14 ",
        ),
        ({"global_index": None}, "the batch lacks global_index"),
    ],
)
def test_wrong_inputs_are_named(change, message):
    chosen, given = task(MODELS["longformer"]), batch()
    assert chosen.problems(given) == []
    given = {k: x for k, x in {**given, **change}.items() if x is not None}
    [said] = chosen.problems(given)
    assert message in said


def test_models_of_another_kind_are_refused():
    with pytest.raises(ValueError, match="coreference has no inputs in format 's"):
        task(EtcConfig(), "coreference")


def test_useful_flops_are_of_real_and_global_tokens_and_unknown_for_coreference():
    longformer = MODELS["longformer"]
    chosen, given = task(longformer), batch()

    def flops(**changes):
        inputs = chosen.flops_inputs({**given, **changes})
        return useful_flops.of_step(longformer, "longformer", inputs)

    none = np.full((B, 4), -1, np.int32)
    # Of 12 real tokens two are global: keys and values for all, queries for them.
    extra = 2 * (12 + 12 + 2) * 8 * 8
    gained = (flops() - flops(global_index=none)) / (3 * B)
    assert extra < gained < extra + 4 * 8 * 12 * 12
    shorter = batch(length=6)["example_ids"]
    assert (
        flops(example_ids=shorter, global_index=none) < flops(global_index=none) / 1.9
    )
    coreference = finetuning.find(longformer, section_of("coreference")("coreference"))
    assert coreference.flops_inputs(given) is None
