"""A run, station by station: `train_and_evaluate(config, workdir)`.

validate -> data -> mesh -> abstract state -> restore -> compile -> loop -> close.
What is trained is a `Job`, found by the name of the objective; this file knows no
model and no task. What comes before restoring is in plan.py.
"""

import contextlib
import hashlib
import logging
from typing import Any

import jax
import numpy as np
from etils import epath

from etc_jax.base import extras
from etc_jax.config import Config, config_hash, flat_items, to_dict
from etc_jax.sharding import make_mesh
from etc_jax.sharding.batch import replicated
from etc_jax.training import workdir as workdir_lib
from etc_jax.training.checkpoints import fingerprints, warm_start
from etc_jax.training.checkpoints.checkpointer import Checkpointer, Restored, from_first
from etc_jax.training.checkpoints.retention import check_best_metric
from etc_jax.training.errors import CorruptCheckpointError, UserError
from etc_jax.training.hosts import distributed
from etc_jax.training.hosts.preemption import PreemptionGuard, StopVote
from etc_jax.training.job import Job
from etc_jax.training.loop import Run, RunResult, Steps
from etc_jax.training.preflight import (
    compile_cache,
    compiling,
    device_memory,
    hardware,
)
from etc_jax.training.preflight.plan import (
    Plan,
    all_of,
    check_extras,
    evaluation_step,
    make_job,
    make_plan,
    mesh_for,
    on_mesh,
    state_bytes,
    step_flops,
    trace_step,
)
from etc_jax.training.state import init_state

_LOG = logging.getLogger(__name__)

_PACKAGES = ("etc_jax", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint")
# Fields that may be others on each machine.
_OWN_FIELDS = (
    "data.cache_dir",
    "data.export_cluster",
    "data.export_workers",
    "data.read_workers",
    "train.compile_cache_dir",
    "train.prefetch_batches",
)


def train_and_evaluate(config: Config, workdir: epath.PathLike) -> RunResult:
    """Trains until `train.num_steps`, from the newest checkpoint if there is one.

    With 0 steps it evaluates what it begins with: step 0 is saved, and the last one.

    With several processes (see `distributed`) each calls this with the same config, and
    a workdir on a file system that they share.

    Raises:
      UserError: if data, mesh or workdir do not fit the config, the step does not fit
        the device, processes differ, or another run has the workdir.
      NotFiniteError: after `train.max_nonfinite_steps` bad updates in a row.
      CorruptCheckpointError: if checkpoints were finished and none is whole.
      PeerError: if one of these came up on another process.
    """
    with contextlib.ExitStack() as stack:
        guard = stack.enter_context(PreemptionGuard())
        _check_processes(config, workdir)
        folder, mesh, *_ = distributed.together(
            lambda: all_of(
                lambda: workdir_lib.check(config, workdir),
                lambda: mesh_for(config, make_mesh),
                lambda: check_extras(config),
                lambda: warm_start.check(config, workdir),
            )
        )
        check_owner = distributed.together(
            lambda: stack.enter_context(workdir_lib.claim(config, folder))
        )
        workdir_lib.check_shared(folder)
        stack.enter_context(compile_cache.use(config.train.compile_cache_dir))
        # Where a run has begun, its batches have been looked at.
        again = workdir_lib.is_recorded(folder)
        look_at = 1 if again else config.train.check_batches
        # What process 0 prepares, the others find.
        job = distributed.in_turn(lambda: make_job(config, folder))
        _check_same_data(job)
        plan = distributed.together(
            lambda: make_plan(config, job, mesh, check_batches=look_at)
        )
        stack.enter_context(on_mesh(mesh))
        with workdir_lib.needed(folder):
            checkpointer = stack.enter_context(
                Checkpointer.from_config(config.checkpoint, folder)
            )
            distributed.together(lambda: _check_space(plan, folder, checkpointer))
            restored = _restore_or_init(plan, checkpointer, folder)
        _check_best_metric(plan)
        # Together: over gloo a collective gives up when a process comes 30 s later.
        steps = distributed.together(lambda: _compile(plan))
        with workdir_lib.needed(folder):
            from_first(lambda: workdir_lib.record(config, folder))
        vote = StopVote(guard, mesh)
        run = Run(
            config,
            folder,
            job,
            mesh,
            steps,
            checkpointer,
            vote,
            restored,
            check_owner=check_owner,
        )
        with run:
            return run.to_the_end()


def _check_processes(config: Config, workdir: epath.PathLike) -> None:
    """Refuses to train where the processes would do different things."""
    fields = flat_items(to_dict(config))
    distributed.check_same(
        "packages",
        {name: extras.version(name) or "not installed" for name in _PACKAGES},
        advice="install the same on all machines",
    )
    distributed.check_same(
        "their config",
        {
            **{k: v for k, v in fields.items() if k not in _OWN_FIELDS},
            "config hash": config_hash(config),
            "--workdir": str(workdir),
        },
        advice="start all processes with the same command",
    )


def _check_same_data(job: Job) -> None:
    """Refuses to train on other data in each process: one row is looked at."""

    def look() -> str:
        try:
            batch = job.train_batch(0, np.arange(1))
        except (ValueError, OSError) as error:
            raise UserError(f"the first row cannot be made: {error}") from error
        sha = hashlib.sha256()
        for leaf in jax.tree.leaves(batch):
            sha.update(np.asarray(leaf).tobytes())
        return sha.hexdigest()[:16]

    if distributed.several():
        read = fingerprints.of_job(job)
        inputs = read[fingerprints.FIELD] | read[fingerprints.SCORED]
        distributed.check_same(
            "their data",
            {**inputs, "digest of the first row": distributed.together(look)},
            advice="give all of them the same files, or one data.cache_dir",
        )


def _check_space(plan: Plan, folder: epath.Path, checkpointer: Checkpointer) -> None:
    if checkpointer.last_step == plan.config.train.num_steps:
        return  # nothing more will be saved
    workdir_lib.check_space(
        folder,
        checkpoint_bytes=state_bytes(plan.state),
        section=plan.config.checkpoint,
        num_steps=plan.config.train.num_steps,
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
    if not workdir_lib.is_same_run(data, config):
        raise UserError(
            f"the checkpoint of step {step} in {folder} is of a run with another "
            "config; choose another --workdir, or undo the "
            f"{workdir_lib.changes(data, config)}"
        )


def _restore_or_init(
    plan: Plan, checkpointer: Checkpointer, folder: epath.Path
) -> Restored:
    def check(data: dict[str, Any]) -> None:
        _check_saved(plan.config, folder, data)
        fingerprints.check_same(data, fingerprints.of_job(plan.job))

    restored = checkpointer.restore(plan.state, check_fn=check)
    if restored is None:
        rng, _ = _rngs(plan.config)
        state = init_state(plan.job.init_params, plan.tx, plan.state, rng)
        state = warm_start.start_from(plan, state)
        data = {"step": 0, "skipped_steps": 0, "skipped_in_row": 0}
        return Restored(state, data, evaluation={}, is_saved=False)
    if (inner := int(restored.state.step)) != restored.data["step"]:
        raise CorruptCheckpointError(
            f"the checkpoint of step {restored.data['step']} in {folder} has the state "
            f"of step {inner}; move it away: the one before it is used then"
        )
    is_over = restored.data["step"] == plan.config.train.num_steps
    if is_over and restored.evaluation:
        _LOG.info("the run is finished, at step %d", restored.data["step"])
    else:
        _LOG.info("continuing from step %d", restored.data["step"])
    return restored


def _check_best_metric(plan: Plan) -> None:
    if plan.config.checkpoint.keep_best:
        evaluate = evaluation_step(plan)
        metrics = jax.eval_shape(evaluate, plan.state.params, plan.batch)
        score = plan.job.validation_score
        more = () if score is None else score.metric_names
        check_best_metric(plan.config.checkpoint, {"loss", *metrics, *more})


def _check_memory(
    plan: Plan, compiled: jax.stages.Compiled | device_memory.TooLarge
) -> None:
    refused = isinstance(compiled, device_memory.TooLarge)
    memory = compiled if refused else device_memory.of(compiled)
    limit = hardware.memory_limit(plan.mesh.local_devices[0])
    # What the device itself says that programs may use may be used up.
    if wrong := device_memory.problems(plan, memory, limit, max_share=1.0):
        raise UserError("\n".join(wrong))


def _compile(plan: Plan) -> Steps:
    evaluate = evaluation_step(plan)
    rng = jax.device_put(_rngs(plan.config)[1], replicated(plan.mesh))
    if plan.config.train.only_evaluates:
        return Steps(None, evaluate, rng, None)
    _LOG.info("tracing the training step ...")
    traced = trace_step(plan)
    lowered = traced.lower()
    with compiling.announced("the training step", lowered.as_text()):
        compiled = device_memory.compile_step(lowered)
    _check_memory(plan, compiled)
    flops = step_flops(plan, traced)
    useful = "" if flops.useful is None else f", {flops.useful:.3g} of them useful"
    _LOG.info("%.3g FLOPs a step%s", flops.computed, useful)
    return Steps(compiled, evaluate, rng, flops)
