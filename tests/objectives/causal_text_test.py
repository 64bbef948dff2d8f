"""Language models on text whose documents are packed side by side."""

import json

import jax
import numpy as np
import pytest
import tiny_text
from mean_loss import loss_of
from random_params import random_params
from training_runs import lines

from etc_jax import config as config_lib
from etc_jax.base import registry
from etc_jax.cli import generate
from etc_jax.conversion.formats import native
from etc_jax.training.checkpoints.saved_params import read_params
from etc_jax.training.run import train_and_evaluate

LENGTH, ROWS = 128, 8
MODELS = {
    "longformer": {"attention_window": (8,), "causal": True, "num_types": 1},
    "reformer": {
        "pattern": ("local", "lsh"),
        "axial_shape": (8, 16),
        "axial_dims": None,
        "local_chunk_length": 8,
        "lsh_chunk_length": 8,
        "num_buckets": None,
    },
}


@pytest.fixture(scope="module")
def of_text(tmp_path_factory):
    pytest.importorskip("nupunkt")
    folder = tmp_path_factory.mktemp("text")
    rng = np.random.default_rng(0)
    with open(folder / "rows.jsonl", "w") as file:
        for _ in range(200):
            words = rng.choice(tiny_text.LEXICON, (7, 3))
            said = " ".join(" ".join(row).capitalize() + "." for row in words)
            file.write(json.dumps({"body": said}) + "\n")
    return {
        "source": "jsonl",
        "text_field": "body",
        "paths": (str(folder / "rows.jsonl"),),
        "cache_dir": str(folder / "cache"),
        "validation_fraction": 0.4,
        "max_sentence_tokens": LENGTH,
        "vocab_size": tiny_text.VOCAB_SIZE,
        "input_length": LENGTH,
    }


def config_of(family, data, **model):
    config = config_lib.default_config(family)
    config.model.update(
        embed_dim=16,
        num_layers=2,
        num_heads=2,
        mlp_dim=32,
        max_length=LENGTH,
        dropout_rate=0.0,
        vocab_size=tiny_text.VOCAB_SIZE,
        initializer_range=0.1,
        **MODELS[family],
    )
    config.model.update(model)
    config.objective.name = "causal_lm"
    config.data.update(data)
    config.optimizer.update(learning_rate=1e-2, weight_decay=0.0)
    config.train.update(num_steps=20, batch_size=ROWS, eval_every_steps=10)
    config.checkpoint.update(every_steps=20)
    return config_lib.from_config_dict(config)


# A Longformer learns bytes in `longformer_lm_job_test`.
@pytest.mark.usefixtures("one_device")
@pytest.mark.parametrize("family", ["longformer", "reformer"])
@pytest.mark.full
def test_a_text_is_learnt_and_continued(of_text, family, tmp_path, capsys):
    config = config_of(family, of_text)
    assert train_and_evaluate(config, tmp_path / "run").exit_code == 0
    first, *_, last = lines(tmp_path / "run", "eval")
    assert last["bits"] < min(first["bits"], 0.9 * np.log2(tiny_text.VOCAB_SIZE))
    # By the run and by its model with the tokenizer beside it, in words.
    run, model = tmp_path / "run", tmp_path / "model"
    saved = read_params(run)
    tokenizer = (run / "tokenizer.json").read_bytes()
    files = {"tokenizer.json": tokenizer}
    native.save(model, saved.params, saved.config.model, {}, files=files)
    prompt = " ".join(tiny_text.LEXICON[:3])
    texts = []
    for folder in (run, model):
        argv = [f"--model={folder}", f"--prompt={prompt}", "--num_tokens=30"]
        assert generate.main(argv) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] and texts[0].strip() and "[" not in texts[0]
    for change, message in (
        ("--prompt=", "the prompt has no token"),
        ("--prompt=\udce9", "is not UTF-8"),
        (f"--num_tokens={LENGTH}", f"expected 1..{LENGTH}"),
        ("--first_id=2", "whose ids are known"),
    ):
        assert generate.main([f"--model={run}", f"--prompt={prompt}", change]) == 2
        told = capsys.readouterr().err
        assert message in told and told.count("\n") == 1


def job_of(family, data, folder, **model):
    make = registry.lookup("objective", "causal_lm")
    return make(config_of(family, data, **model), folder)


def test_rows_are_the_documents_and_every_row_of_an_epoch_is_one_step(
    of_text, tmp_path
):
    job = job_of("longformer", of_text, tmp_path)
    batch = job.train_batch(0, np.arange(ROWS))
    assert job.check_batch(batch) == [] and job.tokens_per_step == ROWS * LENGTH
    ids, weights = batch["example_ids"], batch["target_weights"]
    assert (ids.max(axis=1) > 1).any() and (ids > 0).mean() > 0.7
    pieces = sum(len(set(row[row > 0].tolist())) for row in ids)
    assert weights.sum() == (ids > 0).sum() - pieces
    # The work that is told is that of these rows, padding left out.
    whole = {k: x for k, x in batch.items() if k != "example_ids"}
    assert 0 < job.useful_flops(batch) < job.useful_flops(whole)


# Which tokens of one bucket meet depends on all that are in it: of LSH attention
# documents are apart in what they read, not in whom of their own they find.
@pytest.mark.parametrize(
    "family, model",
    [
        ("longformer", {"attention": "xla"}),
        ("reformer", {"pattern": ("local", "local")}),
    ],
)
@pytest.mark.full(but=["longformer*"])
def test_gradients_of_a_document_do_not_know_of_its_neighbour(
    of_text, family, model, tmp_path
):
    job = job_of(family, of_text, tmp_path, **model)
    batch = job.train_batch(0, np.arange(ROWS))
    row = int(batch["example_ids"].max(axis=1).argmax())
    batch = {name: array[row : row + 1].copy() for name, array in batch.items()}
    first = batch["example_ids"] == 1
    batch["target_weights"][~first] = 0.0
    other = {name: array.copy() for name, array in batch.items()}
    beside = batch["example_ids"] > 1
    for name in ("tokens", "targets"):
        other[name][beside] = np.roll(other[name][beside], 3)
    assert (batch["tokens"] != other["tokens"]).any()
    params = random_params(job.init_params, spread=0.1)
    grad = jax.jit(jax.grad(lambda p, b: loss_of(job)(p, b, None, True)[0]))
    got, want = (
        jax.tree.leaves(grad(params, other)),
        jax.tree.leaves(grad(params, batch)),
    )
    assert any(np.abs(x).max() > 1e-4 for x in want)
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-8)
