"""Trains what a config file describes.

    python -m etc_jax.train --config=configs/NAME.py --workdir=FOLDER

The same command continues an interrupted run. Single values are overridden as
--config.train.num_steps=100.

With --dry_run it checks everything, compiles the step and says what the run would be
(parameters, FLOPs, memory of a device, layout), and leaves nothing behind;
--dry_run=shapes stops before compiling. A --workdir is not needed then.

Exit codes: 0 done; 2 something given is wrong; 3 the loss is not finite; 4 no usable
checkpoint is left; 17 interrupted and saved, run it again.
"""

import importlib
import logging
import sys

from absl import app, flags
from absl import logging as absl_logging
from ml_collections import config_flags

from etc_jax import config as config_lib
from etc_jax.training import dry_run as dry_run_lib
from etc_jax.training import errors, loop

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
flags.mark_flag_as_required("config")
flags.register_multi_flags_validator(
    ["workdir", "dry_run"],
    lambda given: given["workdir"] or given["dry_run"],
    message="--workdir is needed to train.",
)


def main(argv: list[str]) -> int:
    """Runs, and turns every known kind of failure into a message and a code."""
    if len(argv) > 1:
        raise app.UsageError(f"unexpected arguments: {argv[1:]}")
    for module in ("etc_jax.models", "etc_jax.objectives"):
        importlib.import_module(module)  # they register what a config can name
    try:
        config = config_lib.from_config_dict(_CONFIG.value)
        if _DRY_RUN.value:
            compiles = _DRY_RUN.value == "compile"
            print(dry_run_lib.dry_run(config, _WORKDIR.value, compiles=compiles))
            return errors.DONE
        return loop.train_and_evaluate(config, _WORKDIR.value).exit_code
    except (config_lib.ConfigError, errors.RunError) as error:
        print(f"etc_jax.train: {error}", file=sys.stderr)
        return error.exit_code


def _parse(argv: list[str]) -> list[str]:
    argv = ["--dry_run=compile" if a in ("--dry_run", "-dry_run") else a for a in argv]
    try:
        rest = flags.FLAGS(argv)
        _CONFIG.value.lock()  # reads the file
        return rest
    except (flags.Error, AttributeError, OSError) as error:  # e.g. an unknown key
        print(f"etc_jax.train: {error}", file=sys.stderr)
        sys.exit(errors.USER_ERROR)


if __name__ == "__main__":
    # Orbax and jax tell much at the level at which this package tells little.
    absl_logging.set_verbosity(absl_logging.WARNING)
    logging.getLogger("etc_jax").setLevel(logging.INFO)
    app.run(main, flags_parser=_parse)
