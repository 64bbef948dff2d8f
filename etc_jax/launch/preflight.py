"""What a job would take, before anything is lent: memory, hours, money and disk.

Text and bytes need not be here: the shapes of a batch do not depend on them.
"""

from __future__ import annotations

import dataclasses
import pathlib
import tempfile
from collections.abc import Iterator

import jax

from etc_jax.cli import train
from etc_jax.config import Config
from etc_jax.launch.job import Job
from etc_jax.papers import cost
from etc_jax.training.errors import UserError
from etc_jax.training.preflight import topology
from etc_jax.training.preflight.dry_run import dry_run

_TRAIN = "train"


@dataclasses.dataclass(frozen=True)
class Rates:
    """What is taken for true of the hardware.

    Attributes:
      efficiency: share of the peak that the run reaches.
      price: of an hour of a chip, in any currency; None: not told.
    """

    efficiency: float = cost.EFFICIENCY
    price: float | None = None

    def problems(self) -> Iterator[str]:
        """Yields what is wrong with them, a text each."""
        if not 0 < self.efficiency <= 1:
            yield f"--efficiency is {self.efficiency}; expected above 0, at most 1"
        if self.price is not None and not 0 < self.price < float("inf"):
            yield f"--price is {self.price}; expected a number above 0"


def report(job: Job, rates: Rates) -> str:
    """Of a training command: its config is checked, its step compiled where it can be.

    Args:
      job: that trains.
      rates: of the hardware.

    Raises:
      UserError: with all that is wrong, also if the step does not fit the memory.
    """
    # Shapes are worked out, and nothing is computed: an accelerator stays free.
    jax.config.update("jax_platforms", "cpu")
    if job.command[0] != _TRAIN:
        raise UserError(
            f"preflight is of a training command; {job.command[0]} was given after --"
        )
    argv = list(job.command[1:])
    config = train.config_of(argv)
    times = "\n".join(_takes(job, config, rates))
    name = job.slice.name + (f"*{job.slices}" if job.slices > 1 else "")
    stood_for = None
    if job.slice.name.partition(":")[0] not in topology.KNOWN:
        stood_for = job.slice.kind.device_kind
        name = topology.stand_in(job.slice.devices * job.slices)
        times += (
            f"\n  {stood_for} cannot be compiled for here: what follows is estimated, "
            f"of {name} in its place"
        )
    try:
        with tempfile.TemporaryDirectory(prefix="etc_jax_preflight_") as folder:
            data = config.data.invented(pathlib.Path(folder))
            config = dataclasses.replace(config, data=data)
            return f"{times}\n\n{dry_run(config, topology=name, memory_of=stood_for)}"
    except UserError as error:
        raise UserError(f"{times}\n\n{error}") from error


def _takes(job: Job, config: Config, rates: Rates) -> Iterator[str]:
    took = cost.cost_of(config)
    chips = job.slice.chips * job.slices
    devices = job.slice.devices * job.slices
    kind = job.slice.kind.device_kind
    hours = took.hours(kind, devices, rates.efficiency)
    yield (
        f"Job {job.name}: {chips} chips {kind} on {job.hosts} hosts; {took.steps:,} "
        f"steps of full inputs, {took.flops:.4g} useful FLOPs"
    )
    yield (
        f"  {hours:,.3g} hours ({hours / 24:,.3g} days), {hours * chips:,.3g} of one "
        f"chip, at {rates.efficiency:.0%} of the peak: "
        f"{took.steps / hours / 3600:,.2f} steps a second"
    )
    if rates.price is not None:
        money = hours * chips * rates.price
        yield f"  {money:,.3g} at {rates.price:g} an hour of a chip"
    yield f"  {took.bytes / 1e9:,.3g} GB of checkpoints"
