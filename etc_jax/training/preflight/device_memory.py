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
      needed: bytes of one device; None if the message does not give it.
      message: of XLA.
    """

    needed: float | None
    message: str


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
    return TooLarge(_needed(message), message)


_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def _needed(message: str) -> float | None:
    """Bytes that libtpu's refusal speaks of; it has more than one form."""
    patterns = (
        r"Used ([\d.]+)([KMGT]) of [\d.]+[KMGT] hbm",
        r"required for [\w ]+\(([\d.]+)([KMGT])\)",
    )
    for pattern in patterns:
        if match := re.search(pattern, message):
            return float(match[1]) * _UNITS[match[2]]
    return None


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
    lines = [f"Memory of one device: {memory.total / MiB:.1f} MiB{_of(memory, limit)}"]
    for name, size in rows:
        note = f"  {notes[name]}" if name in notes else ""
        lines.append(f"{name:15} {size / MiB:12.1f} MiB{note}")
    return "\n  ".join(lines)


def _of(memory: Memory, limit: float | None) -> str:
    if limit is None:
        return "; the memory of such a device is not known"
    share = memory.total / limit
    verdict = "fits" if share <= MAX_SHARE else f"too much, above {MAX_SHARE:.0%}"
    return f" = {share:.1%} of {limit / MiB:.0f} MiB: {verdict}"


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
    if isinstance(memory, TooLarge):
        needed = memory.needed
    elif memory is None or limit is None or memory.total <= max_share * limit:
        return []
    else:
        needed = memory.total
    size = f"{needed / MiB:.0f} MiB" if needed else "more than there is"
    has = ""
    if limit is not None:
        has = f" of a device that has {limit / MiB:.0f} MiB"
        if max_share < 1:
            has += f" (at most {max_share:.0%} of them may be used)"
    room = None if limit is None else max_share * limit
    helps = remedies(plan, needed, room)
    lines = [f"the step needs {size}{has}. What helps:", *helps]
    if isinstance(memory, TooLarge):
        lines.append(f"(the compiler: {memory.message.splitlines()[0]})")
    return ["\n  ".join(lines)]


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
    rows, steps = _rows_at_once(plan), config.train.accumulation_steps
    learns = not config.train.only_evaluates
    state = sizes["parameters"] + sizes["optimizer state"]
    gradients = sizes["parameters"] if learns else 0
    # Where there are microbatches, gradients are those of one and the sum of all.
    activations = (needed or 0) - state - gradients * (1 + (steps > 1))

    def with_fewer_rows(times: int) -> float:
        return state + 2 * gradients + activations / times

    def with_split_weights(times: int) -> float:
        return needed - (state + gradients) * (1 - 1 / times)

    def choose(count: int, after: Callable[[int], float]) -> tuple[int, str]:
        """(divisor of a count, what follows); the smallest that is enough."""
        divisors = [d for d in range(2, count + 1) if count % d == 0]
        if needed is None or room is None:
            return divisors[0], ""
        times = next((d for d in divisors if after(d) <= room), divisors[-1])
        short = "" if after(times) <= room else ", still too much"
        return times, f"; about {after(times) / MiB:.0f} MiB in all{short}"

    if rows > 1:
        fewer, about = choose(rows, with_fewer_rows)
        smaller = f"train.accumulation_steps={steps * fewer}"
        if not learns:
            smaller = f"train.batch_size={config.train.batch_size // fewer}"
        yield (
            f"{smaller}: a device works on {rows // fewer} rows at once, not {rows}; "
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
        times, about = choose(data, with_split_weights)
        yield (
            f"mesh.fsdp={plan.mesh.shape['fsdp'] * times} mesh.data={data // times}: "
            f"parameters and optimizer state take about {state / times / MiB:.0f} "
            f"instead of {state / MiB:.0f} MiB, and gradients shrink too{about}"
        )
    else:
        yield "more devices: parameters, optimizer state and rows are split over them"
