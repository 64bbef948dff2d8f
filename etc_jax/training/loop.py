"""A run, station by station: `train_and_evaluate(config, workdir)`.

validate -> data -> mesh -> abstract state -> restore -> compile -> loop -> close.
What is trained is a `Job`, found by the name of the objective; this file knows no
model and no task.
"""

import contextlib
import logging
import time
from typing import Any

import jax
import numpy as np
import optax
from etils import epath

from etc_jax import registry
from etc_jax.config import Config, config_hash
from etc_jax.sharding import (
    DEFAULT_RULES,
    batch_shardings,
    batch_shards,
    local_rows,
    logical_rules,
    make_mesh,
    nearest_multiples,
    replicated,
    to_global,
)
from etc_jax.training import workdir as workdir_lib
from etc_jax.training.checkpoint import Checkpointer, Restored
from etc_jax.training.errors import UserError
from etc_jax.training.job import Job
from etc_jax.training.optimizer import make_optimizer
from etc_jax.training.preemption import PreemptionGuard
from etc_jax.training.run import Result, Run, Steps
from etc_jax.training.schedule import make_schedule
from etc_jax.training.state import TrainState, abstract_state, init_state
from etc_jax.training.step import make_eval_step, make_train_step

_LOG = logging.getLogger(__name__)

RULES = DEFAULT_RULES


def train_and_evaluate(config: Config, workdir: epath.PathLike) -> Result:
    """Trains until `train.num_steps`, from the newest checkpoint if there is one.

    Raises:
      UserError: if data, mesh or workdir do not fit the config.
      NotFiniteError: after `train.max_nonfinite_steps` bad updates in a row.
      CorruptCheckpointError: if checkpoints were finished and none is whole.
    """
    folder = workdir_lib.claim(config, workdir)
    cache = config.train.compile_cache_dir or folder / "compile_cache"
    with contextlib.ExitStack() as stack:
        stack.enter_context(workdir_lib.compile_cache(cache))
        guard = stack.enter_context(PreemptionGuard())
        job = _make_job(config, folder)
        mesh = _make_mesh(config)
        rows = _checked_batch(config, job, mesh)
        stack.enter_context(jax.set_mesh(mesh))
        stack.enter_context(logical_rules(RULES))
        tx = _make_optimizer(config)
        abstract = _abstract_state(job, tx, mesh)
        checkpointer = stack.enter_context(
            Checkpointer(folder, keep=config.checkpoint.keep)
        )
        restored = _restore_or_init(config, job, tx, mesh, checkpointer, abstract)
        steps = _compile(config, job, tx, mesh, abstract, rows)
        workdir_lib.record(config, folder)
        run = Run(config, folder, job, mesh, steps, checkpointer, guard, restored)
        with run:
            return run.to_the_end()


def _make_job(config: Config, folder: epath.Path) -> Job:
    make = registry.lookup("pretraining", config.objective.name)
    try:
        return make(config, folder)
    except (ValueError, OSError, ImportError) as error:
        raise UserError(f"the data or the model cannot be set up: {error}") from error


def _make_mesh(config: Config) -> jax.sharding.Mesh:
    try:
        mesh = make_mesh(config.mesh)
    except ValueError as error:
        raise UserError(str(error)) from error
    size, ways = config.train.batch_size, batch_shards(mesh)
    if size % ways:
        raise UserError(
            f"train.batch_size is {size}, not divisible by {ways} (mesh axes "
            f"data={mesh.shape['data']} x fsdp={mesh.shape['fsdp']}); "
            f"{nearest_multiples(size, ways)}"
        )
    return mesh


def _checked_batch(config: Config, job: Job, mesh: jax.sharding.Mesh) -> Any:
    rows = local_rows(config.train.batch_size, mesh)
    try:
        batch = job.train_batch(0, rows)
    except (ValueError, OSError) as error:
        raise UserError(f"the first batch cannot be made: {error}") from error
    problems = list(job.check_batch(batch))
    for path, leaf in jax.tree_util.tree_flatten_with_path(batch)[0]:
        if np.ndim(leaf) and len(leaf) != len(rows):
            problems.append(
                f"batch entry {jax.tree_util.keystr(path)} has {len(leaf)} rows, "
                f"expected {len(rows)}"
            )
    if problems:
        raise UserError("the first batch is wrong:\n  " + "\n  ".join(problems))
    return batch


def _make_optimizer(config: Config) -> optax.GradientTransformation:
    schedule = make_schedule(
        config.schedule,
        learning_rate=config.optimizer.learning_rate,
        num_steps=config.train.num_steps,
    )
    return make_optimizer(config.optimizer, schedule)


def _abstract_state(job, tx, mesh) -> TrainState:
    try:
        state = abstract_state(job.init_params, tx, mesh, RULES)
    except ValueError as error:
        raise UserError(f"the model does not fit the mesh: {error}") from error
    count = sum(x.size for x in jax.tree.leaves(state.params))
    _LOG.info("%d parameters on mesh %s", count, dict(mesh.shape))
    return state


def _rngs(config: Config) -> tuple[jax.Array, jax.Array]:
    """The keys of initialisation and of the steps."""
    init_rng, step_rng = jax.random.split(jax.random.key(config.train.seed))
    return init_rng, step_rng


def _restore_or_init(config, job, tx, mesh, checkpointer, abstract) -> Restored:
    restored = checkpointer.restore(abstract)
    if restored is None:
        state = init_state(job.init_params, tx, mesh, RULES, _rngs(config)[0])
        return Restored(state, {"step": 0, "skipped_steps": 0, "skipped_in_row": 0})
    if restored.data["config_hash"] != config_hash(config):
        raise UserError(
            "the checkpoint is of a run with another config; choose another --workdir"
        )
    _LOG.info("continuing from step %d", restored.data["step"])
    return restored


def _compile(config, job, tx, mesh, abstract, rows) -> Steps:
    began = time.perf_counter()
    batch = to_global(rows, mesh, config.train.batch_size)
    shardings = jax.tree.map(lambda a: a.sharding, abstract)
    rng = jax.device_put(_rngs(config)[1], replicated(mesh))
    train = jax.jit(
        make_train_step(job.loss_fn, tx),
        in_shardings=(shardings, batch_shardings(batch, mesh), replicated(mesh)),
        out_shardings=(shardings, replicated(mesh)),
        donate_argnums=0,
    )
    compiled = train.lower(abstract, batch, rng).compile()
    evaluate = jax.jit(
        make_eval_step(job.loss_fn),
        in_shardings=(shardings.params, None),
        out_shardings=replicated(mesh),
    )
    _LOG.info("compiled in %.1f s", time.perf_counter() - began)
    return Steps(compiled, evaluate, rng)
