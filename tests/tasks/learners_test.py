"""Windows of each data set go through what learns it, and its outputs into answers."""

import json

import jax
import numpy as np
import pytest
from data_sets import SAMPLES, tokenizer_of
from learning import batch_of, evaluated, learner_of, random_params
from mean_loss import loss_of
from multihop_samples import small_etc

from etc_jax.datasets.task import find_task
from etc_jax.models.longformer.config import LongformerConfig

OPTIONS = {"natural_questions": {"question_tokens": 4, "stride": 60}}
FORMS = [
    *((x, "structured") for x in ("hotpotqa", "wikihop", "natural_questions")),
    *(("triviaqa", "structured"), ("openkp", "sequence")),
]


def model_for(format, vocab_size):
    if format == "structured":
        return small_etc(vocab_size)
    return LongformerConfig(
        vocab_size=vocab_size,
        embed_dim=8,
        num_layers=1,
        num_heads=2,
        mlp_dim=16,
        max_length=96,
        attention="dense",
        attention_window=(4,),
    )


@pytest.mark.usefixtures("one_device", "sentences_at_stops")
@pytest.mark.parametrize("name, form", FORMS)
@pytest.mark.full(but=["hotpotqa-structured"])
def test_windows_go_through_what_learns_them_into_answers(name, form):
    task = find_task(name, form).with_options(OPTIONS.get(name, {}))
    model, record = (
        tokenizer_of(task),
        task.parse(SAMPLES[name].value, lambda *note: None),
    )

    def windows(*lengths):
        return task.features(record, model, type(task.sizes)(*lengths))

    [window] = windows(80, 40)
    short = batch_of([window] * 2, (1, 0))
    learner = learner_of(task, model_for(form, model.vocab_size))
    params, run = random_params(learner), evaluated(learner)
    assert learner.problems(short) == []
    loss, _, grads, outputs = run(params, short)
    assert loss > 0

    # What it gives is read as an answer.
    row = jax.tree.map(lambda x: np.asarray(x)[:1], outputs)
    answers = task.answers(row, [window])
    assert list(answers) == [record.id] and json.dumps(task.official(answers))

    # The loss reaches the tokens through all layers, and them alone.
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(grads))
    # A softmax has no gradient for what is added to all of it.
    assert all(np.any(x) for x in jax.tree.leaves(grads["head"]) if x.ndim > 1)
    [tokens, *_] = [x for x in ("long_tokens", "tokens") if x in short]
    table = grads["encoder"]["embeddings"]["token_embedder"]["embedding"]
    assert np.any(np.asarray(table)[np.unique(short[tokens][0])], axis=-1).sum() > 9

    # As in the official code, padding counts in the losses of HotpotQA and NQ.
    if name not in ("hotpotqa", "natural_questions"):
        loss_fn = jax.jit(loss_of(learner), static_argnums=3)
        got, _ = loss_fn(params, batch_of(windows(96, 48) * 2, (1, 0)), None, True)
        np.testing.assert_allclose(got, loss, rtol=1e-5)
    other = {**short, tokens: short[tokens].copy()}
    other[tokens][1] = 7
    assert run(params, other)[0] == loss
    # Rows of weight 0 alone give a loss of 0, and no gradient.
    nothing, _, grads, _ = run(params, {**short, "weights": np.zeros(2, np.float32)})
    assert nothing == 0 and not any(np.any(x) for x in jax.tree.leaves(grads))
