"""What rows would take: their commands in order, hours of devices, and disk."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from etc_jax.cli import flag as config_flag
from etc_jax.papers import cost
from etc_jax.papers.chain import Command
from etc_jax.papers.paper_scale import config_of, without_paths
from etc_jax.papers.study import NOT_HERE, PAPER, Runs
from etc_jax.papers.table import Row

_GB = 1e9


@dataclasses.dataclass(frozen=True)
class Hardware:
    """What is planned for.

    Attributes:
      device: kind, of `preflight.hardware`.
      count: of devices.
      efficiency: share of their peak that runs reach.
    """

    device: str
    count: int
    efficiency: float = cost.EFFICIENCY


def text(
    runs: Runs, rows: Sequence[Row], seeds: Sequence[int], hardware: Hardware
) -> str:
    """The commands of rows, those that several of them need once, and their sums.

    Args:
      runs: of the table.
      rows: of it.
      seeds: of each.
      hardware: that hours are of.
    """
    every: dict[str, Command] = {}
    lines, hours, disk = [], 0.0, 0.0
    for row in rows:
        planned = [runs.chain(row, seed) for seed in seeds]
        chains = [x[0] for x in planned if x]
        without = "" if row.commands or chains else NOT_HERE
        lines += [f"# {x}" for x in (row.name, row.note, without) if x]
        lines += row.commands
        for chain in chains:
            for command in chain.commands.values():
                if command.out in every:
                    lines.append(f"# {command.out}: see above")
                    continue
                every[command.out] = command
                if command.name == "train" and runs.scale == PAPER:
                    took = cost.cost_of(config_of(command))
                    hours += took.hours(*dataclasses.astuple(hardware))
                    disk += took.bytes
                    lines += [f"# {_in_words(took, hardware)}", *_grid(command)]
                lines.append(str(command))
        lines.append("")
    trained = sum(x.name == "train" for x in every.values())
    sums = (
        f"{len(every)} commands, {trained} of which train: {hours:,.1f} hours of "
        f"{hardware.count} {hardware.device} at {hardware.efficiency:.0%} of their "
        "peak, on full inputs, without evaluations; "
        f"{disk / _GB:,.1f} GB of checkpoints"
    )
    return "\n".join([*lines, *(f"# {x}" for x in [sums] if hours)])


def _grid(command: Command) -> list[str]:
    """That the paper tried more settings, of which the command is one."""
    name, _, arg = command.config.partition(":")
    get_sweep = getattr(config_flag.module_of(name), "get_sweep", None)
    if get_sweep is None:
        return []
    try:
        count = len(get_sweep(without_paths(arg)))
    except ValueError:  # the paper has settings of other data sets alone
        return []
    return [f"# one of {count} settings of the paper; etc-jax sweep trains them all"]


def _in_words(took: cost.Cost, hardware: Hardware) -> str:
    hours = took.hours(*dataclasses.astuple(hardware))
    return (
        f"{took.parameters:,} parameters, {took.steps:,} steps, "
        f"{took.flops:.3g} FLOPs: {hours:,.1f} hours; {took.bytes / _GB:,.1f} GB"
    )
