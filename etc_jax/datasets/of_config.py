"""The data set that the config of a run names."""

from __future__ import annotations

from collections.abc import Sequence

from etc_jax.base import registry
from etc_jax.config import Config
from etc_jax.datasets.task import Task, find


def task_of(config: Config, options: Sequence[str] = ()) -> Task:
    """The data set that a model was trained on.

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


def format_of(config: Config) -> str:
    """The format of the inputs: that of the config, or the first its model takes."""
    return config.data.format or config.model.formats[0]


def lengths_of(config: Config) -> tuple[int, ...]:
    """The lengths of an input, in the order of the sizes of its data set."""
    schema = registry.lookup("format", format_of(config))
    return tuple(schema.lengths_of(config.data).values())


def with_options(config: Config, texts: Sequence[str]) -> Task:
    """The same with these options of inputs alone, whatever the model takes.

    Raises:
      ValueError: if there is no such data set, option or value.
    """
    task = find(config.objective.name).in_format(format_of(config))
    return task.with_texts(texts)
