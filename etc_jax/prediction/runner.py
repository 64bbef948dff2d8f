"""A trained model on the devices of this process: windows in, logits out."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from etc_jax import structure
from etc_jax.base import registry
from etc_jax.config import Config
from etc_jax.config.checks import batch_problem
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.objectives.learners import finetuning
from etc_jax.prediction.model_files import TrainedModel
from etc_jax.sharding import MeshConfig, make_mesh, nearest_multiples
from etc_jax.sharding.batch import local_rows, replicated, to_global
from etc_jax.training.checkpoints.layout import check_same_leaves, leaves_of
from etc_jax.training.errors import UserError
from etc_jax.training.preflight import compiling
from etc_jax.training.preflight.plan import on_mesh

ROWS_PER_DEVICE = 4


class Pending(NamedTuple):
    """Outputs that a device is working on.

    Attributes:
      outputs: of the model, with rows of padding at the end.
      count: rows that count.
    """

    outputs: Any
    count: int


def check(model: TrainedModel) -> None:
    """Refuses a model that cannot predict; quick, nothing is compiled.

    Raises:
      UserError: if it was not fine-tuned, or its parameters or tokenizer are not those
        of its config.
    """
    config, name = model.config, model.config.objective.name
    if config.data.source != "windows":
        data_sets = ", ".join(registry.names("data_set"))
        raise UserError(
            f"{model.folder} was trained on {name!r}, which answers nothing; fine-tune "
            f"it first on one of: {data_sets}"
        )
    ids = model.tokenizer.vocab_size
    if ids != config.data.vocab_size:
        raise UserError(
            f"the tokenizer beside {model.folder} has {ids} ids, but the model was "
            f"trained with data.vocab_size = {config.data.vocab_size}; put back the "
            "tokenizer of the run"
        )
    abstract = jax.eval_shape(_finetuning(model).init, jax.random.key(0))
    # Parameters may be stored in another precision than they begin in.
    wanted, saved = (
        {path: (shape, "") for path, (shape, _) in leaves_of(tree).items()}
        for tree in (abstract, model.params)
    )
    check_same_leaves(saved, wanted, model.folder)


def _finetuning(model: TrainedModel) -> finetuning.Learner:
    return finetuning.of_config(model.config)


@functools.cache
def _compiled(task: finetuning.Learner) -> Callable[[Any, Any], Any]:
    # One function for models of one config: jax compiles it once.
    return jax.jit(task.outputs)


class BatchRunner:
    """A model's outputs for batches of one size, over the devices of a mesh.

    Rows do not know of each other, so that batches may be cut anyhow.

    Attributes:
      batch_size: windows of a batch, at most.
    """

    def __init__(
        self,
        config: Config,
        task: finetuning.Learner,
        params: Any,
        mesh: jax.sharding.Mesh,
        batch_size: int,
        outputs: Callable[[Any, Any], Any],
        tokenizer: Tokenizer,
    ):
        """See the class.

        Args:
          config: of the run that the model is of.
          task: of that config.
          params: on the mesh.
          mesh: of all processes that work together.
          batch_size: a multiple of what the mesh splits rows into.
          outputs: `task.outputs`, compiled, whose results this process can fetch.
          tokenizer: of the model.
        """
        self.batch_size = batch_size
        self._config, self._task, self._mesh = config, task, mesh
        self._params, self._outputs = params, outputs
        self._tokenizer = tokenizer
        self._rows = local_rows(batch_size, mesh)
        self._is_checked = False

    def start(self, inputs: dict[str, Any]) -> Pending:
        """Starts on a batch; the devices work while the caller does other things.

        Args:
          inputs: of `schema.stacked`, with 1 to `batch_size` rows.

        Raises:
          UserError: if the first batch has ids, ties or further inputs that the model
            does not know; any batch, if the tokenizer has tokens that it does not know.
        """
        count = len(jax.tree.leaves(inputs)[0])
        if self._config.data.flat:
            flat = structure.flat(inputs["structure"])
            inputs = {**inputs, "structure": flat}
        if not self._is_checked:
            self._check(inputs)
        local = jax.tree.map(lambda rows: self._padded(rows)[self._rows], inputs)
        with on_mesh(self._mesh):
            batch = to_global(local, self._mesh, self.batch_size)
            return Pending(self._outputs(self._params, batch), count)

    def _padded(self, rows: np.ndarray) -> np.ndarray:
        missing = self.batch_size - len(rows)
        return np.concatenate([rows, np.repeat(rows[-1:], missing, axis=0)])

    def _check(self, inputs: dict[str, Any]) -> None:
        if problems := self._task.problems(inputs):
            raise UserError("the model does not fit the inputs: " + "; ".join(problems))
        # A token without a row may come in any batch.
        self._is_checked = self._tokenizer.vocab_size <= self._config.model.vocab_size

    def fetch(self, pending: Pending) -> Any:
        """The outputs as data sets take them, without padding; waits for them."""
        got = jax.device_get(pending.outputs)
        got = jax.tree.map(lambda x: x[: pending.count], got)
        return self._task.readable(got, self._tokenizer)


class Runner(BatchRunner):
    """The same of a trained model, over all local devices."""

    def __init__(self, model: TrainedModel, batch_size: int):
        """Puts a copy of the parameters on each device.

        Args:
          model: that `check` has passed.
          batch_size: a multiple of the number of devices.

        Raises:
          UserError: if it is none, or so large that it cannot be meant.
        """
        if problem := batch_problem(batch_size, *model.lengths):
            raise UserError(f"--batch_size {problem}")
        devices = jax.local_devices()
        if batch_size < 1 or batch_size % len(devices):
            raise UserError(
                f"--batch_size is {batch_size}; expected a multiple of the "
                f"{len(devices)} devices: {nearest_multiples(batch_size, len(devices))}"
            )
        mesh, task = make_mesh(MeshConfig(), devices), _finetuning(model)
        params = jax.device_put(model.params, replicated(mesh))
        outputs = compiling.Announced("the model", _compiled(task))
        super().__init__(
            model.config, task, params, mesh, batch_size, outputs, model.tokenizer
        )


def rows_for(count: int, asked: int | None) -> int:
    """The batch size for so many windows; `asked` for, or what keeps devices busy."""
    if asked is not None:
        return asked
    devices = len(jax.local_devices())
    return min(full_rows(), devices * max(1, -(-count // devices)))


def full_rows() -> int:
    """The batch size that keeps the devices busy."""
    return len(jax.local_devices()) * ROWS_PER_DEVICE
