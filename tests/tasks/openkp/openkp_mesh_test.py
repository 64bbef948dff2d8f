"""Both losses of pages on a mesh of eight devices are those of one."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from data_sets import SAMPLES, task_of, tokenizer_of
from learning import batch_of, learner_of, random_params
from multihop_samples import small_etc

from etc_jax import sharding
from etc_jax.sharding import batch as batch_sharding
from etc_jax.training.preflight.plan import on_mesh

BATCH_SIZE = 8


@pytest.mark.full
def test_eight_devices_give_the_losses_and_gradients_of_one():
    task = task_of("openkp", "structured")
    tokenizer, sizes = tokenizer_of(task), type(task.sizes)(256, 24)
    values = SAMPLES["openkp"].invented(BATCH_SIZE)
    records = [task.parse(value, lambda *note: None) for value in values]
    rows = batch_of([w for r in records for w in task.features(r, tokenizer, sizes)])
    changes = {"embed_dim": 16, "radius": 11, "attention": "xla", "dropout_rate": 0.0}
    model = dataclasses.replace(small_etc(), **changes, attention_dropout_rate=0.0)
    learners = [learner_of(task, model, keyphrase_loss=x) for x in ("first", "best")]
    params = random_params(learners[0], scale=0.2)
    params = jax.tree.map(jnp.asarray, params)

    def losses(params, batch):
        outputs = learners[0].outputs(params, batch)
        each = [learner.losses(outputs, batch) for learner in learners]
        return sum(total for total, _ in each), each

    def run(mesh_config, devices):
        mesh = sharding.make_mesh(mesh_config, devices)
        with on_mesh(mesh), jax.default_matmul_precision("highest"):
            placed = jax.device_put(params, sharding.tree_shardings(params, mesh))
            batch = batch_sharding.to_global(rows, mesh, BATCH_SIZE)
            return jax.device_get(
                jax.jit(jax.grad(losses, has_aux=True))(placed, batch)
            )

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
