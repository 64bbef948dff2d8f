"""Flags of the commands that answer: which model, with which options."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
from collections.abc import Collection, Sequence

from etc_jax import config as config_lib
from etc_jax.base import strict_json
from etc_jax.base.local_paths import MODEL, OF_MODEL
from etc_jax.config import Config
from etc_jax.conversion.formats import generation_file
from etc_jax.conversion.formats.generation_file import GenerationFile
from etc_jax.datasets.of_config import task_of
from etc_jax.datasets.options import parsed
from etc_jax.datasets.task import Task
from etc_jax.generation.options import DEFAULTS, GenerationConfig, of_model
from etc_jax.loading.run_results import SCORES
from etc_jax.prediction import runner
from etc_jax.prediction.model_files import TrainedModel, open_model
from etc_jax.training.errors import UserError


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that `opened` reads."""
    parser.add_argument("--model", required=True, type=MODEL, help="folder, see above")
    parser.add_argument("--step", type=int, help="of a run; default: the newest")
    parser.add_argument(
        "--option",
        action="append",
        type=str,
        default=[],
        metavar="NAME=VALUE",
        help="how inputs are made, as in etc-jax prepare, if not as for training; may "
        "come several times",
    )
    parser.add_argument(
        "--thresholds",
        type=OF_MODEL,
        metavar="FOLDER",
        help="an evaluation (--out of etc-jax evaluate) of development data; its best "
        "thresholds are taken, such as the null_threshold of squad",
    )
    parser.add_argument(
        "--generation",
        action="append",
        type=str,
        default=[],
        metavar="NAME=VALUE",
        help="how texts are written, as in etc-jax generate, if not as objective."
        "generation of the run says: num_beams=4; may come several times",
    )


def given_flags(args: argparse.Namespace) -> list[str]:
    """Those of `add_flags` as they were given, for another command."""
    flags = []
    for name in ("model", "step", "option", "thresholds", "generation"):
        values = getattr(args, name)
        values = values if isinstance(values, list) else [values]
        flags += [f"--{name}={value}" for value in values if value is not None]
    return flags


def opened(args: argparse.Namespace) -> tuple[TrainedModel, Task]:
    """The model and its data set; nothing is compiled.

    Raises:
      UserError, ValueError: if there is no such model, or it does not take an option.
      CorruptCheckpointError: if no whole checkpoint is left.
    """
    model = open_model(args.model, args.step)
    config = _with_generation(model.config, args.generation, model.generation)
    model = dataclasses.replace(model, config=config)
    runner.check(model)
    options = args.option
    if args.thresholds is not None:
        option_names = task_of(config).option_values
        options = [*best_thresholds(args.thresholds, option_names), *options]
    return model, task_of(config, options)


def best_thresholds(
    folder: str | os.PathLike, option_names: Collection[str]
) -> list[str]:
    """Options of the best thresholds that an evaluation has found.

    Raises:
      UserError: if there is none that is one of the `option_names` options.
    """
    path = pathlib.Path(folder).expanduser() / SCORES
    try:
        thresholds = strict_json.loads(path.read_text(encoding="utf-8"))[
            "best_thresholds"
        ]
        options = [
            f"{k}={json.dumps(x)}" for k, x in thresholds.items() if k in option_names
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"--thresholds: {path} has no best_thresholds ({error!r:.200}); name the "
            "folder of an evaluation of development data that has some questions "
            "without an answer"
        ) from error
    if not options:
        raise UserError(
            f"--thresholds: {path} has {', '.join(thresholds)}, none of which is an "
            "option of the data set; leave it out"
        )
    return options


def _with_generation(
    config: Config, texts: Sequence[str], file: GenerationFile | None = None
) -> Config:
    """The config with the flag's options, and for others those of the folder.

    Args:
      config: of the model.
      texts: of the flag, such as "num_beams=4".
      file: of the folder, if it has one.

    Raises:
      UserError, ValueError: if the model does not write, or not so.
    """
    section = getattr(config.objective, "generation", None)
    if section is None and texts:
        raise UserError(
            f"--generation is {texts[0]}, but a {config.family} model writes no texts "
            f"for {config.objective.name}; leave it out"
        )
    if texts:
        values = config_lib.to_dict(config)
        values["objective"]["generation"] |= parsed(section, texts)
        config = config_lib.from_config_dict(values)
    if section is None or file is None:
        return config
    generation_file.log_left_out(file)
    # An evaluation draws nothing, and writes one text of each input.
    from_folder = file.fields() | {"temperature": 0.0, "num_texts": 1}
    usual = vars(of_model(config.model).over(DEFAULTS))
    # What would be so anyway is no other model.
    changes = {
        name: value for name, value in from_folder.items() if value != usual[name]
    }
    if not changes:
        return config
    both = config.objective.generation.over(GenerationConfig(**changes))
    objective = dataclasses.replace(config.objective, generation=both)
    return dataclasses.replace(config, objective=objective)
