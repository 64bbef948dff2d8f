"""Trains what a config file describes, checks it first, or compiles it for a TPU.

    python -m etc_jax.train --config=FILE --workdir=FOLDER     train, or go on training
    python -m etc_jax.train --config=FILE --dry_run            check it and compile it
    python -m etc_jax.train --config=FILE --dry_run --topology=v5e:4x4
                                                               the same for absent TPUs

Flags:
  --config=FILE        A Python file with get_config(), such as configs/quickstart.py;
                       its head says what it is for. It is code that runs: read those
                       of others first. What stands after a colon chooses a variant:
                       --config=configs/quickstart.py:tiny
  --config.NAME=VALUE  Changes one value, as often as needed:
                         --config.train.num_steps=100 --config.mesh.fsdp=4
                         --config.data.paths="('a.jsonl','b.jsonl')"
                       The fields and their meaning are in etc_jax/config_sections.py
                       and, of the model, in etc_jax/models/. A name that does not exist
                       is an error that names the nearest one.
  --workdir=FOLDER     Where checkpoints, metrics and the report go. The same command
                       continues a run that was interrupted. A folder belongs to one
                       config, and to one run at a time. No object stores.
  --dry_run            Starts nothing. Goes through every check, compiles the step and
                       reports parameters, FLOPs, layout, the memory of a device and
                       what devices exchange. Needs no --workdir, writes nothing.
  --dry_run=shapes     The same without compiling: seconds for any size.
  --topology=NAME      With --dry_run: compiles for TPUs that need not be there, such as
                       v5e:4x4, v5p:2x2x2 or v6e:8x8 (sizes in chips), with the package
                       libtpu: pip install -e '.[tpu_aot]'. A step that takes more than
                       90 % of a chip's memory is refused, with what would help.
  --help, --helpfull   This text; every flag of every module.

Exit codes:
   0  done
   1  a fault of the program, with a traceback
   2  something given is wrong, or does not fit: the message says what to change
   3  the loss is not finite, too many steps in a row
   4  there were checkpoints, and none of them is whole
  17  interrupted and saved: run the same command again

Where to look next: README.md for a first run, configs/ for the papers' runs with their
commands and times, CONTRIBUTING.md for how it works.
"""

import argparse
import json
import logging
import sys
from collections.abc import Callable, Sequence

from etc_jax import command_line, config_flag, config_help
from etc_jax import config as config_lib
from etc_jax.terminal import say
from etc_jax.training.hosts import distributed
from etc_jax.training.preflight import dry_run as dry_run_lib
from etc_jax.training.run import train_and_evaluate

_PROG = "etc-jax train"


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = command_line.ArgumentParser(_PROG, __doc__, add_help=False)
    parser.add_config_flag()
    add = parser.add_argument
    add("--workdir", help="folder of the run: checkpoints, metrics, report")
    add("--dry_run", nargs="?", const="compile", choices=("compile", "shapes"))
    add("--topology", help="with --dry_run: TPUs to compile for, such as v5e:4x4")
    add("--print_config", action="store_true", help="print the config as JSON")
    add("--help_config", nargs="?", const="", metavar="FIELD")
    add("--help", "-h", action="store_true")
    args = parser.parse_args(argv)
    if args.help or args.help_config is not None:
        return args
    if args.config is None:
        parser.error(
            "--config is needed, such as --config=quickstart; --help says more"
        )
    if args.topology and not args.dry_run:
        parser.error("--topology says what to compile for; it needs --dry_run")
    if not (args.workdir or args.dry_run or args.print_config):
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
        return (
            __doc__.strip() if args.config is None else config_flag.help_of(args.config)
        )
    values = _values(args)
    if args.help_config is not None:
        return config_help.help_of(values, args.help_config)
    if args.print_config:
        say(json.dumps(config_lib.used(values), indent=2, allow_nan=False))
        config_lib.from_config_dict(values)
        return 0
    if args.dry_run:
        return dry_run(values, args)
    return distributed.run(lambda: _told(lambda: train(values, args)))


def _values(args: argparse.Namespace):
    if args.config is None:
        return config_lib.default_config()
    return config_flag.read(args.config, args.changes)


def train(values, args: argparse.Namespace) -> int:
    """Trains, as one of the processes of a run; returns the exit code."""
    config = config_lib.from_config_dict(values)
    return train_and_evaluate(config, args.workdir).exit_code


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
    # Orbax and jax log much at the level at which this package logs little.
    logging.basicConfig(format="%(levelname).1s %(asctime)s %(message)s")
    logging.getLogger("etc_jax").setLevel(logging.INFO)
    return _told(lambda: run(args))


def _told(work: Callable[[], str | int]) -> int:
    """Runs with every known kind of failure as a message and a code."""
    # Any other error is a fault of the program, whose traceback is needed.
    return command_line.run(_PROG, work, errors=())


if __name__ == "__main__":
    sys.exit(main())
