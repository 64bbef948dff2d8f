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
  --override_model     With --config.checkpoint.init_from=FOLDER the model, its
                       vocabulary and the size of it are those of the folder, and to say
                       otherwise is an error. With this flag it is not: a window or an
                       activation may be another one than the parameters were made with.
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

import importlib
import logging
import sys
from typing import Any, NoReturn

from absl import app, flags
from absl import logging as absl_logging
from ml_collections import config_flags

from etc_jax import config as config_lib
from etc_jax import config_flag, init_from
from etc_jax.config_variants import said_by
from etc_jax.terminal import say
from etc_jax.training import errors
from etc_jax.training.hosts import distributed
from etc_jax.training.preflight import dry_run as dry_run_lib
from etc_jax.training.run import train_and_evaluate

_CONFIG = config_flags.DEFINE_config_file(
    "config", None, "Python file with get_config().", lock_config=True
)
_WORKDIR = flags.DEFINE_string(
    "workdir", None, "Folder of the run: checkpoints, metrics, report."
)
_DRY_RUN = flags.DEFINE_enum(
    "dry_run",
    None,
    ["compile", "shapes"],
    "Report on the run instead of starting it; alone, the same as =compile.",
)
_TOPOLOGY = flags.DEFINE_string(
    "topology", None, "With --dry_run: TPUs to compile for, such as v5e:4x4."
)
_OVERRIDE_MODEL = flags.DEFINE_boolean(
    "override_model", False, "Fields of the model may differ from checkpoint.init_from."
)
flags.mark_flag_as_required("config")
flags.register_multi_flags_validator(
    ["workdir", "dry_run"],
    lambda given: given["workdir"] or given["dry_run"],
    message="--workdir is needed to train.",
)
flags.register_multi_flags_validator(
    ["topology", "dry_run"],
    lambda given: given["dry_run"] or not given["topology"],
    message="--topology says what to compile for; it needs --dry_run.",
)

_HELP = ("--help", "-help", "-h", "-?", "--helpshort", "-helpshort")


def main(argv: list[str]) -> int:
    """Runs, and turns every known kind of failure into a message and a code."""
    if len(argv) > 1:
        raise app.UsageError(f"unexpected arguments: {argv[1:]}")
    for module in ("etc_jax.models", "etc_jax.objectives"):
        importlib.import_module(module)  # they register what a config can name
    try:
        config = config_lib.from_config_dict(_values())
        if _DRY_RUN.value:
            say(_report(config))
            return errors.DONE
        return train_and_evaluate(config, _WORKDIR.value).exit_code
    except (config_lib.ConfigError, errors.RunError) as error:
        say(f"etc_jax.train: {error}", sys.stderr)
        return error.exit_code


def _values() -> dict[str, Any]:
    """The config with the model that it starts from; see `init_from`."""
    flag = flags.FLAGS["config"]
    file, _, arg = flag.config_filename.partition(":")
    typed = config_flags.get_override_values(flag)
    variants = said_by(lambda names: flag.parser.parse(f"{file}:{names}"), arg)
    return init_from.completed(
        _CONFIG.value.to_dict(),
        said=variants | {path.partition("[")[0] for path in typed},
        override=_OVERRIDE_MODEL.value,
        workdir=_WORKDIR.value,
    )


def _report(config: config_lib.Config) -> str:
    return dry_run_lib.dry_run(
        config,
        _WORKDIR.value,
        compiles=_DRY_RUN.value == "compile",
        topology=_TOPOLOGY.value,
    )


def process_main(argv: list[str]) -> int:
    """`main` as one of the processes of a run; a dry run is no run."""
    if _DRY_RUN.value:
        return main(argv)
    try:
        return distributed.run(lambda: main(argv))
    except errors.UserError as error:
        say(f"etc_jax.train: {error}", sys.stderr)
        return error.exit_code


def _parse(argv: list[str]) -> list[str]:
    if any(argument in _HELP for argument in argv[1:]):
        print(__doc__.strip())
        sys.exit(errors.DONE)
    argv = ["--dry_run=compile" if a in ("--dry_run", "-dry_run") else a for a in argv]
    if problem := config_flag.missing(argv):
        _refuse(problem)
    try:
        rest = flags.FLAGS(argv)
        _CONFIG.value.lock()  # reads the file
        return rest
    except flags.UnrecognizedFlagError as error:
        _refuse(str(error))
    except flags.ValidationError as error:
        _refuse("; ".join(str(error).splitlines()))
    # The config file is code that runs: what it raises may be anything.
    except Exception as error:
        _refuse(config_flag.error_text(error, argv))


def _refuse(problem: str) -> NoReturn:
    say(f"etc_jax.train: {problem}", sys.stderr)
    sys.exit(errors.USER_ERROR)


if __name__ == "__main__":
    # Orbax and jax log much at the level at which this package logs little.
    absl_logging.set_verbosity(absl_logging.WARNING)
    logging.getLogger("etc_jax").setLevel(logging.INFO)
    app.run(process_main, flags_parser=_parse)
