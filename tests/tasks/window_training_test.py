"""From invented pages and questions over a cache to a loss that falls."""

import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
import natural_questions_samples
import numpy as np
import optax
import pytest
from mean_loss import loss_of
from written_windows import write_windows

from etc_jax import config as config_lib, sharding
from etc_jax.data.tokenizers.wordpiece import WordPieceTokenizer
from etc_jax.data.windows.writing import WindowSource
from etc_jax.formats.structured import StructuredSizes
from etc_jax.objectives.jobs import finetuning as finetuning_job
from etc_jax.objectives.learners import finetuning
from etc_jax.sharding import batch as batch_sharding
from etc_jax.tasks import natural_questions, openkp
from etc_jax.tasks.synthetic import (
    natural_questions as invented_questions,
    openkp as invented_pages,
)
from etc_jax.training.preflight.plan import on_mesh

BATCH_SIZE, STEPS = 8, 12
SIZES = {
    "openkp": StructuredSizes(96, 24),
    "fixed_blocks": StructuredSizes(96, 6),
    "natural_questions": StructuredSizes(128, 48),
}
READ_AHEAD = natural_questions.NaturalQuestionsOptions(question_tokens=24, stride=64)
BLOCKS = {"tokens_per_block": 16}


def raw_records(task):
    if task != "natural_questions":
        sizes = invented_pages.OpenkpSizes(others=2, mentions=0, words=40)
        return list(invented_pages.records(BATCH_SIZE, seed=0, sizes=sizes))
    sizes = invented_questions.NaturalQuestionsSizes(nulls=0.0)
    return list(invented_questions.records(4, seed=0, sizes=sizes))


def tokenizer_of(values):
    """One whose pieces are the words of some records."""
    words = re.findall(r"[a-z]+|[0-9]|[^\sa-z0-9]", repr(values).lower())
    pieces = [*natural_questions_samples.PIECES, *sorted(set(words))]
    return WordPieceTokenizer(list(dict.fromkeys(pieces)))


def windows_of(task, values, tokenizer):
    def note(kind, message):
        pytest.fail(f"{kind}: {message}")

    if task != "natural_questions":
        records = [openkp.parse(value, note) for value in values]
        options = openkp.OpenkpOptions(**BLOCKS if task == "fixed_blocks" else {})
        made = [
            openkp.features(r, tokenizer, SIZES[task], options=options) for r in records
        ]
    else:
        records = [natural_questions.parse(value, note) for value in values]
        made = [
            natural_questions.features(r, tokenizer, SIZES[task], options=READ_AHEAD)
            for r in records
        ]
    return [w for of_record in made for w in of_record if w.unusable is None]


@pytest.fixture(scope="module")
def job_of(tmp_path_factory):
    """task, or "fixed_blocks", -> (config, job) on a cache of invented records."""

    @functools.cache
    def make(task):
        values = raw_records(task)
        tokenizer = tokenizer_of(values)
        folder = tmp_path_factory.mktemp(task)
        sizes = dataclasses.asdict(SIZES[task])
        windows = windows_of(task, values, tokenizer)
        blocks = task == "fixed_blocks"
        name = "openkp" if blocks else task
        source = WindowSource(
            name, "structured", sizes, options=BLOCKS if blocks else {}
        )
        write_windows(windows, tokenizer, folder / "cache", source)
        given = config_lib.default_config()
        given.update_from_flattened_dict(
            {
                "model.vocab_size": tokenizer.vocab_size,
                "model.embed_dim": 16,
                "model.num_heads": 2,
                "model.mlp_dim": 32,
                "model.num_layers": 1,
                "model.radius": 11,
                "model.attention": "dense",
                "model.dropout_rate": 0.0,
                "model.attention_dropout_rate": 0.0,
                "objective.name": name,
                "objective.visual_features": not blocks,
                "data.input_options": ("tokens_per_block=16",) if blocks else (),
                "data.source": "windows",
                "data.paths": (str(folder / "cache"),),
                "data.validation_paths": (str(folder / "cache"),),
                "data.vocab_size": tokenizer.vocab_size,
                **{f"data.{name}": length for name, length in sizes.items()},
                "train.batch_size": BATCH_SIZE,
            }
        )
        config = config_lib.from_config_dict(given)
        return config, finetuning_job.make_job(config, folder)

    return make


@pytest.mark.parametrize(
    "task",
    ["fixed_blocks", "natural_questions"],
)
@pytest.mark.full
def test_the_loss_falls(job_of, task):
    _, job = job_of(task)
    rows = np.arange(BATCH_SIZE)
    params = job.init_params(jax.random.key(0))
    tx = optax.adam(1e-2)

    @jax.jit
    def step(params, state, batch):
        grad_fn = jax.value_and_grad(loss_of(job), has_aux=True)
        (loss, sums), grads = grad_fn(params, batch, jax.random.key(0), True)
        updates, state = tx.update(grads, state)
        return optax.apply_updates(params, updates), state, loss, sums

    state, losses = tx.init(params), []
    for number in range(STEPS):
        batch = job.train_batch(number, rows)
        assert job.check_batch(batch) == []
        params, state, loss, sums = step(params, state, batch)
        losses.append(float(loss))
    assert np.isfinite(losses).all()
    assert np.mean(losses[-3:]) < 0.8 * np.mean(losses[:3])
    assert all(0 <= float(x) <= float(y) for k, (x, y) in sums.items() if "acc" in k)


@pytest.mark.full
def test_eight_devices_give_the_losses_and_gradients_of_one(job_of):
    config, job = job_of("openkp")
    model = dataclasses.replace(config.model, attention="xla")
    first, best = (
        finetuning.find(model, dataclasses.replace(config.objective, keyphrase_loss=x))
        for x in ("first", "best")
    )
    rows = job.train_batch(0, np.arange(BATCH_SIZE))
    rng = np.random.default_rng(0)
    params = jax.tree.map(
        lambda a: jnp.float32(0.2 * rng.normal(size=a.shape)),
        jax.eval_shape(first.init, jax.random.key(0)),
    )

    def losses(params, batch):
        outputs = first.outputs(params, batch)
        found = [task.losses(outputs, batch) for task in (first, best)]
        return sum(total for total, _ in found), found

    def run(mesh_config, devices):
        mesh = sharding.make_mesh(mesh_config, devices)
        with on_mesh(mesh), jax.default_matmul_precision("highest"):
            placed = jax.device_put(params, sharding.tree_shardings(params, mesh))
            batch = batch_sharding.to_global(rows, mesh, BATCH_SIZE)
            found = jax.jit(jax.grad(losses, has_aux=True))(placed, batch)
            return jax.device_get(found)

    want, want_losses = run(sharding.MeshConfig(data=1), jax.devices()[:1])
    got, got_losses = run(sharding.MeshConfig(data=2, sequence=4), None)
    assert all(total > BATCH_SIZE for total, _ in want_losses)
    for (total, sums), (other, other_sums) in zip(want_losses, got_losses, strict=True):
        assert other == pytest.approx(total, rel=1e-5)
        assert sums["accuracy"] == other_sums["accuracy"]
    scale = max(np.abs(x).max() for x in jax.tree.leaves(want))
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, atol=1e-5 * scale), got, want
    )
