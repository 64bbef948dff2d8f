"""What a compiled step takes of a device's memory, and what helps if it is too much."""

import dataclasses
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import jax

from etc_jax.sharding.batch import batch_shards
from etc_jax.training.preflight.plan import Plan

MiB = 2**20

# Above this share of the memory a step is refused: XLA's numbers leave out what the
# runtime and batches on their way take.
MAX_SHARE = 0.9


@dataclasses.dataclass(frozen=True)
class Memory:
    """Bytes of one device while the compiled step runs, as XLA plans them.

    Attributes:
      arguments: state and batch.
      outputs: new state and metrics.
      aliased: of the outputs, what takes the place of arguments.
      temporaries: everything between.
      program: the step's own code.
    """

    arguments: int
    outputs: int
    aliased: int
    temporaries: int
    program: int = 0

    @property
    def total(self) -> int:
        persistent = self.arguments + self.outputs - self.aliased
        return persistent + self.temporaries + self.program


@dataclasses.dataclass(frozen=True)
class TooLarge:
    """A step that XLA refused to compile as it does not fit.

    Attributes:
      needed: bytes of one device, at least; None if the message does not give it.
      message: of XLA.
      without_arguments: whether state and batch come on top of `needed`.
    """

    needed: float | None
    message: str
    without_arguments: bool = False


def compile_step(lowered: jax.stages.Lowered) -> jax.stages.Compiled | TooLarge:
    """Compiles, where a program beyond the memory is an answer, not an error."""
    try:
        return lowered.compile()
    except jax.errors.JaxRuntimeError as error:
        if (refused := too_large(error)) is None:
            raise
        return refused


def too_large(error: jax.errors.JaxRuntimeError) -> TooLarge | None:
    """The compiler's refusal of a program beyond the memory; None: another error."""
    message = str(error)
    if "RESOURCE_EXHAUSTED" not in message or "hbm" not in message.lower():
        return None
    for pattern, without_arguments in _REFUSALS.items():
        if match := re.search(pattern, message):
            needed = float(match[1]) * _UNITS[match[2]]
            return TooLarge(needed, message, without_arguments)
    return TooLarge(None, message)


_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
# libtpu's refusals, and whether they leave out arguments.
_REFUSALS = {
    r"Used ([\d.]+)([KMGT]) of [\d.]+[KMGT] hbm": False,
    r"required for HLO temporaries \(([\d.]+)([KMGT])\)": True,
}


def of(compiled: jax.stages.Compiled) -> Memory | None:
    """The memory of a compiled step; None if the backend does not say."""
    stats = compiled.memory_analysis()
    if stats is None:
        return None
    return Memory(
        arguments=stats.argument_size_in_bytes,
        outputs=stats.output_size_in_bytes,
        aliased=stats.alias_size_in_bytes,
        temporaries=stats.temp_size_in_bytes,
        program=stats.generated_code_size_in_bytes,
    )


def device_bytes(tree: Any) -> int:
    """Bytes of one device's share of a tree of shapes with shardings."""
    return sum(
        math.prod(x.sharding.shard_shape(x.shape)) * x.dtype.itemsize
        for x in jax.tree.leaves(tree)
    )


def describe(plan: Plan, memory: Memory, limit: float | None) -> str:
    """The table of a compiled step's memory.

    Args:
      plan: of the step.
      memory: of it.
      limit: bytes of a device that programs may use; None if not known.
    """
    parts = _arguments(plan)
    rows = [*parts.items(), ("tiles", memory.arguments - sum(parts.values()))]
    notes = {
        "batch": f"{_rows_at_once(plan)} rows of it at once",
        "tiles": "what arrays above take more, in whole tiles",
        "outputs": f"of which {memory.aliased / MiB:.1f} in place of arguments",
        "temporaries": "gradients and activations",
    }
    rows += [
        ("outputs", memory.outputs),
        ("temporaries", memory.temporaries),
        ("program", memory.program),
    ]
    lines = [f"Memory of one device: {verdict(memory, limit)}"]
    for name, size in rows:
        note = f"  {notes[name]}" if name in notes else ""
        lines.append(f"{name:15} {size / MiB:12.1f} MiB{note}")
    return "\n  ".join(lines)


def verdict(memory: Memory, limit: float | None) -> str:
    """What a step takes, and whether that fits the bytes of a device."""
    size = f"{memory.total / MiB:.1f} MiB"
    if limit is None:
        return f"{size}; the memory of such a device is not known"
    share = memory.total / limit
    fits = "fits" if share <= MAX_SHARE else f"too much, above {MAX_SHARE:.0%}"
    return f"{size} = {share:.1%} of {limit / MiB:.0f} MiB: {fits}"


def _arguments(plan: Plan) -> dict[str, int]:
    return {
        "parameters": device_bytes(plan.state.params),
        "optimizer state": device_bytes(plan.state.opt_state),
        "batch": device_bytes(plan.batch),
    }


def _rows_at_once(plan: Plan) -> int:
    train = plan.config.train
    pieces = 1 if train.only_evaluates else train.accumulation_steps
    ways = batch_shards(plan.mesh) * pieces
    return train.batch_size // ways


def problems(
    plan: Plan,
    memory: Memory | TooLarge | None,
    limit: float | None,
    *,
    max_share: float = MAX_SHARE,
) -> list[str]:
    """What is wrong if the step does not fit, and what would mend it; else [].

    Args:
      plan: of the step.
      memory: of it.
      limit: bytes of a device that programs may use; None if not known.
      max_share: of the limit.
    """
    room = None if limit is None else max_share * limit
    fits = isinstance(memory, Memory) and (room is None or memory.total <= room)
    if memory is None or fits:
        return []
    needed = bytes_needed(plan, memory)
    size = f"{needed / MiB:.0f} MiB" if needed else "more than there is"
    if isinstance(memory, TooLarge) and needed:
        size += " or more"
    has = ""
    if limit is not None:
        has = f" of a device that has {limit / MiB:.0f} MiB"
        if max_share < 1:
            has += f" (at most {max_share:.0%} of them may be used)"
    helps = remedies(plan, needed, room)
    lines = [f"the step needs {size}{has}. What helps:", *helps]
    if isinstance(memory, TooLarge):
        lines.append(f"(the compiler: {memory.message.splitlines()[0]})")
    return ["\n  ".join(lines)]


def bytes_needed(plan: Plan, memory: Memory | TooLarge) -> float | None:
    """Bytes of a device that a step needs, a refused one at least; None: not known."""
    if isinstance(memory, Memory):
        return memory.total
    if memory.needed is None or not memory.without_arguments:
        return memory.needed
    return memory.needed + sum(_arguments(plan).values())


def fewer_rows(
    plan: Plan, needed: float | None = None, room: float | None = None
) -> tuple[int, str] | None:
    """Into how many parts the rows that a device works on at once are to be cut.

    Args:
      plan: of a step.
      needed: bytes of a device that it needs; None if not known.
      room: bytes that there are; None if not known.

    Returns:
      (parts with which it should fit, what it should need then); None: it is one row.
    """
    sizes, rows = _arguments(plan), _rows_at_once(plan)
    state = sizes["parameters"] + sizes["optimizer state"]
    train = plan.config.train
    gradients = 0 if train.only_evaluates else sizes["parameters"]
    # Where there are microbatches, gradients are those of one and the sum of all.
    sums = 1 + (train.accumulation_steps > 1)
    activations = (needed or 0) - state - gradients * sums

    def after(parts: int) -> float:
        return state + 2 * gradients + activations / parts

    return None if rows == 1 else _choose(rows, after, needed, room)


def _choose(
    count: int,
    after: Callable[[int], float],
    needed: float | None,
    room: float | None,
) -> tuple[int, str]:
    """(divisor of a count, what follows); the smallest that is enough."""
    divisors = [d for d in range(2, count + 1) if count % d == 0]
    if needed is None or room is None:
        return divisors[0], ""
    parts = next((d for d in divisors if after(d) <= room), divisors[-1])
    short = "" if after(parts) <= room else ", still too much"
    return parts, f"; about {after(parts) / MiB:.0f} MiB in all{short}"


def remedies(
    plan: Plan, needed: float | None = None, room: float | None = None
) -> Iterator[str]:
    """Config values that would need less memory, with what they change.

    Args:
      plan: of the step.
      needed: bytes of a device that it needs; None if not known.
      room: bytes that there are; None if not known. Where both are known, the first
        values are told that should fit, with what the step should need then.
    """
    config, sizes = plan.config, _arguments(plan)
    learns = not config.train.only_evaluates
    state = sizes["parameters"] + sizes["optimizer state"]
    if fewer := fewer_rows(plan, needed, room):
        (parts, about), rows = fewer, _rows_at_once(plan)
        smaller = f"train.accumulation_steps={config.train.accumulation_steps * parts}"
        if not learns:
            smaller = f"train.batch_size={config.train.batch_size // parts}"
        yield (
            f"{smaller}: a device works on {rows // parts} rows at once, not {rows}; "
            f"activations shrink too{about}"
        )
    policy = getattr(config.model, "remat_policy", None)
    if learns and policy not in (None, "full"):
        yield (
            f"model.remat_policy='full' instead of {policy!r}: layers keep their input "
            "alone and are computed twice"
        )
    if getattr(config.model, "dtype", None) == "float32":
        yield "model.dtype='bfloat16': activations take half"
    if plan.mesh.devices.flat[0].platform == "gpu":
        yield (
            "XLA_PYTHON_CLIENT_MEM_FRACTION=0.95 in the environment: by itself jax "
            "takes three quarters of a GPU's memory"
        )
    data = plan.mesh.shape["data"]
    if data > 1 and learns and not config.optimizer.shard_state:
        moments = sizes["optimizer state"] / MiB
        yield (
            f"optimizer.shard_state=True: the optimizer state takes about "
            f"{moments / data:.0f} instead of {moments:.0f} MiB"
        )
    if data > 1:
        split = state + (sizes["parameters"] if learns else 0)
        times, about = _choose(
            data, lambda parts: needed - split * (1 - 1 / parts), needed, room
        )
        yield (
            f"mesh.fsdp={plan.mesh.shape['fsdp'] * times} mesh.data={data // times}: "
            f"parameters and optimizer state take about {state / times / MiB:.0f} "
            f"instead of {state / MiB:.0f} MiB, and gradients shrink too{about}"
        )
    else:
        yield "more devices: parameters, optimizer state and rows are split over them"
