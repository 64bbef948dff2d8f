"""What a run would be: sizes, FLOPs, memory and layout, without a step of it."""

import contextlib
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import jax
from etils import epath

from etc_jax.config import Config
from etc_jax.sharding import path_of
from etc_jax.training import workdir as workdir_lib
from etc_jax.training.errors import UserError
from etc_jax.training.optimizers.groups import trained_only
from etc_jax.training.preflight import (
    collectives,
    device_memory,
    hardware,
    memory_traffic,
    topology as topology_lib,
)
from etc_jax.training.preflight.device_memory import (
    Memory,
    MiB,
    TooLarge,
    device_bytes,
)
from etc_jax.training.preflight.plan import (
    Plan,
    StepFlops,
    all_of,
    check_extras,
    groups_of,
    make_job,
    make_plan,
    mesh_for,
    on_mesh,
    state_bytes,
    step_flops,
    trace_step,
)
from etc_jax.training.preflight.smaller_steps import compiled_until_one_fits


def dry_run(
    config: Config,
    workdir: epath.PathLike | None = None,
    *,
    compiles: bool = True,
    topology: str | None = None,
    memory_of: str | None = None,
) -> str:
    """Goes through the checks of a run up to the compiled step, and reports on it.

    No step is taken and nothing is left in the workdir. The job's data is prepared in
    a temporary folder, unless the workdir holds this run already; `data.cache_dir`
    keeps it.

    Args:
      config: of the run.
      workdir: of the run; None if it is not known yet.
      compiles: whether to compile. Without, the memory of the step is not known: what
        remains takes seconds for any size.
      topology: TPUs to compile for, such as v5e:4x4, in place of the devices that there
        are; see `topology.devices`.
      memory_of: kind of device for which those of `topology` stand, and in whose memory
        the step has to fit; None: they stand for themselves.

    Returns:
      The report, as text.

    Raises:
      UserError: with all that is wrong, also if the step does not fit the memory;
        then with the first change of microbatches and remat that does, compiled.
    """
    mesh, folder, _ = all_of(
        lambda: _mesh(config, topology),
        lambda: None if workdir is None else workdir_lib.check(config, workdir),
        lambda: check_extras(config),
    )
    with _job_folder(folder) as job_folder:
        job = make_job(config, job_folder)
        plan = make_plan(config, job, mesh, check_batches=config.train.check_batches)
        if memory_of is None:
            limit = hardware.memory_limit(plan.mesh.devices.flat[0])
        else:
            limit = hardware.memory_of(memory_of)
        sections, problems, memory = _examine(plan, limit, compiles, memory_of)
        if problems and limit is not None:
            lines = list(compiled_until_one_fits(plan, memory, limit, job_folder))
            if lines:
                problems.append("\n  ".join(["Compiled:", *lines]))
    if folder is not None:
        problems += _space_problems(plan, folder)
    report = "\n\n".join(sections)
    if problems:
        raise UserError(f"{report}\n\nThis run would fail:\n" + "\n".join(problems))
    return report


def _mesh(config: Config, topology: str | None) -> jax.sharding.Mesh:
    if topology is None:
        return mesh_for(config)
    chips = topology_lib.devices(topology)
    return mesh_for(config, lambda axes: topology_lib.mesh_over(axes, chips))


@contextlib.contextmanager
def _job_folder(folder: epath.Path | None) -> Iterator[epath.Path]:
    """Where the job finds its data, or may make it for the while."""
    if folder is not None and workdir_lib.is_recorded(folder):
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="etc_jax_dry_run_") as temporary:
        yield epath.Path(temporary)


def _space_problems(plan: Plan, folder: epath.Path) -> list[str]:
    try:
        workdir_lib.check_space(
            folder,
            checkpoint_bytes=state_bytes(plan.state),
            section=plan.config.checkpoint,
            num_steps=plan.config.train.num_steps,
        )
    except UserError as error:
        return [str(error)]
    return []


def _examine(
    plan: Plan, limit: float | None, compiles: bool, memory_of: str | None
) -> tuple[list[str], list[str], Memory | TooLarge | None]:
    """(sections of the report, what is wrong, what the step takes of a device)."""
    with on_mesh(plan.mesh):
        traced = trace_step(plan)
        began, compiled = time.perf_counter(), None
        if compiles:
            compiled = device_memory.compile_step(traced.lower())
        seconds = time.perf_counter() - began
    flops = step_flops(plan, traced)
    lines = [
        f"compiled in {seconds:.1f} s" if compiles else "not compiled",
        f"{flops.computed:.4g} FLOPs a step over all devices: matrix products of the "
        "traced step, padding and rematerialisation included",
        f"{flops.computed / plan.mesh.size:.4g} of them on each device",
        *_useful(flops),
    ]
    sections = [_sizes(plan), _layout(plan.state.params)]
    if isinstance(compiled, jax.stages.Compiled):
        text = compiled.as_text()
        lines += _times(plan.mesh, flops, memory_traffic.moved_bytes(text), memory_of)
    kind = "Evaluation step" if plan.config.train.only_evaluates else "Step"
    sections.append(f"{kind}: " + "\n  ".join(lines))
    memory = None
    if isinstance(compiled, TooLarge):
        memory = compiled
        text = "Memory of one device: too little, so the step was not compiled"
        sections.append(text)
    elif compiled is not None:
        memory = device_memory.of(compiled)
        if plan.mesh.size > 1:
            sections.append(_collectives_text(text))
        if memory is None:
            sections.append("Memory: this backend does not say")
        else:
            sections.append(device_memory.describe(plan, memory, limit))
    return sections, device_memory.problems(plan, memory, limit), memory


def _useful(flops: StepFlops) -> Iterator[str]:
    if flops.useful is not None:
        share = flops.useful / flops.computed
        yield f"{flops.useful:.4g} that the model asks for, {share:.1%} of them"


def _times(
    mesh: jax.sharding.Mesh, flops: StepFlops, moved: int, memory_of: str | None
) -> Iterator[str]:
    """The roofline (Williams et al. 2009): what a device's two rates allow at best."""
    yield f"{moved / 1e9:.4g} GB that each device reads and writes of its memory"
    kind = mesh.devices.flat[0].device_kind if memory_of is None else memory_of
    sheet = hardware.data_sheet(kind)
    if sheet is None:
        return
    moving = moved / sheet.memory_bandwidth
    computing = flops.computed / mesh.size / sheet.bf16_flops
    yield (
        f"at best {1000 * moving:.4g} ms to move these, and {1000 * computing:.4g} ms "
        f"for the products, in bfloat16, on a {kind}"
    )
    if flops.useful is not None:
        useful = flops.useful / mesh.size / sheet.bf16_flops
        share = useful / max(moving, computing)
        yield f"so at most {share:.1%} of the peak for what the model asks for"


def _collectives_text(text: str) -> str:
    lines = ["Collectives of one step: places in the program, runs, bytes of results"]
    for kind, traffic in collectives.count(text).items():
        lines.append(
            f"{kind:18} {traffic.instructions:6,} {traffic.runs:8,} "
            f"{traffic.result_bytes / MiB:12,.1f} MiB"
        )
    return "\n  ".join(lines if len(lines) > 1 else ["Collectives: none"])


def _sizes(plan: Plan) -> str:
    config, job, state = plan.config, plan.job, plan.state
    kind = plan.mesh.devices.flat[0].device_kind
    count = sum(x.size for x in jax.tree.leaves(state.params))
    axes = " x ".join(f"{name}={size}" for name, size in plan.mesh.shape.items())
    total = job.tokens_per_step * config.train.num_steps
    lines = [
        f"Run: {plan.mesh.size} devices of kind {kind!r}, mesh {axes}",
        f"{count:,} parameters{_learnt(plan)}",
        f"state: {state_bytes(state) / MiB:.1f} MiB, of which one device holds "
        f"{device_bytes(state) / MiB:.1f} MiB; a checkpoint is as large as all of it",
        f"batch: {config.train.batch_size} rows in "
        f"{_counted(config.train.accumulation_steps)}, "
        f"{device_bytes(plan.batch) / MiB:.2f} MiB on one device",
        f"{job.tokens_per_step:,} tokens a step, {total:,} in "
        f"{config.train.num_steps:,} steps",
    ]
    if job.steps_per_epoch is not None:
        epochs = config.train.num_steps / job.steps_per_epoch
        lines.append(
            f"{job.steps_per_epoch:,.0f} steps an epoch, {epochs:.2f} epochs in all"
        )
    return "\n  ".join(lines)


def _learnt(plan: Plan) -> str:
    """How many parameters are learnt, where some are not."""
    if plan.config.train.only_evaluates:
        return ", none of which is learnt"
    groups = groups_of(plan.config)
    if not groups:
        return ""
    learnt = jax.eval_shape(trained_only(groups), plan.state.params)
    count = sum(x.size for x in jax.tree.leaves(learnt))
    return f", {count:,} of which are learnt"


def _layout(params: Any) -> str:
    """A table of the parameters: path, type and shape, how they are split."""
    flat, _ = jax.tree_util.tree_flatten_with_path(params)
    rows = [
        (path_of(path), f"{x.dtype}{list(x.shape)}", _spec(x.sharding))
        for path, x in flat
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    lines = [f"{a:{widths[0]}}  {b:{widths[1]}}  {c}" for a, b, c in rows]
    return "Parameters:\n  " + "\n  ".join(lines)


def _spec(sharding: jax.NamedSharding) -> str:
    """The mesh axes of each dimension, axes of size 1 left out."""

    def one(axes) -> str:
        names = (axes,) if isinstance(axes, str) else axes or ()
        split = [name for name in names if sharding.mesh.shape[name] > 1]
        return "+".join(split) or "-"

    if all(one(axes) == "-" for axes in sharding.spec):
        return "whole on every device"
    return " x ".join(map(one, sharding.spec))


def _counted(microbatches: int) -> str:
    return "one piece" if microbatches == 1 else f"{microbatches} microbatches"
