"""A run, station by station: `train_and_evaluate(config, workdir)`.

validate -> data -> mesh -> abstract state -> restore -> compile -> loop -> close.
What is trained is a `Job`, found by the name of the objective; this file knows no
model and no task. What comes before restoring is in plan.py.
"""

import contextlib
import logging
import time
from typing import Any

import jax
from etils import epath

from etc_jax.config import Config, config_hash
from etc_jax.sharding import make_mesh, replicated
from etc_jax.training import workdir as workdir_lib
from etc_jax.training.checkpoint import Checkpointer, Restored
from etc_jax.training.errors import UserError
from etc_jax.training.plan import (
    RULES,
    Plan,
    all_of,
    check_extras,
    make_job,
    make_plan,
    mesh_for,
    on_mesh,
    state_bytes,
    step_flops,
    trace_step,
)
from etc_jax.training.preemption import PreemptionGuard
from etc_jax.training.run import Result, Run, Steps
from etc_jax.training.state import init_state
from etc_jax.training.step import make_eval_step

_LOG = logging.getLogger(__name__)


def train_and_evaluate(config: Config, workdir: epath.PathLike) -> Result:
    """Trains until `train.num_steps`, from the newest checkpoint if there is one.

    Raises:
      UserError: if data, mesh or workdir do not fit the config.
      NotFiniteError: after `train.max_nonfinite_steps` bad updates in a row.
      CorruptCheckpointError: if checkpoints were finished and none is whole.
    """
    folder, mesh, _ = all_of(
        lambda: workdir_lib.claim(config, workdir),
        lambda: mesh_for(config, make_mesh),
        lambda: check_extras(config),
    )
    cache = config.train.compile_cache_dir or folder / "compile_cache"
    with contextlib.ExitStack() as stack:
        stack.enter_context(workdir_lib.compile_cache(cache))
        guard = stack.enter_context(PreemptionGuard())
        # Where a run has begun, its batches have been looked at.
        again = workdir_lib.is_recorded(folder)
        look_at = 1 if again else config.train.check_batches
        job = make_job(config, folder)
        plan = make_plan(config, job, mesh, check_batches=look_at)
        stack.enter_context(on_mesh(mesh))
        checkpointer = stack.enter_context(
            Checkpointer(folder, keep=config.checkpoint.keep)
        )
        _check_space(plan, folder, checkpointer)
        restored = _restore_or_init(plan, checkpointer, folder)
        steps = _compile(plan)
        workdir_lib.record(config, folder)
        run = Run(config, folder, job, mesh, steps, checkpointer, guard, restored)
        with run:
            return run.to_the_end()


def _check_space(plan: Plan, folder: epath.Path, checkpointer: Checkpointer) -> None:
    if checkpointer.last_step == plan.config.train.num_steps:
        return  # nothing more will be saved
    workdir_lib.check_space(
        folder,
        checkpoint_bytes=state_bytes(plan.state),
        keep=plan.config.checkpoint.keep,
    )


def _rngs(config: Config) -> tuple[jax.Array, jax.Array]:
    """The keys of initialisation and of the steps."""
    init_rng, step_rng = jax.random.split(jax.random.key(config.train.seed))
    return init_rng, step_rng


def _check_saved(config: Config, folder: epath.Path, data: dict[str, Any]) -> None:
    """Refuses the checkpoint of another run, where run.json has not done so."""
    step, total = data["step"], config.train.num_steps
    if step > total:
        raise UserError(
            f"the checkpoint in {folder} is of step {step}, beyond train.num_steps = "
            f"{total}; raise train.num_steps or choose another --workdir"
        )
    if data["config_hash"] != config_hash(config):
        raise UserError(
            f"the checkpoint of step {step} in {folder} is of a run with another "
            "config; choose another --workdir, or undo the "
            f"{workdir_lib.changes(data.get('identity', {}), config)}"
        )


def _restore_or_init(
    plan: Plan, checkpointer: Checkpointer, folder: epath.Path
) -> Restored:
    restored = checkpointer.restore(
        plan.state, check_fn=lambda data: _check_saved(plan.config, folder, data)
    )
    if restored is None:
        state = init_state(
            plan.job.init_params, plan.tx, plan.mesh, RULES, _rngs(plan.config)[0]
        )
        return Restored(state, {"step": 0, "skipped_steps": 0, "skipped_in_row": 0})
    _LOG.info("continuing from step %d", restored.data["step"])
    return restored


def _compile(plan: Plan) -> Steps:
    began = time.perf_counter()
    traced = trace_step(plan)
    compiled = traced.lower().compile()
    evaluate = jax.jit(
        make_eval_step(plan.job.loss_fn),
        in_shardings=(jax.tree.map(lambda a: a.sharding, plan.state.params), None),
        out_shardings=replicated(plan.mesh),
    )
    _LOG.info("compiled in %.1f s", time.perf_counter() - began)
    flops, source = step_flops(plan, traced)
    _LOG.info("%.3g FLOPs a step: %s", flops, source)
    rng = jax.device_put(_rngs(plan.config)[1], replicated(plan.mesh))
    return Steps(compiled, evaluate, rng, flops)
