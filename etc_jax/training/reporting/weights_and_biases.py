"""Metrics for Weights & Biases, beside the JSON lines; needs the extra `wandb`."""

import importlib
import pathlib
import uuid
from collections.abc import Mapping
from types import ModuleType

from etils import epath

from etc_jax.config import Config, to_dict
from etc_jax.training.background_writer import BackgroundWriter, Sink
from etc_jax.training.errors import UserError
from etc_jax.training.hosts import distributed

ID_FILE = "wandb_id.txt"
_OFFLINE = ("offline", "disabled", "dryrun")


def check(config: Config) -> bool:
    """Whether a run wants it.

    Raises:
      UserError: if it does, and wandb is not installed, or knows no account.
    """
    project = config.train.wandb_project
    if project is None:
        return False
    package = _package(project)
    # Asked here: later it would wait for a key to be typed.
    if distributed.is_first() and package.setup().settings.mode not in _OFFLINE:
        if not package.login(prompt=False):
            raise UserError(
                f"train.wandb_project is {project!r}, but wandb knows no "
                "account; run: wandb login, or set WANDB_MODE=offline in the "
                "environment, which keeps the metrics in the run's folder"
            )
    return True


def _package(project: str) -> ModuleType:
    try:
        return importlib.import_module("wandb")
    except ImportError as error:
        raise UserError(
            f"train.wandb_project is {project!r}, but wandb cannot be imported "
            f"({error}); install the extra: pip install -e '.[wandb]', or set it to "
            "None"
        ) from error


class _Run(Sink):
    """A run there, which goes on where this one does."""

    def __init__(self, config: Config, folder: pathlib.Path):
        project = config.train.wandb_project
        package = _package(project)
        id_file = folder / ID_FILE
        if not id_file.exists():
            id_file.write_text(uuid.uuid4().hex[:16])
        self._run = package.init(
            project=project,
            dir=str(folder),
            name=folder.name,
            id=id_file.read_text(),
            resume="allow",
            config=to_dict(config),
            settings=package.Settings(console="off"),
        )
        # Their own count of steps never goes back, as that of a resumed run does.
        self._run.define_metric("*", step_metric="step")

    def add(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log({**values, "step": step})

    def close(self) -> None:
        self._run.finish()


def writer(
    config: Config, workdir: epath.PathLike, *, resume_step: int = 0
) -> BackgroundWriter:
    """Logs to the project that the config names; files lie in `workdir/wandb`.

    Args:
      config: of the run.
      workdir: the run's folder.
      resume_step: not used: what was logged of later steps stays there.
    """
    del resume_step
    folder = pathlib.Path(workdir)
    return BackgroundWriter("Weights & Biases", lambda: _Run(config, folder))
