"""Machines that something else starts: which variables each process needs."""

from __future__ import annotations

import argparse

from etc_jax.launch import backend
from etc_jax.launch.job import Step


@backend.register
class Variables(backend.Recipe):
    """Commands for machines of one's own, one each, with the variables of torchrun."""

    name = "variables"
    takes_gpus = True

    @classmethod
    def add_flags(cls, parser: argparse.ArgumentParser) -> None:
        """Adds where the processes meet."""
        add = parser.add_argument
        add("--address", type=str, help="of the first machine, as the others see it")
        add("--port", type=int, default=29500, help="free on the first machine; 29500")

    def problems(self) -> list[str]:
        """What is wrong with the job here, or with flags."""
        wrong = super().problems()
        if not self.args.address:
            wrong.append("--address is needed: a name or number of the first machine")
        return wrong

    def start(self) -> list[Step]:
        """A command for each machine: a process that uses all of its chips."""
        hosts = self.job.hosts
        return [
            Step(
                f"on machine {index} of {hosts}",
                ["env", *self._variables(index, hosts), *self.job.argv],
            )
            for index in range(hosts)
        ]

    def _variables(self, index: int, hosts: int) -> list[str]:
        return [
            f"MASTER_ADDR={self.args.address}",
            f"MASTER_PORT={self.args.port}",
            f"WORLD_SIZE={hosts}",
            f"RANK={index}",
            *(f"{name}={value}" for name, value in self.job.environ.items()),
        ]
