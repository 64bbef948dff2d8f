"""Metrics for TensorBoard, beside the JSON lines; needs the extra `tensorboard`."""

import importlib
import math
import numbers
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import jax
from etils import epath

from etc_jax.training.errors import UserError

FOLDER = "tensorboard"


def require() -> ModuleType:
    """The package tensorboardX.

    Raises:
      UserError: if it is not installed.
    """
    try:
        return importlib.import_module("tensorboardX")
    except ImportError as error:
        raise UserError(
            "train.tensorboard is True, but tensorboardX cannot be imported "
            f"({error}); install the extra: pip install -e "
            "'.[tensorboard]', or set it to False"
        ) from error


class TensorBoard:
    """Writes events to `workdir/tensorboard`, on process 0 alone.

    Args:
      workdir: the run's folder.
      resume_step: the step that the run continues from; later events are hidden.
    """

    def __init__(self, workdir: epath.PathLike, *, resume_step: int = 0):
        self._writer = None
        if jax.process_index() == 0:
            self._writer = require().SummaryWriter(
                str(epath.Path(workdir) / FOLDER), purge_step=resume_step + 1
            )

    def write(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Adds the finite numbers among `values` as `kind/name`."""
        if self._writer is None:
            return
        for name, value in values.items():
            if isinstance(value, numbers.Real) and math.isfinite(value):
                self._writer.add_scalar(f"{kind}/{name}", float(value), step)
        self._writer.flush()

    def close(self) -> None:
        """Ends the file."""
        if self._writer is not None:
            self._writer.close()
