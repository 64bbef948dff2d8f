"""Mistakes in where a run goes: meshes, hosts, checkpoints and workdirs."""

import dataclasses
import shutil
import types

import jax
import jax.numpy as jnp
import pytest
import toy_job
from bad_input_bench import Bench, mistakes
from checkpoint_states import data_file, flip_a_bit

from etc_jax.sharding import MeshConfig, make_mesh
from etc_jax.training import workdir as workdir_lib
from etc_jax.training.errors import UserError
from etc_jax.training.hosts import distributed

MISTAKES, mistake, plain = mistakes()
of_toy = plain(Bench.toy)
going_on = plain(Bench.again)
unrecorded = plain(Bench.unrecorded)

of_toy(
    10,
    "a mesh of fewer devices than there are",
    "needs 4 devices, but there are 8",
    "mesh.data=-1",
    mesh__data=4,
)


@mistake(11, "a mesh whose axes are Explicit, jax's default", "Auto")
def _(bench):
    kinds = set(make_mesh(MeshConfig()).axis_types)
    assert kinds == {jax.sharding.AxisType.Auto}
    return "(cannot happen) every mesh is made with Auto axes"


@mistake(
    13,
    "a checkpoint of another dtype",
    "params/mlp/wi/kernel: float32[16, 32] in the checkpoint, bfloat16",
    "section model",
)
def _(bench):
    make = toy_job.init_params

    def narrow(c, rng):
        return jax.tree.map(lambda x: x.astype(jnp.bfloat16), make(c, rng))

    bench.monkeypatch.setattr(toy_job, "init_params", narrow)
    return bench.unrecorded()


@mistake(
    14,
    "a bit of a checkpoint has flipped",
    "no usable checkpoint",
    "step 4",
    "checksum",
    "from a copy",
)
def _(bench):
    shutil.copytree(bench.finished, bench.folder / "run")
    flip_a_bit(data_file(bench.folder / "run" / "checkpoints" / "4"))
    return bench.toy()


of_toy(
    17,
    "a mesh of more devices than there are",
    "needs 16 devices, but there are 8",
    mesh__data=4,
    mesh__fsdp=4,
    train__batch_size=16,
)


@mistake(
    18,
    "the same of a parameter that only the layout finds",
    "params/mlp/wi/kernel: dimension 1",
    "is 12, not divisible by 8",
    "nearest valid: 8 or 16",
)
def _(bench):
    config = toy_job.config(mesh__tensor=8, train__num_steps=4)
    object.__setattr__(config.model, "mlp_dim", 12)  # past the config's own check
    return bench.refused(config)


of_toy(
    19,
    "a batch that the devices left for data do not divide",
    "train.batch_size is 12, not divisible by 8",
    "data=8 x fsdp=1",
    "8 or 16",
    train__batch_size=12,
)


@mistake(
    27,
    "a checkpoint of other shapes",
    "params/mlp/wi/kernel: float32[16, 32] in the checkpoint, float32[16, 64] wanted",
    "section model",
)
def _(bench):
    make = toy_job.init_params

    def wider(c, rng):
        return make(dataclasses.replace(c, mlp_dim=64), rng)

    bench.monkeypatch.setattr(toy_job, "init_params", wider)
    return bench.unrecorded()


going_on(
    29,
    "a workdir of another run",
    "holds a run with another config",
    "another --workdir",
    "model.mlp_dim: 32 there, 64 now",
    "optimizer.learning_rate: 0.01 there, 0.02 now",
    optimizer__learning_rate=0.02,
    model__mlp_dim=64,
)
unrecorded(
    29,
    "a checkpoint of another run",
    "undo the 2 changes",
    "model.mlp_dim: 32 there, 64 now",
    "optimizer.name: 'adamw' there, 'lamb' now",
    model__mlp_dim=64,
    optimizer__name="lamb",
)
unrecorded(
    30,
    "a checkpoint beyond the last step",
    "of step 4, beyond train.num_steps = 3",
    "raise train.num_steps",
    train__num_steps=3,
)


@mistake(
    30,
    "a disk without room for the checkpoints",
    "4 checkpoints of",
    "lower checkpoint.keep = 3",
)
def _(bench):
    usage = types.SimpleNamespace(free=1000)
    bench.monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    return bench.toy()


@mistake(
    30,
    "a workdir that cannot be written",
    "cannot be used",
    "Permission denied",
    "another --workdir",
)
def _(bench):
    def read_only(folder):
        raise PermissionError(13, "Permission denied", str(folder))

    bench.monkeypatch.setattr(workdir_lib, "_write_something", read_only)
    return bench.toy()


@mistake(
    30,
    "nothing to evaluate on",
    "no evaluation batch",
    "raise data.validation_fraction",
)
def _(bench):
    bench.monkeypatch.setattr(toy_job, "EVAL_BATCHES", 0)
    return bench.toy()


@mistake(
    30,
    "hosts with different configs",
    "differ in their config",
    "train.seed: 0 on process 0, 7 on process 1",
    "same command",
)
def _(bench):
    def exchange(value):
        yield value
        yield {**value, "train.seed": 7} if "train.seed" in value else value

    bench.monkeypatch.setattr(distributed, "exchange", exchange)
    return bench.toy()


@mistake(
    30,
    "another number of processes than was said",
    "RANK is 4, but WORLD_SIZE is 4",
    "from 0 to WORLD_SIZE - 1",
)
def _(bench):
    names = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
    with pytest.raises(UserError) as caught:
        distributed.detect(dict(zip(names, ("host0", "1234", "4", "4"), strict=True)))
    return str(caught.value)
