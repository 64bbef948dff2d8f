"""Twenty steps of pre-training give the same losses on every mesh."""

import dataclasses
import functools

import jax
import numpy as np
import pytest
import tiny_model

from etc_jax import sharding
from etc_jax.config.sections import OptimizerConfig, ScheduleConfig
from etc_jax.data.pretraining.examples import PretrainingSizes
from etc_jax.data.pretraining.readers import PretrainingReader
from etc_jax.data.text.cache import TokenCache
from etc_jax.data.text.packing import pack
from etc_jax.objectives.pretraining import Pretraining
from etc_jax.objectives.sections import MlmCpcConfig
from etc_jax.sharding import batch as batch_sharding
from etc_jax.training.optimizers.optimizer import make_optimizer
from etc_jax.training.optimizers.schedule import make_schedule
from etc_jax.training.preflight.plan import on_mesh
from etc_jax.training.state import abstract_state, init_state
from etc_jax.training.step import make_train_step

STEPS = 20
BATCH_SIZE = 8
IDS = tiny_model.token_ids(tiny_model.MODEL.vocab_size)
SIZES = PretrainingSizes(
    64, 16, mlm_capacity=16, cpc_long_length=24, cpc_global_length=4
)
# Its dropout is drawn block by block, so otherwise where the sequence is split.
MODEL = dataclasses.replace(tiny_model.MODEL, attention_dropout_rate=0.0)
TASK = Pretraining(MODEL, MlmCpcConfig())
ONE = {"data": 1}
# One step on a mesh is compared by quick tests: `conformance.model_test` and, over a
# split sequence, `conformance.sequence_test`.
MESHES = [
    {"data": 2, "sequence": 4},
    {"data": 2, "fsdp": 2, "tensor": 2},
    {"data": 8},
    {"data": 2, "fsdp": 4},
    {"data": 1, "sequence": 8},
    {"data": 1, "fsdp": 2, "tensor": 2, "sequence": 2},
]


@functools.cache
def reader() -> PretrainingReader:
    """Packed documents of random sentences; the last tokens of each repeat it."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(5, 9, 7 * 40)
    tokens = [np.tile(rng.integers(*IDS.regular_ids, 4), 2)[:n] for n in lengths]
    cache = TokenCache.from_arrays(
        np.concatenate(tokens).astype(np.uint16),
        np.ones(lengths.sum(), bool),
        np.concatenate([[0], np.cumsum(lengths)]),
        7 * np.arange(41),
        vocab_size=IDS.vocab_size,
    )
    plan = pack(cache, long_length=64, global_length=16, max_sentence_tokens=24)
    return PretrainingReader(cache, plan, IDS, SIZES, batch_size=BATCH_SIZE, seed=0)


@functools.cache
def losses(axes: tuple[tuple[str, int], ...]) -> np.ndarray:
    """`[steps, 3]`: the whole loss, that of words and that of sentences."""
    count = int(np.prod([size for _, size in axes]))
    config = sharding.MeshConfig(**dict(axes))
    mesh = sharding.make_mesh(config, jax.devices()[:count])
    schedule = ScheduleConfig(warmup_steps=2)
    schedule = make_schedule(schedule, learning_rate=3e-3, num_steps=STEPS)
    tx = make_optimizer(OptimizerConfig(), schedule)
    found = []
    with on_mesh(mesh), jax.default_matmul_precision("highest"):
        layout = abstract_state(TASK.init, tx, mesh)
        state = init_state(TASK.init, tx, layout, jax.random.key(0))
        step = jax.jit(
            make_train_step(TASK.loss, tx, loss_weights=TASK.loss_weights),
            donate_argnums=0,
        )
        for i in range(STEPS):
            rows = reader().batch_at(i, batch_sharding.local_rows(BATCH_SIZE, mesh))
            batch = batch_sharding.to_global(rows, mesh, BATCH_SIZE)
            state, metrics = step(state, batch, jax.random.key(1))
            sums = metrics["sums"]
            parts = [sums[name][0] / sums[name][1] for name in ("mlm_loss", "cpc_loss")]
            found.append(jax.device_get([metrics["loss"], *parts]))
    return np.array(found)


def items(axes):
    return tuple(axes.items())


@pytest.mark.full
@pytest.mark.parametrize("axes", MESHES, ids=str)
def test_meshes_agree_on_words_and_sentences(axes):
    got, want = losses(items(axes)), losses(items(ONE))
    difference = np.abs(got / want - 1).max()
    print(f"{axes}: largest relative difference of {STEPS} losses {difference:.1e}")
    assert difference <= 1e-5
    # What was learnt is hundreds of times what meshes may differ by.
    assert want[-1, 0] < want[0, 0] - 0.01
