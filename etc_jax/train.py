"""Trains what a config file describes.

    python -m etc_jax.train --config=configs/NAME.py --workdir=FOLDER

The same command continues an interrupted run. Single values are overridden as
--config.train.num_steps=100.

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
from etc_jax.training import errors, loop

_CONFIG = config_flags.DEFINE_config_file(
    "config", None, "Python file with get_config().", lock_config=True
)
_WORKDIR = flags.DEFINE_string(
    "workdir", None, "Folder of the run: checkpoints, metrics, report."
)
flags.mark_flags_as_required(["config", "workdir"])


def main(argv: list[str]) -> int:
    """Runs, and turns every known kind of failure into a message and a code."""
    if len(argv) > 1:
        raise app.UsageError(f"unexpected arguments: {argv[1:]}")
    for module in ("etc_jax.models", "etc_jax.objectives"):
        importlib.import_module(module)  # they register what a config can name
    try:
        config = config_lib.from_config_dict(_CONFIG.value)
        return loop.train_and_evaluate(config, _WORKDIR.value).exit_code
    except (config_lib.ConfigError, errors.RunError) as error:
        print(f"etc_jax.train: {error}", file=sys.stderr)
        return error.exit_code


def _parse(argv: list[str]) -> list[str]:
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
