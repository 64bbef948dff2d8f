"""Small models trained and scored: what the benchmarks of learning share."""

from __future__ import annotations

import ast
import dataclasses
import json
import pathlib
import re
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import ml_collections

from etc_jax import config as config_lib
from etc_jax.data.windows.cache import WindowCache
from etc_jax.training import workdir
from etc_jax.training.errors import PREEMPTED, RunError
from etc_jax.training.reporting import metrics
from etc_jax.training.run import train_and_evaluate

SPENT = "spent.json"
# Lengths of an input are rounded up to multiples of these.
_LONG, _GLOBAL = 32, 8

_CHANGE = re.compile(r"--config\.([\w.]+)=(.*)", re.DOTALL)


class InterruptedRunError(RunError):
    """A signal ended the run, which saved itself."""

    exit_code = PREEMPTED


@dataclasses.dataclass(frozen=True)
class Spent:
    """What a run took, with compiling and evaluations.

    Attributes:
      wall_secs: from beginning to end.
      cpu_secs: of its process, over all cores, whatever else ran on them.
    """

    wall_secs: float
    cpu_secs: float

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.wall_secs + other.wall_secs, self.cpu_secs + other.cpu_secs)


def small_config(
    train: WindowCache, validation: WindowCache, model: Mapping[str, Any]
) -> ml_collections.ConfigDict:
    """A model of some size, from scratch, at the length of the longest window.

    Args:
      train: to learn from.
      validation: to be evaluated on; of the same task, vocabulary and options.
      model: fields of `EtcConfig`, but the size of the vocabulary.
    """
    config = config_lib.default_config()
    config.model.update(vocab_size=train.header["vocab_size"], **model)
    both = (train.longest, validation.longest)
    read_caches(
        config,
        train,
        validation,
        long_length=_rounded_up(max(x["long"] for x in both), _LONG),
        global_length=_rounded_up(max(x["global"] for x in both), _GLOBAL),
    )
    return config


def read_caches(
    config: ml_collections.ConfigDict,
    train: WindowCache,
    validation: WindowCache,
    **lengths: int,
) -> None:
    """Lets a config learn prepared inputs, at the lengths of its `data`."""
    config.objective.name = train.task
    config.data.update(
        source="windows",
        paths=(str(train.path),),
        validation_paths=(str(validation.path),),
        input_options=train.input_options,
        vocab_size=train.header["vocab_size"],
        **lengths,
    )


def set_training(config: ml_collections.ConfigDict, *, seed: int, steps: int) -> None:
    """How long, and by which steps, a model of this size learns what is invented."""
    config.optimizer.update(learning_rate=1e-3, b2=0.98)
    config.schedule.warmup_steps = steps // 10
    config.train.update(
        num_steps=steps,
        batch_size=32,
        seed=seed,
        log_every_steps=50,
        eval_every_steps=max(1, steps // 4),
    )
    config.checkpoint.update(every_steps=max(1, steps // 2), keep=1)


def _rounded_up(length: int, multiple: int) -> int:
    return -(-length // multiple) * multiple


def changed(
    config: ml_collections.ConfigDict,
    changes: Sequence[str],
    row: Mapping[str, Any] | None = None,
) -> config_lib.Config:
    """The checked config, after the changes of the command line and those of a row.

    Args:
      config: all of it.
      changes: of the form --config.A.B=VALUE; a value is a Python literal or a string.
      row: {dotted path: value}, which has the last word.

    Raises:
      ValueError: if one has another form, names no field, or has a wrong value.
    """
    values = config.to_dict()
    for path, value in {**dict(map(_parsed, changes)), **(row or {})}.items():
        *sections, name = path.split(".")
        inner = values
        for section in sections:
            inner = inner.setdefault(section, {})
            if not isinstance(inner, dict):
                raise ValueError(f"--config.{path}: {section} has no fields")
        inner[name] = value
    return config_lib.from_config_dict(values)


def _parsed(change: str) -> tuple[str, Any]:
    """(dotted path, value) of a change."""
    found = _CHANGE.fullmatch(change)
    if found is None:
        raise ValueError(f"{change!r} is not of the form --config.A.B=VALUE")
    path, value = found.groups()
    try:
        return path, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return path, value


def convert(*argv: str) -> None:
    """Runs `etc-jax convert` in a process of its own.

    There it leaves the accelerator to the process that trains.

    Raises:
      RunError: if it refuses, which says why.
    """
    command = [sys.executable, "-m", "etc_jax", "convert", *argv]
    if code := subprocess.run(command).returncode:
        raise RunError(f"etc_jax.cli.convert {argv[0]} ended with {code}; see above")


def train(config: config_lib.Config, folder: pathlib.Path) -> Spent:
    """Trains a run to its end, unless that was done before.

    One that was interrupted goes on, and what it took until then is counted.

    Raises:
      InterruptedRunError: if a signal ended it.
      RunError: as for `train_and_evaluate`; if the folder is that of another run.
    """
    workdir.check(config, folder)
    before = _spent_before(folder)
    if before is not None and _last_step(folder) == config.train.num_steps:
        return before
    began = _now()
    result = train_and_evaluate(config, folder)
    wall, cpu = (b - a for a, b in zip(began, _now(), strict=True))
    spent = Spent(wall, cpu) + (before or Spent(0.0, 0.0))
    (folder / SPENT).write_text(json.dumps(dataclasses.asdict(spent)))
    if result.exit_code:
        raise InterruptedRunError(f"{folder} was interrupted at step {result.step}")
    return spent


def _now() -> tuple[float, float]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return time.monotonic(), usage.ru_utime + usage.ru_stime


def _spent_before(folder: pathlib.Path) -> Spent | None:
    file = folder / SPENT
    return Spent(**json.loads(file.read_text())) if file.exists() else None


def _last_step(folder: pathlib.Path) -> int:
    """Of the evaluations; -1 if there is none."""
    return max((line["step"] for line in metrics.evaluations(folder)), default=-1)
