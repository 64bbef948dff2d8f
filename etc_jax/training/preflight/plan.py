"""What is to be trained, and where: set up and checked before anything is compiled."""

import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
from etils import epath

from etc_jax.base import registry
from etc_jax.base.terminal import listing
from etc_jax.config import Config
from etc_jax.config.kinds import is_objective
from etc_jax.sharding import (
    DEFAULT_RULES,
    MeshConfig,
    Rules,
    logical_rules,
    make_mesh,
    nearest_multiples,
    path_of,
)
from etc_jax.sharding.batch import batch_shardings, batch_shards, local_rows, replicated
from etc_jax.training.errors import UserError
from etc_jax.training.job import HELPERS, NO_BATCH, Job
from etc_jax.training.optimizers.groups import Groups, trained_only
from etc_jax.training.optimizers.optimizer import decay_mask, make_optimizer
from etc_jax.training.optimizers.schedule import make_schedule
from etc_jax.training.preflight import hardware
from etc_jax.training.preflight.flops import matmul_flops
from etc_jax.training.reporting import writers
from etc_jax.training.state import TrainState, abstract_state
from etc_jax.training.step import make_eval_step, make_train_step

_LOG = logging.getLogger(__name__)

RULES = DEFAULT_RULES

# Looking at the first batches ends after this, however many there are to look at.
CHECK_SECS = 20.0
_SHOWN = 10


class StepFlops(NamedTuple):
    """FLOPs of one training step over all devices.

    Attributes:
      useful: what the model asks for, see `Job.useful_flops`; None if not known.
      computed: all matrix products of the traced step, also those of padding and what
        rematerialisation computes again.
    """

    useful: float | None
    computed: float


@dataclasses.dataclass(frozen=True)
class Plan:
    """A run that has passed the checks; nothing is on a device yet.

    Attributes:
      config: of the run.
      job: what is trained.
      mesh: where.
      tx: the optimizer.
      state: the train state, as shapes with shardings.
      batch: of one step over all devices, as shapes with shardings.
      useful_flops: of one step over all devices, the mean of the batches looked at;
        None if not known.
    """

    config: Config
    job: Job
    mesh: jax.sharding.Mesh
    tx: optax.GradientTransformation
    state: TrainState
    batch: Any
    useful_flops: float | None = None


def all_of(*checks: Callable[[], Any]) -> list[Any]:
    """What each check returns; one error with the problems of all that fail.

    Raises:
      UserError: if a check raises it.
    """
    results, problems = [], []
    for check in checks:
        try:
            results.append(check())
        except UserError as error:
            problems.append(str(error))
    if problems:
        raise UserError("\n".join(problems))
    return results


@contextlib.contextmanager
def on_mesh(mesh: jax.sharding.Mesh) -> Iterator[None]:
    """Must be active while the functions of a run are traced.

    Of devices that only stand for others (`preflight.topology`) the shape alone is set:
    what a function computes beside its trace then runs where it always does.
    """
    absent = hardware.is_absent(mesh.devices.flat[0])
    at = jax.sharding.use_abstract_mesh if absent else jax.set_mesh
    with at(mesh.abstract_mesh if absent else mesh), logical_rules(RULES):
        yield


def check_extras(config: Config) -> None:
    """Refuses what needs a package or a file that is not there.

    Files that are missing are named beside what is wrong with mesh and workdir, and not
    only when those have been put right.

    Raises:
      UserError: naming the packages and files.
    """

    def check_files() -> None:
        if problems := list(config.data.missing()):
            raise UserError("\n".join(problems))

    all_of(lambda: writers.check(config), check_files)


def mesh_for(
    config: Config,
    make_mesh_fn: Callable[[MeshConfig], jax.sharding.Mesh] = make_mesh,
) -> jax.sharding.Mesh:
    """The mesh of the config, by default over all devices there are.

    Raises:
      UserError: if the axes do not fit the devices, or the batch the axes.
    """
    try:
        mesh = make_mesh_fn(config.mesh)
    except ValueError as error:
        raise UserError(str(error)) from error
    size, micro = config.train.batch_size, config.train.accumulation_steps
    ways = batch_shards(mesh) * micro
    if size % ways:
        steps = f" x train.accumulation_steps={micro}" if micro > 1 else ""
        raise UserError(
            f"train.batch_size is {size}, not divisible by {ways} (mesh axes "
            f"data={mesh.shape['data']} x fsdp={mesh.shape['fsdp']}{steps}); "
            f"{nearest_multiples(size, ways)}"
        )
    return mesh


def make_job(config: Config, folder: epath.Path) -> Job:
    """The job that the objective names, its parameters in `train.param_dtype`.

    Raises:
      UserError: if its data or model cannot be set up, or it has no evaluation.
    """
    name = config.objective.name
    # What learns a data set is one objective for all of them.
    kind = name if is_objective(name) else "data_set"
    make = registry.lookup("objective", kind)
    try:
        job = make(config, folder)
        some = next(iter(job.eval_batches(np.arange(1))), None)
    except (ValueError, OSError, ImportError) as error:
        raise UserError(f"the data or the model cannot be set up: {error}") from error
    if some is None:
        raise UserError(NO_BATCH)
    return _stored(job, config.train.param_dtype)


def _stored(job: Job, dtype: str) -> Job:
    """The job, with matrices and tables in `dtype`.

    Norms and biases stay as they are: they take little, and near 1 the digits of
    bfloat16 are further apart than their updates are large.
    """
    if dtype == "float32":
        return job

    def init_params(rng: jax.Array) -> Any:
        params = job.init_params(rng)
        return jax.tree.map(
            lambda x, matrix: x.astype(dtype) if matrix else x,
            params,
            decay_mask(params),
        )

    return dataclasses.replace(job, init_params=init_params)


def make_plan(
    config: Config, job: Job, mesh: jax.sharding.Mesh, *, check_batches: int
) -> Plan:
    """Looks at the first batches and lays the state out.

    Args:
      config: of the run.
      job: from `make_job`.
      mesh: from `mesh_for`.
      check_batches: how many batches to look at, from step 0.

    Raises:
      UserError: with all that is wrong with the batches or the layout.
    """
    tx, rules = optimizer_for(config), rules_for(config)
    (batch, useful), state = all_of(
        lambda: _checked_batches(config, job, mesh, check_batches),
        lambda: _abstract_state(job, tx, mesh, rules),
    )
    count = sum(x.size for x in jax.tree.leaves(state.params))
    axes = " x ".join(f"{k}={size}" for k, size in mesh.shape.items() if size > 1)
    _LOG.info(f"{count:,} parameters on {axes or '1 device'}")
    shapes = _abstract_batch(batch, mesh, config.train.batch_size)
    return Plan(config, job, mesh, tx, state, shapes, useful)


def optimizer_for(config: Config) -> optax.GradientTransformation:
    """Optimizer and schedule of the config; without a step, one without a state."""
    if config.train.only_evaluates:
        return optax.identity()
    schedule = make_schedule(
        config.schedule,
        learning_rate=config.optimizer.learning_rate,
        num_steps=config.train.num_steps,
    )
    section = dataclasses.replace(config.optimizer, groups=groups_of(config))
    return make_optimizer(section, schedule)


def groups_of(config: Config) -> Groups:
    """`optimizer.groups`, after rows for the helpers that are frozen."""
    frozen = (helper.name for helper in config.objective.helpers if helper.frozen)
    rows = ((f"{HELPERS}/{name}/.*", 0.0) for name in frozen)
    return (*rows, *config.optimizer.groups)


def rules_for(config: Config) -> Rules:
    """Where the arrays of a run's state lie, by logical axis."""
    if not config.optimizer.shard_state:
        return RULES
    return {**RULES, "moments": "data"}


def _abstract_state(job, tx, mesh, rules) -> TrainState:
    try:
        with on_mesh(mesh):
            return abstract_state(job.init_params, tx, mesh, rules)
    except ValueError as error:
        raise UserError(f"the model does not fit the mesh: {error}") from error


def _checked_batches(config, job, mesh, count: int) -> tuple[Any, float | None]:
    """(the first batch, useful FLOPs of a step); `count` are looked at.

    Where no step is taken, one is: evaluations have batches like it.
    """
    total = config.train.num_steps
    rows = local_rows(config.train.batch_size, mesh)
    began, first, problems, useful = time.perf_counter(), None, [], []
    for step in range(min(count, max(total, 1))):
        if step and time.perf_counter() - began > CHECK_SECS:
            _LOG.warning("looked at %d batches only, as they are slow to make", step)
            break
        batch = _batch_at(job, step, rows)
        first = batch if step == 0 else first
        wrong = [*_wrong_rows(batch, rows), *_other_shapes(first, batch)]
        wrong += [] if wrong else job.check_batch(batch)
        problems = [f"step {step}: {problem}" for problem in wrong]
        if problems:  # the next batches would mostly say the same
            break
        if job.useful_flops is not None and total:
            useful.append(job.useful_flops(batch))
    if problems:
        raise UserError("the first batches are wrong:" + listing(problems, _SHOWN))
    if not useful or None in useful:
        return first, None
    return first, np.mean(useful) * config.train.batch_size / len(rows)


def _batch_at(job: Job, step: int, rows: np.ndarray) -> Any:
    try:
        return job.train_batch(step, rows)
    except (ValueError, OSError) as error:
        raise UserError(f"the batch of step {step} cannot be made: {error}") from error


def _wrong_rows(batch: Any, rows: np.ndarray) -> Iterator[str]:
    for path, leaf in jax.tree_util.tree_flatten_with_path(batch)[0]:
        if np.ndim(leaf) and len(leaf) != len(rows):
            yield (
                f"batch entry {path_of(path)!r} has {len(leaf)} rows, expected "
                f"{len(rows)}"
            )


def _other_shapes(first: Any, batch: Any) -> Iterator[str]:
    """The step is compiled once, so every batch must be like the first one."""

    def described(tree):
        flat, _ = jax.tree_util.tree_flatten_with_path(tree)
        return {
            path_of(k): f"{np.asarray(x).dtype}{list(np.shape(x))}" for k, x in flat
        }

    want, got = described(first), described(batch)
    for path in sorted(want.keys() | got.keys()):
        if want.get(path) != got.get(path):
            yield (
                f"batch entry {path!r} is {got.get(path, 'absent')}, but "
                f"{want.get(path, 'absent')} at step 0"
            )


def _abstract_batch(batch: Any, mesh: jax.sharding.Mesh, size: int) -> Any:
    def one(leaf):
        leaf = np.asarray(leaf)
        shape = (size, *leaf.shape[1:]) if leaf.ndim else ()
        dtype = jax.dtypes.canonicalize_dtype(leaf.dtype)
        return jax.ShapeDtypeStruct(shape, dtype)

    shapes = jax.tree.map(one, batch)
    return jax.tree.map(
        lambda a, s: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=s),
        shapes,
        batch_shardings(shapes, mesh),
    )


def trace_step(plan: Plan) -> jax.stages.Traced:
    """The step of the plan, traced for its shapes and shardings; see `on_mesh`.

    That of training; of a run that takes none, that of the evaluation.
    """
    if plan.config.train.only_evaluates:
        return evaluation_step(plan).trace(plan.state.params, plan.batch)
    whole = replicated(plan.mesh)
    layout = jax.tree.map(lambda a: a.sharding, (plan.state, plan.batch))
    step = jax.jit(
        make_train_step(
            plan.job.loss_fn,
            plan.tx,
            loss_weights=plan.job.loss_weights,
            accumulation_steps=plan.config.train.accumulation_steps,
            dtype=plan.config.model.dtype,
            trained_only=trained_only(groups_of(plan.config)),
        ),
        in_shardings=(*layout, whole),
        out_shardings=(layout[0], whole),
        donate_argnums=0,
    )
    key = jax.eval_shape(lambda: jax.random.key(0))
    return step.trace(plan.state, plan.batch, key)


def evaluation_step(plan: Plan) -> jax.stages.Wrapped:
    """The jitted `step.make_eval_step`, for the layout of the plan."""
    return jax.jit(
        make_eval_step(plan.job.loss_fn),
        in_shardings=(jax.tree.map(lambda a: a.sharding, plan.state.params), None),
        out_shardings=replicated(plan.mesh),
    )


def step_flops(plan: Plan, traced: jax.stages.Traced) -> StepFlops:
    """FLOPs of one step over all devices."""
    return StepFlops(plan.useful_flops, matmul_flops(traced.jaxpr))


def state_bytes(state: TrainState) -> int:
    """Bytes of all arrays of a state, each counted once."""
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(state))
