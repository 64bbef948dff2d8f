"""Where a run's reports go, beside metrics.jsonl and the terminal."""

from types import ModuleType

from etils import epath

from etc_jax.config import Config
from etc_jax.training.background_writer import BackgroundWriter
from etc_jax.training.reporting import tensorboard, weights_and_biases

# Each has `check` and `writer`; see tensorboard.py.
_KINDS: tuple[ModuleType, ...] = (tensorboard, weights_and_biases)


def check(config: Config) -> None:
    """Refuses what cannot be written, before anything is compiled.

    Raises:
      UserError: if the package of one that is wanted is not installed, or not set up.
    """
    for kind in _KINDS:
        kind.check(config)


def make(
    config: Config, workdir: epath.PathLike, *, resume_step: int
) -> list[BackgroundWriter]:
    """The ones that the config asks for.

    Args:
      config: of the run.
      workdir: the run's folder.
      resume_step: the step that the run continues from.
    """
    return [
        kind.writer(config, workdir, resume_step=resume_step)
        for kind in _KINDS
        if kind.check(config)
    ]
