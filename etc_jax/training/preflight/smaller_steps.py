"""The first change with which a step that is too large fits, found by compiling."""

import dataclasses
import logging
from collections.abc import Iterator

from etils import epath

from etc_jax.training.preflight import device_memory
from etc_jax.training.preflight.device_memory import Memory, TooLarge
from etc_jax.training.preflight.plan import Plan, make_job, on_mesh, trace_step

_LOG = logging.getLogger(__name__)


def compiled_until_one_fits(
    plan: Plan, memory: Memory | TooLarge, limit: float, folder: epath.Path
) -> Iterator[str]:
    """Compiles a training step with fewer rows at once, and then with layers twice.

    What a step with fewer rows needs is worked out from the last one that was compiled;
    a refusal of the compiler tells less than the step would need.

    Args:
      plan: of the step.
      memory: of it, which is too much.
      limit: bytes of a device that programs may use.
      folder: where the job finds its data.

    Yields:
      a line for each compiled step: the config's values, and what it takes. The last
      one fits, if any does.
    """
    policy = getattr(plan.config.model, "remat_policy", None)
    while plan := _smaller(plan, memory, limit, folder):
        changes = f"train.accumulation_steps={plan.config.train.accumulation_steps}"
        if policy != getattr(plan.config.model, "remat_policy", None):
            changes += " model.remat_policy=full"
        _LOG.info("too large; compiling the step with %s ...", changes)
        with on_mesh(plan.mesh):
            compiled = device_memory.compile_step(trace_step(plan).lower())
        if isinstance(compiled, TooLarge):
            memory = compiled
            yield f"{changes}: too much for the compiler"
            continue
        memory = device_memory.of(compiled)
        yield f"{changes}: {device_memory.verdict(memory, limit)}"
        if memory.total <= device_memory.MAX_SHARE * limit:
            return


def _smaller(
    plan: Plan, memory: Memory | TooLarge, limit: float, folder: epath.Path
) -> Plan | None:
    """A plan that needs less; None: there is none."""
    config = plan.config
    if config.train.only_evaluates:
        return None
    needed = device_memory.bytes_needed(plan, memory)
    room = device_memory.MAX_SHARE * limit
    if fewer := device_memory.fewer_rows(plan, needed, room):
        steps = config.train.accumulation_steps * fewer[0]
        train = dataclasses.replace(config.train, accumulation_steps=steps)
        config = dataclasses.replace(config, train=train)
        return dataclasses.replace(plan, config=config)
    if getattr(config.model, "remat_policy", None) not in (None, "full"):
        model = dataclasses.replace(config.model, remat_policy="full")
        config = dataclasses.replace(config, model=model)
        return dataclasses.replace(plan, config=config, job=make_job(config, folder))
    return None
