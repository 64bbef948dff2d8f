"""Tasks of encoders of one sequence: what models read, losses, wrong inputs."""

import jax
import numpy as np
import pytest
from encoder_learners import MODELS, B, N, batch, global_tokens, learner
from mean_loss import loss_of
from random_params import random_params

from etc_jax.config.kinds import section_of
from etc_jax.models import useful_flops
from etc_jax.models.encoder.heads import EncoderForSpans
from etc_jax.models.etc.config import EtcConfig
from etc_jax.models.reformer.config import ReformerConfig
from etc_jax.objectives.learners import finetuning


def params_of(chosen):
    return random_params(chosen.init, scale=0.0)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.full(but=["big_bird", "longformer"])
def test_the_loss_is_that_of_the_logits_of_the_model(name):
    given = batch("triviaqa", (1, 1, 0))
    chosen = learner("triviaqa", name)
    params = params_of(chosen)
    logits = jax.jit(EncoderForSpans(MODELS[name]).apply)(
        {"params": params},
        given["tokens"],
        given["example_ids"],
        **global_tokens(name, given),
    )
    want = 0.0
    for row in (0, 1):
        for x, side in ((logits.start, "starts"), (logits.end, "ends")):
            places = given["labels"][side][row]
            p = np.exp(np.asarray(x[row, :12], np.float64))
            want -= np.log(sum(p[i] for i in places if i >= 0) / p.sum()) / 2
    loss, metrics = jax.jit(loss_of(chosen), static_argnums=3)(
        params, given, None, True
    )
    np.testing.assert_allclose(loss, want / 2, rtol=1e-5)
    assert set(metrics) == {"loss", "start_loss", "end_loss", "span_accuracy"}
    assert metrics["loss"][1] == 2


def test_global_tokens_are_those_of_the_batch():
    chosen, given = learner("triviaqa"), batch("triviaqa")
    params = params_of(chosen)
    other = {**given, "global_index": np.full((B, 4), -1, np.int32)}
    a, b = (chosen.outputs(params, x).start for x in (given, other))
    assert np.abs(np.asarray(a) - b).max() > 1e-3


@pytest.mark.parametrize("name", ["triviaqa", "wikihop", "hotpotqa"])
def test_rows_of_weight_0_change_nothing(name):
    chosen = learner(name)
    run = jax.jit(jax.grad(lambda p, b: loss_of(chosen)(p, b, None, True)[0]))
    given = batch(name, (1, 1, 0))
    other = {**given, "tokens": given["tokens"].copy()}
    other["tokens"][2] = 7
    params = params_of(chosen)
    got, want = (jax.tree.leaves(run(params, x)) for x in (given, other))
    assert all(np.array_equal(x, y) for x, y in zip(got, want, strict=True))
    empty = run(params, batch(name, (0, 0, 0)))
    assert not any(np.any(np.asarray(x)) for x in jax.tree.leaves(empty))


BEYOND = "holds positions from 14 to 14, expected -1 for none"


@pytest.mark.parametrize(
    "name, field, value, message",
    [
        ("triviaqa", "tokens", 30, "model.vocab_size is 30; tokenizer"),
        ("triviaqa", "types", 1, "model.num_types is 1; the inputs are"),
        ("triviaqa", "global_index", N, "global_index holds positions from 14 "),
        ("triviaqa", "global_index", None, "the batch lacks global_index"),
        ("wikihop", "candidates", None, "the batch lacks candidates"),
        ("wikihop", "candidates", N, f"candidates {BEYOND}"),
        ("wikihop", "global_index", -2, "global_index holds positions from -2 "),
        ("wikihop", "tokens", 30, "model.vocab_size is 30; tokenizer"),
        ("hotpotqa", "paragraphs", None, "the batch lacks paragraphs"),
        ("hotpotqa", "paragraphs", N, f"paragraphs {BEYOND}"),
        ("hotpotqa", "sentences", None, "the batch lacks sentences"),
        ("hotpotqa", "sentences", N, f"sentences {BEYOND}"),
    ],
)
def test_wrong_inputs_are_named(name, field, value, message):
    chosen, given = learner(name), batch(name)
    assert chosen.problems(given) == []
    if value is None:
        del given[field]
    else:
        given[field] = np.full_like(given[field], value)
    [said] = chosen.problems(given)
    assert message in said


@pytest.mark.parametrize(
    "name, model, message",
    [
        ("coreference", EtcConfig(), "coreference has no inputs in format 's"),
        ("wikihop", ReformerConfig(), "trains Encoder, not Reformer; set model.f"),
        ("hotpotqa", ReformerConfig(), "trains Encoder, not Reformer; set model.f"),
    ],
)
def test_models_of_another_kind_are_refused(name, model, message):
    with pytest.raises(ValueError, match=message):
        finetuning.find(model, section_of(name)(name))


def test_useful_flops_are_of_real_and_global_tokens_and_unknown_for_coreference():
    chosen, given = learner("triviaqa"), batch("triviaqa")

    def flops(**changes):
        inputs = chosen.flops_inputs({**given, **changes})
        return useful_flops.of_step(MODELS["longformer"], "longformer", inputs)

    none = np.full((B, 4), -1, np.int32)
    # Of 12 real tokens two are global: keys and values for all, queries for them.
    extra = 2 * (12 + 12 + 2) * 8 * 8
    gained = (flops() - flops(global_index=none)) / (3 * B)
    assert extra < gained < extra + 4 * 8 * 12 * 12
    shorter = batch("triviaqa", length=6)["example_ids"]
    assert (
        flops(example_ids=shorter, global_index=none) < flops(global_index=none) / 1.9
    )
    assert learner("coreference").flops_inputs(given) is None
