"""What a run would be: sizes, FLOPs, memory and layout, without a step of it."""

import contextlib
import dataclasses
import math
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import jax
from etils import epath

from etc_jax.config import Config
from etc_jax.sharding import path_of
from etc_jax.training import hardware
from etc_jax.training import workdir as workdir_lib
from etc_jax.training.errors import UserError
from etc_jax.training.plan import (
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

MiB = 2**20


@dataclasses.dataclass(frozen=True)
class Memory:
    """Bytes of one device while the compiled step runs, as XLA plans them.

    Attributes:
      arguments: state and batch.
      outputs: new state and metrics.
      aliased: of the outputs, what takes the place of arguments.
      temporaries: everything between.
    """

    arguments: int
    outputs: int
    aliased: int
    temporaries: int

    @property
    def total(self) -> int:
        return self.arguments + self.outputs - self.aliased + self.temporaries


def dry_run(
    config: Config, workdir: epath.PathLike | None = None, *, compiles: bool = True
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

    Returns:
      The report, as text.

    Raises:
      UserError: with all that is wrong, also if the step does not fit the memory.
    """
    mesh, folder, _ = all_of(
        lambda: mesh_for(config),
        lambda: None if workdir is None else workdir_lib.check(config, workdir),
        lambda: check_extras(config),
    )
    with _job_folder(folder) as place:
        job = make_job(config, place)
        plan = make_plan(config, job, mesh, check_batches=config.train.check_batches)
        sections, problems = _examine(plan, compiles)
    if folder is not None:
        problems += _space_problems(plan, folder)
    report = "\n\n".join(sections)
    if problems:
        raise UserError(f"{report}\n\nThis run would fail:\n" + "\n".join(problems))
    return report


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
            keep=plan.config.checkpoint.keep,
        )
    except UserError as error:
        return [str(error)]
    return []


def _examine(plan: Plan, compiles: bool) -> tuple[list[str], list[str]]:
    """(sections of the report, what is wrong)."""
    with on_mesh(plan.mesh):
        traced = trace_step(plan)
        memory, lines = None, []
        if compiles:
            began = time.perf_counter()
            compiled = traced.lower().compile()
            lines.append(f"compiled in {time.perf_counter() - began:.1f} s")
            memory = _memory(compiled)
            lines.extend(_xla_flops(compiled))
        else:
            lines.append("not compiled")
    flops, source = step_flops(plan, traced)
    lines.append(f"{flops:.4g} FLOPs a step over all devices: {source}")
    limit = hardware.memory_limit(plan.mesh.devices.flat[0])
    step = "Step: " + "\n  ".join(lines)
    sections = [_sizes(plan), _layout(plan.state.params), step]
    if memory is not None:
        sections.append(_memory_text(memory, limit))
    elif compiles:
        sections.append("Memory: this backend does not say")
    return sections, _memory_problems(memory, limit)


def _memory(compiled: jax.stages.Compiled) -> Memory | None:
    stats = compiled.memory_analysis()
    if stats is None:
        return None
    return Memory(
        arguments=stats.argument_size_in_bytes,
        outputs=stats.output_size_in_bytes,
        aliased=stats.alias_size_in_bytes,
        temporaries=stats.temp_size_in_bytes,
    )


def _xla_flops(compiled: jax.stages.Compiled) -> Iterator[str]:
    cost = compiled.cost_analysis() or {}
    if "flops" in cost:
        yield (
            f"{cost['flops']:.4g} FLOPs a step of one device by XLA's count, which "
            "takes the body of a loop once"
        )


def _memory_problems(memory: Memory | None, limit: float | None) -> list[str]:
    if memory is None or limit is None or memory.total <= limit:
        return []
    return [
        f"the step needs {memory.total / MiB:.0f} MiB of a device that has "
        f"{limit / MiB:.0f} MiB; raise train.accumulation_steps, choose a "
        "model.remat_policy that keeps less, or spread over more devices by mesh.fsdp"
    ]


def _memory_text(memory: Memory, limit: float | None) -> str:
    of = "; the memory of such a device is not known"
    if limit is not None:
        of = f" = {memory.total / limit:.1%} of {limit / MiB:.0f} MiB"
    return (
        f"Memory of one device: {memory.total / MiB:.1f} MiB{of}\n"
        f"  arguments   {memory.arguments / MiB:12.1f} MiB\n"
        f"  outputs     {memory.outputs / MiB:12.1f} MiB, of which "
        f"{memory.aliased / MiB:.1f} in place of arguments\n"
        f"  temporaries {memory.temporaries / MiB:12.1f} MiB"
    )


def _device_bytes(tree: Any) -> int:
    """Bytes of one device's share of a tree of shapes with shardings."""
    return sum(
        math.prod(x.sharding.shard_shape(x.shape)) * x.dtype.itemsize
        for x in jax.tree.leaves(tree)
    )


def _sizes(plan: Plan) -> str:
    config, job, state = plan.config, plan.job, plan.state
    kind = plan.mesh.devices.flat[0].device_kind
    count = sum(x.size for x in jax.tree.leaves(state.params))
    axes = " x ".join(f"{name}={size}" for name, size in plan.mesh.shape.items())
    total = job.tokens_per_step * config.train.num_steps
    lines = [
        f"Run: {plan.mesh.size} devices of kind {kind!r}, mesh {axes}",
        f"{count:,} parameters",
        f"state: {state_bytes(state) / MiB:.1f} MiB, of which one device holds "
        f"{_device_bytes(state) / MiB:.1f} MiB; a checkpoint is as large as all of it",
        f"batch: {config.train.batch_size} rows in "
        f"{_counted(config.train.accumulation_steps)}, "
        f"{_device_bytes(plan.batch) / MiB:.2f} MiB on one device",
        f"{job.tokens_per_step:,} tokens a step, {total:,} in "
        f"{config.train.num_steps:,} steps",
    ]
    if job.steps_per_epoch is not None:
        epochs = config.train.num_steps / job.steps_per_epoch
        lines.append(
            f"{job.steps_per_epoch:,.0f} steps an epoch, {epochs:.2f} epochs in all"
        )
    return "\n  ".join(lines)


def _layout(params: Any) -> str:
    """A table of the parameters: path, type and shape, how they are split."""
    flat, _ = jax.tree_util.tree_flatten_with_path(params)
    rows = [
        (path_of(path), f"{x.dtype}{list(x.shape)}", _spec(x.sharding))
        for path, x in flat
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    lines = [f"{a:{widths[0]}}  {b:{widths[1]}}  {c}" for a, b, c in rows]
    return "Parameters (the optimizer's arrays lie as theirs):\n  " + "\n  ".join(lines)


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
