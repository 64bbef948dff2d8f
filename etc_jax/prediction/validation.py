"""The official metrics of a model while it is trained: `data.validation_files`.

The records of the files go the way of `etc-jax evaluate`, from their text to the
official score, through the parameters as they lie on the run's mesh. Every process
makes all inputs and sees all outputs, so that all find the same metrics.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from etc_jax.base import copies, registry
from etc_jax.base.user_cache import as_given
from etc_jax.config import Config
from etc_jax.data.schema import stacked
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.datasets.file_summary import summarised
from etc_jax.datasets.of_config import lengths_of, task_of
from etc_jax.objectives.learners import finetuning
from etc_jax.prediction import work
from etc_jax.prediction.answer_parts import Answer
from etc_jax.prediction.inputs import RecordReader
from etc_jax.prediction.record_stream import through_model
from etc_jax.prediction.runner import BatchRunner
from etc_jax.prediction.scoreboard import of_no_answers, settle
from etc_jax.scoring.result import Scores
from etc_jax.sharding.batch import replicated
from etc_jax.training.errors import UserError
from etc_jax.training.preflight import compiling

PREFIX = "official_"


def _mesh_of(params: Any) -> jax.sharding.Mesh:
    return jax.tree.leaves(params)[0].sharding.mesh


def _named(scores: Scores) -> dict[str, float]:
    return {f"{PREFIX}{k}": float(x) for k, x in scores.metrics.items()}


class _Stopped(Exception):
    """The run is to end: the evaluation is given up."""


@registry.register("validation_score", "official")
class OfficialScore:
    """The official metrics of the records of some files.

    Attributes:
      metric_names: their names; "official_joint_f1" and the like.
      inputs: {name: SHA-256} of the files, and of those that are read beside them.
    """

    def __init__(self, config: Config, tokenizer: Tokenizer):
        """Reads the files once.

        Args:
          config: of the run; `data.validation_files` are read.
          tokenizer: of its data.

        Raises:
          UserError: if the records have no gold answers.
          ValueError, OSError: if a file cannot be read.
        """
        self._config, self._tokenizer = config, tokenizer
        self._task = task_of(config)
        self._files = tuple(map(copies.local, config.data.validation_files))
        self._summary = summarised(self._task, self._files)
        if self._summary.gold is None:
            raise UserError(
                f"data.validation_files: {', '.join(self._files)} have no gold "
                "answers, so there is nothing to score by; name files of development "
                "data"
            )
        read = self._task.all_read(self._files)
        sha256 = zip(read, self._summary.sha256, strict=True)
        self.inputs = {f"held-back file {as_given(str(file))}": x for file, x in sha256}
        self._model = finetuning.of_config(config)
        self._compiled: Callable | None = None
        nothing = of_no_answers(self._task, self._summary).chosen
        self.metric_names = tuple(_named(nothing))

    def __call__(
        self, params: Any, *, should_stop: Callable[[], bool] = lambda: False
    ) -> dict[str, float] | None:
        """The metrics of some parameters; None if it was stopped.

        Where decoding has a threshold, the metrics are those of the best one, as in
        `etc-jax evaluate`.

        Args:
          params: on the mesh of the run.
          should_stop: asked before each batch; see `training.evaluation.Evaluator`.
        """

        def inputs_fn(windows: Any) -> dict[str, Any]:
            if should_stop():
                raise _Stopped
            return stacked(windows)

        steps = work.in_steps(range(len(self._summary.ids)))
        reader = RecordReader(
            self._task,
            self._files,
            tokenizer_json=self._tokenizer.saved(),
            lengths=lengths_of(self._config),
            batches=steps,
            official_quirks=self._config.data.official_quirks,
        )
        runner = self._runner(params)
        try:
            workers = self._config.data.read_workers
            with work.made_ahead(reader, len(steps), workers) as inputs:
                answers = [
                    Answer(record.id, self._predictions(record.windows), None)
                    for record in through_model(inputs, runner, self._decode, inputs_fn)
                ]
        except _Stopped:
            return None
        return self._scores(answers)

    def _outputs(self, params: Any, batch: Any) -> Any:
        if self._compiled is None:
            # Every process reads all outputs, so that all find the same metrics.
            whole = replicated(_mesh_of(params))
            step = jax.jit(self._model.outputs, out_shardings=whole)
            self._compiled = compiling.Announced("the model that answers", step)
        return self._compiled(params, batch)

    def _runner(self, params: Any) -> BatchRunner:
        return BatchRunner(
            self._config,
            self._model,
            params,
            _mesh_of(params),
            self._config.train.batch_size,
            self._outputs,
            self._tokenizer,
        )

    def _decode(self, outputs: Any, windows: Any) -> Any:
        return self._task.decode(outputs, windows, self._task.settings)

    def _predictions(self, windows: list[Any]) -> list[Any]:
        if not windows:
            return [self._task.no_answer] * len(self._task.settings)
        return self._task.predictions(windows)

    def _scores(self, answers: list[Answer]) -> dict[str, float]:
        result = settle(
            self._task,
            answers,
            self._summary.gold,
            settings=self._task.settings,
            unreadable=self._summary.unreadable,
        )
        return _named(result.chosen)
