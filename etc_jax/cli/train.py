"""Trains what a config describes, checks it first, or compiles it for a TPU.

    etc-jax train --config=NAME --workdir=FOLDER         train, or go on training
    etc-jax train --config=NAME --dry_run                check it and compile it
    etc-jax train --config=NAME --dry_run --topology=v5e:4x4
                                                         the same for absent TPUs
    etc-jax train --config=NAME --help                   what it is for; its variants
    etc-jax train --config=NAME --help_config=data       its fields, of one section

NAME is a config of the package, such as quickstart; a Python file, my/config.py, or a
module, my_package.config, with get_config(); or a record in JSON, which is what
--print_config wrote, or runs/mine/run.json. Files and modules are code that runs: read
those of others first. What stands after a colon chooses variants: quickstart:tiny.

--config.FIELD=VALUE changes one value, as often as needed:

    --config.train.num_steps=100 --config.mesh.fsdp=4
    --config.data.paths="('a.jsonl','b.jsonl')"

With checkpoint.init_from the model and its vocabulary are those of that folder. Another
value is an error, unless --override_model allows it: a window or an activation that the
parameters were not trained with. With train.num_steps=0 that model is evaluated.

The same command continues a run that was interrupted. A folder belongs to one config,
and to one run at a time; object stores are refused. With --topology a step that takes
more than 90 % of a chip's memory is refused, with what would help.

Exit codes:
   0  done
   1  a fault of the program, with a traceback
   2  something given is wrong, or does not fit: the message says what to change
   3  the loss is not finite, too many steps in a row
   4  there were checkpoints, and none of them is whole
  17  interrupted and saved: run the same command again
"""

import argparse
import json
import logging
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from absl import logging as absl_logging

from etc_jax import config as config_lib
from etc_jax.base import stores
from etc_jax.base.local_paths import WORKDIR
from etc_jax.base.terminal import say
from etc_jax.cli import (
    command_line,
    flag as config_flag,
    help as config_help,
    next_steps,
)
from etc_jax.recipes import init_from
from etc_jax.training.errors import DONE
from etc_jax.training.hosts import distributed
from etc_jax.training.loop import RunResult
from etc_jax.training.preflight import dry_run as dry_run_lib
from etc_jax.training.reporting import curves
from etc_jax.training.run import train_and_evaluate

_LOG = logging.getLogger(__name__)

_PROG = "etc-jax train"


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = command_line.ArgumentParser(_PROG, __doc__, add_help=False)
    add = parser.add_argument
    add("--help", "-h", action="store_true", help="this text, or that of --config")
    parser.add_config_flag()
    add(
        "--workdir",
        type=WORKDIR,
        help="folder of the run, or its gs:// address",
    )
    add(
        "--dry_run",
        nargs="?",
        const="compile",
        choices=("compile", "shapes"),
        help="start nothing: go through every check, compile the step and report "
        "parameters, FLOPs, layout, memory and collectives; =shapes: without compiling",
    )
    add(
        "--topology",
        type=str,
        help="with --dry_run: TPUs to compile for, such as v5e:4x4 (sizes in chips); "
        "needs the extra tpu_aot",
    )
    add(
        "--override_model",
        action="store_true",
        help="fields of the model may differ from checkpoint.init_from",
    )
    add("--print_config", action="store_true", help="print the config as JSON")
    add(
        "--help_config",
        type=str,
        nargs="?",
        const="",
        metavar="FIELD",
        help="what a field or a section of the config is; alone, all fields",
    )
    args = parser.parse_args(argv)
    if args.help and args.config is None:
        parser.epilog = textwrap.fill(f"Configs: {', '.join(config_flag.names())}", 88)
        parser.print_help()
        parser.exit()
    asks = args.help or args.help_config is not None
    if args.config is None and (args.changes or not asks):
        parser.error("--config is needed, such as --config=quickstart; see --help")
    if args.topology and not args.dry_run:
        parser.error("--topology says what to compile for; it needs --dry_run")
    if not (args.workdir or args.dry_run or args.print_config or asks):
        parser.error("--workdir is needed to train")
    return args


def run(args: argparse.Namespace) -> str | int:
    """What the flags ask for; see the module.

    Returns:
      What is to be printed, or the exit code of a run.

    Raises:
      ValueError, RunError: if something given is wrong.
    """
    if args.help:
        return config_flag.help_of(args.config)
    values = _values(args)
    if args.help_config is not None:
        return config_help.help_of(values, args.help_config)
    values = _completed(values, args)
    if args.print_config:
        text = json.dumps(config_lib.used(values), indent=2, allow_nan=False)
        say(text)
        config_lib.from_config_dict(values)  # it is printed, and may be wrong
        return 0
    if args.dry_run:
        return dry_run(values, args)
    return distributed.run(lambda: _told(lambda: train(values, args)))


def config_of(argv: Sequence[str]) -> config_lib.Config:
    """The config that the command would train with these arguments.

    Raises:
      ValueError, RunError: if something given is wrong.
    """
    args = _parse(argv)
    return config_lib.from_config_dict(_completed(_values(args), args))


def _values(args: argparse.Namespace):
    if args.config is None:
        return config_lib.default_config()
    return config_flag.read(args.config, args.changes)


def _completed(values, args: argparse.Namespace) -> dict[str, Any]:
    """With the model that the config starts from; see `init_from`."""
    values = values.to_dict()
    if not init_from.is_needed(values):
        return values
    name, _, arg = args.config.partition(":")
    variants = config_flag.set_by_variants(
        lambda names: config_flag.read(f"{name}:{names}"), arg
    )
    typed = {change.partition("=")[0] for change in args.changes}
    paths = {path.removeprefix("--config.").partition("[")[0] for path in typed}
    return init_from.completed(
        values,
        explicit=variants | paths,
        override=args.override_model,
        workdir=args.workdir,
    )


def train(values, args: argparse.Namespace) -> int:
    """Trains, as one of the processes of a run; returns the exit code."""
    config = config_lib.from_config_dict(values)
    result = train_and_evaluate(config, args.workdir)
    if distributed.is_first():
        _close(config, args.workdir, result)
    return result.exit_code


def _close(config: config_lib.Config, workdir: str, result: RunResult) -> None:
    """Draws the curves, and says what is there and what to do next."""
    try:
        curves.draw(stores.absolute(workdir))
    except (OSError, ValueError) as error:
        _LOG.warning("no %s: %s", curves.FILE, error)
    if result.exit_code == DONE:
        _LOG.info("done at step %d; all is in %s", result.step, workdir)
        if following := next_steps.of_run(config, workdir):
            _LOG.info("%s", following)
    if failed := result.failed_evaluations:
        _LOG.error("%d evaluations failed: the log above says why", failed)


def dry_run(values, args: argparse.Namespace) -> str:
    """The report on a run that is not started."""
    return dry_run_lib.dry_run(
        config_lib.from_config_dict(values),
        args.workdir,
        compiles=args.dry_run == "compile",
        topology=args.topology,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    args = _parse(argv)
    # Orbax logs much at the level at which this package logs little.
    absl_logging.set_verbosity(absl_logging.WARNING)
    return _told(lambda: run(args))


def _told(work: Callable[[], str | int]) -> int:
    """Runs with every known kind of failure as a message and a code."""
    # Any other error is a fault of the program, whose traceback is needed.
    return command_line.run(_PROG, work, errors=())


if __name__ == "__main__":
    sys.exit(main())
