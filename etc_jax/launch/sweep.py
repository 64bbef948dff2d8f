"""The runs of `etc-jax sweep`, each a job of its own."""

from __future__ import annotations

import dataclasses
import hashlib

import jax

from etc_jax.base.terminal import say
from etc_jax.cli import sweep, sweep_table
from etc_jax.cli.sweep_table import FINISHED, SweepRun
from etc_jax.launch.backend import Recipe
from etc_jax.launch.job import Job
from etc_jax.training.errors import DONE, RunError

COMMAND = "sweep"
_DIGITS = 6  # of the end of a job's name, which stays that of its run


class Sweep:
    """A sweep whose runs are jobs.

    Attributes:
      jobs: of the runs that are not finished.

    Args:
      job: with the sweep's command, and what all runs share.

    Raises:
      ValueError, RunError: if one of the runs could not be trained.
    """

    def __init__(self, job: Job):
        # Configs and folders are read here: an accelerator stays free.
        jax.config.update("jax_platforms", "cpu")
        self._args = sweep.parse(job.command[1:])
        self._runs = sweep.planned(self._args)
        chosen = sweep.chosen(self._runs, self._args.only)
        states = {run.name: run.row()["state"] for run in chosen}
        unfinished = [run for run in chosen if states[run.name] != FINISHED]
        self._by_name = {_job_name(job.name, run): run for run in unfinished}
        for name, run in self._by_name.items():
            say(f"launch: {name} is {run.name}: {states[run.name]}")
        self.jobs = [
            dataclasses.replace(job, name=name, command=("train", *run.argv))
            for name, run in self._by_name.items()
        ]
        self._failures: dict[str, str] = {}

    def ended(self, recipe: Recipe, end: int | RunError) -> None:
        """Writes the table anew, now that one of the jobs has ended.

        Args:
          recipe: of the job.
          end: exit code, or why it was given up.
        """
        run = self._by_name[recipe.job.name]
        if end != DONE:
            why = f"exit code {end}" if isinstance(end, int) else str(end)
            self._failures[run.name] = f"{why}; job {recipe.job.name}"
        self.write()

    def write(self) -> str:
        """Writes the table; returns it."""
        name, args = self._args.config, self._args
        return sweep_table.write(args.workdir, name, self._runs, self._failures)


def _job_name(name: str, run: SweepRun) -> str:
    digest = hashlib.sha256(run.name.encode()).hexdigest()
    return f"{name}-{digest[:_DIGITS]}"
