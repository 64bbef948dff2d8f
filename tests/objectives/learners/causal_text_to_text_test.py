"""Text to text, most of it with a causal model: rows, loss, and written answers."""

import json

import jax
import numpy as np
import pytest
from causal_pairs import BATCH, copies, trained
from mean_loss import loss_of
from random_params import random_params
from training_runs import lines

from etc_jax.cli import evaluate, predict
from etc_jax.config.sections import FinetuningConfig
from etc_jax.models.longformer.config import LongformerConfig
from etc_jax.objectives.causal_lm import CausalLm
from etc_jax.objectives.learners import finetuning
from etc_jax.objectives.learners.causal_text_to_text import joined

TINY = {"vocab_size": 40, "num_types": 1, "embed_dim": 8, "num_heads": 2, "mlp_dim": 16}
TINY |= {"num_layers": 1, "max_length": 12, "attention_window": (8,), "causal": True}
TINY |= {"attention": "dense"}


def learner(**changes):
    config = LongformerConfig(**{**TINY, **changes})
    section = FinetuningConfig(name="text_to_text")
    return finetuning.find(config, section, "text_to_text")


def test_a_target_stands_right_after_its_input():
    found = jax.tree.map(np.asarray, joined(BATCH))
    assert found["tokens"].tolist() == [
        [5, 6, 3, 11, 12, 3, 0, 0, 0],
        [7, 8, 9, 10, 3, 13, 3, 0, 0],
    ]
    assert found["target_weights"].tolist() == [
        [0, 0, 1, 1, 1, 0, 0, 0, 0],
        [0, 0, 0, 0, 1, 1, 0, 0, 0],
    ]
    assert found["example_ids"].sum(axis=1).tolist() == [6, 7]
    weighted = found["targets"][found["target_weights"] > 0]
    assert weighted.tolist() == [11, 12, 3, 13, 3]


def test_the_loss_is_that_of_the_rows_alone():
    made = learner()
    params = random_params(made.init)
    loss, sums = jax.jit(loss_of(made), static_argnums=(2, 3))(
        params, BATCH, None, True
    )
    assert sums["loss"][1] == 5
    total = 0.0
    module = CausalLm(made.model, made._language_model.module).module(made.model)
    apply = jax.jit(module.apply)
    for tokens, first in (([5, 6, 3, 11, 12, 3], 3), ([7, 8, 9, 10, 3, 13, 3], 5)):
        logits = apply({"params": params}, np.int32([tokens]))[0]
        logs = np.asarray(jax.nn.log_softmax(logits))
        total -= sum(logs[i - 1, tokens[i]] for i in range(first, len(tokens)))
    np.testing.assert_allclose(loss, total / 5, rtol=1e-5)


def test_outputs_are_the_likeliest_tokens_one_after_the_other():
    made = learner()
    params = random_params(made.init, spread=0.5, seed=1)
    apply = jax.jit(made._language_model.module(made.model).apply)
    got = np.asarray(jax.jit(made.outputs)(params, BATCH))
    for row, prompt in enumerate(([5, 6, 3], [7, 8, 9, 10, 3])):
        tokens = list(prompt)
        for _ in range(4):
            # What stands after a token does not matter to a causal model.
            padded = np.pad(tokens, (0, 9 - len(tokens)))[None].astype(np.int32)
            logits = apply({"params": params}, padded)
            tokens.append(int(logits[0, len(tokens) - 1].argmax()))
        assert got[row].tolist() == tokens[len(prompt) :]


def test_a_model_that_is_not_causal_or_too_short_is_refused():
    with pytest.raises(ValueError, match="causal=False"):
        learner(causal=False)
    [problem] = learner(max_length=8).problems(BATCH)
    assert problem.startswith("inputs of 5 tokens and targets of 4 stand in one")


@pytest.mark.usefixtures("one_device")
@pytest.mark.parametrize("family", ["longformer", "reformer", "reformer_seq2seq"])
@pytest.mark.full
def test_a_model_that_learnt_to_copy_answers_by_all_commands(family, tmp_path, capsys):
    run, dev = trained(family, tmp_path)
    official = [x for x in lines(run) if "official_exact_match" in x]
    assert official[-1]["official_exact_match"] > 0.9
    out = tmp_path / "scored"
    assert evaluate.main([f"--model={run}", f"--out={out}", str(dev)]) == 0
    scores = json.loads((out / evaluate.SCORES).read_text())["metrics"]
    assert scores["exact_match"] == official[-1]["official_exact_match"]
    said = json.loads((out / "predictions.json").read_text())
    asked = tmp_path / "asked.jsonl"
    asked.write_text("\n".join(dev.read_text().splitlines()[:3]))
    capsys.readouterr()
    page = tmp_path / "page.html"
    assert predict.main([f"--model={run}", "--json", f"--html={page}", str(asked)]) == 0
    answers = [json.loads(x) for x in capsys.readouterr().out.splitlines()]
    assert [said[x["id"]] for x in answers] == [x["answer"] for x in answers]
    assert answers[0]["answer"] in page.read_text()
    wanted = {x["id"]: x["target"] for x in copies(8, "dev")}
    assert sum(said[name] == wanted[name] for name in wanted) >= 7
