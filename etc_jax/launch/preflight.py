"""What a job would take, before anything is lent: memory, hours, money and disk.

Text and bytes need not be here: the shapes of a batch do not depend on them.
"""

from __future__ import annotations

import dataclasses
import pathlib
import random
import tempfile
from collections.abc import Iterator

import jax

from etc_jax.cli import train
from etc_jax.config import Config
from etc_jax.data.source_configs import BytesConfig, PlainTextConfig, TextConfig
from etc_jax.launch.job import Job
from etc_jax.papers import cost
from etc_jax.training.errors import UserError
from etc_jax.training.preflight import topology
from etc_jax.training.preflight.dry_run import dry_run

_TRAIN = "train"
_WORDS = 4096  # of the vocabulary of invented text


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
    if job.slice.name.partition(":")[0] not in topology.KNOWN:
        memory = (
            f"Memory: not known before it runs, for {job.slice.kind.device_kind} "
            "cannot be compiled for here"
        )
        return f"{times}\n\n{memory}"
    try:
        with tempfile.TemporaryDirectory(prefix="etc_jax_preflight_") as folder:
            runs = _with_invented_data(config, pathlib.Path(folder))
            return f"{times}\n\n{dry_run(runs, topology=name)}"
    except UserError as error:
        raise UserError(f"{times}\n\n{error}") from error


def _with_invented_data(config: Config, folder: pathlib.Path) -> Config:
    """The config, with text or bytes that are made here in the place of its own."""
    data = config.data
    if isinstance(data, TextConfig):
        draw = random.Random(0)
        words = [f"{draw.getrandbits(40):x}" for _ in range(_WORDS)]
        sentences = [" ".join(draw.choices(words, k=20)) + "." for _ in range(2000)]
        documents = [" ".join(sentences[i : i + 50]) for i in range(0, 2000, 50)]
        common = {x.name for x in dataclasses.fields(TextConfig)} - {"source"}
        values = {name: getattr(data, name) for name in common}
        values |= {"tokenizer": None, "lower_case": None, "part_per_row": False}
        values |= {"vocab_size": min(data.vocab_size, _WORDS), "document_per": "line"}
        parts = {"paths": documents[10:], "validation_paths": documents[:10]}
        for field, part in parts.items():
            (folder / field).write_text("\n".join(part))
            values[field] = (str(folder / field),)
        return dataclasses.replace(config, data=PlainTextConfig(**values))
    if isinstance(data, BytesConfig):
        file = folder / "invented"
        file.write_bytes(bytes(60 * data.input_length))
        return dataclasses.replace(
            config, data=dataclasses.replace(data, paths=(str(file),))
        )
    return config


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
