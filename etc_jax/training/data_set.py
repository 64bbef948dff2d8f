"""The data set that the config of a run names, from a package beside this one."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from etc_jax.config import Config
from etc_jax.training.errors import UserError

# What it has is found by name.
_TASKS = "tasks"


def task_module(name: str) -> Any:
    """A module of the package of data sets.

    Raises:
      UserError: if that package is not there.
    """
    try:
        return importlib.import_module(f"{_TASKS}.{name}")
    except ModuleNotFoundError as error:
        if error.name != _TASKS:
            raise
        raise UserError(
            "the data sets are not installed: they lie in the folder tasks of the "
            "repository; run this there"
        ) from error


def task_of(config: Config, options: Sequence[str] = ()) -> Any:
    """The data set that a model was trained on; see `tasks.task.Task`.

    Args:
      config: of the run, whose inputs are made in the same way.
      options: of inputs, as "stride=256", in place of those of the run.

    Raises:
      ValueError: if there is no such data set, option or value, or the model does not
        take such inputs.
    """
    task = with_options(config, (*config.data.input_options, *options))
    if problem := task.options.problem(config.objective):
        raise ValueError(f"inputs of {task.name}: {problem}")
    return task


def with_options(config: Config, texts: Sequence[str]) -> Any:
    """The same with these options of inputs alone, whatever the model takes.

    Raises:
      ValueError: if there is no such data set, option or value.
    """
    task = task_module("task").find(config.objective.name)
    return task.with_options(task_module("input_options").parsed(task, texts))
