"""Metrics for TensorBoard, beside the JSON lines; needs the extra `tensorboard`."""

import importlib
from collections.abc import Mapping
from types import ModuleType

from etils import epath

from etc_jax.config import Config
from etc_jax.training.background_writer import BackgroundWriter, Sink
from etc_jax.training.errors import UserError

FOLDER = "tensorboard"


def check(config: Config) -> bool:
    """Whether a run wants it.

    Raises:
      UserError: if it does, and tensorboardX is not installed.
    """
    if config.train.tensorboard:
        _package()
    return config.train.tensorboard


def _package() -> ModuleType:
    try:
        return importlib.import_module("tensorboardX")
    except ImportError as error:
        raise UserError(
            "train.tensorboard is True, but tensorboardX cannot be imported "
            f"({error}); install the extra: pip install -e "
            "'.[tensorboard]', or set it to False"
        ) from error


class _Events(Sink):
    def __init__(self, folder: epath.Path, resume_step: int):
        # Later events are hidden.
        options = {"logdir": str(folder), "purge_step": resume_step + 1}
        self._writer = _package().SummaryWriter(**options)

    def add(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


def writer(
    config: Config, workdir: epath.PathLike, *, resume_step: int = 0
) -> BackgroundWriter:
    """Writes events to `workdir/tensorboard`.

    Args:
      config: of the run.
      workdir: the run's folder.
      resume_step: the step that the run continues from; later events are hidden.
    """
    del config
    folder = epath.Path(workdir) / FOLDER
    return BackgroundWriter("TensorBoard", lambda: _Events(folder, resume_step))
