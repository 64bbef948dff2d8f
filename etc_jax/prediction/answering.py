"""What a command line says of the model that is to answer, and how it answers."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence

from etc_jax import config as config_lib
from etc_jax.config import Config
from etc_jax.datasets.of_config import task_of
from etc_jax.datasets.options import parsed
from etc_jax.datasets.task import Task
from etc_jax.prediction import runner
from etc_jax.prediction.model_files import TrainedModel, open_model
from etc_jax.training.errors import UserError


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that `opened` reads."""
    parser.add_argument("--model", required=True, help="folder, see above")
    parser.add_argument("--step", type=int, help="of a run; default: the newest")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="how inputs are made, as in etc_jax.prepare, if not as for training; may "
        "come several times",
    )
    parser.add_argument(
        "--generation",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="how texts are written, as in etc_jax.generate, if not as objective."
        "generation of the run says: num_beams=4; may come several times",
    )


def opened(args: argparse.Namespace) -> tuple[TrainedModel, Task]:
    """The model and its data set; nothing is compiled.

    Raises:
      UserError, ValueError: if there is no such model, or it does not take an option.
      CorruptCheckpointError: if no whole checkpoint is left.
    """
    model = open_model(args.model, args.step)
    config = _with_generation(model.config, args.generation)
    model = dataclasses.replace(model, config=config)
    runner.check(model)
    return model, task_of(config, args.option)


def _with_generation(config: Config, texts: Sequence[str]) -> Config:
    if not texts:
        return config
    section = getattr(config.objective, "generation", None)
    if section is None:
        raise UserError(
            f"--generation is {texts[0]}, but a {config.family} model writes no texts "
            f"for {config.objective.name}; leave it out"
        )
    values = config_lib.to_dict(config)
    values["objective"]["generation"] |= parsed(section, texts)
    return config_lib.from_config_dict(values)
