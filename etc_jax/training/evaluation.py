"""One evaluation: batches are built ahead, sums stay on the device until its end."""

import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

import jax

from etc_jax.sharding.batch import local_rows, to_global
from etc_jax.training.errors import UserError
from etc_jax.training.job import MEAN_LOSS, NO_BATCH, Job, Params, Sums
from etc_jax.training.prefetch import Prefetcher
from etc_jax.training.preflight import compiling
from etc_jax.training.reporting import metrics as metrics_lib

# Batches that may wait for the device: it never waits for the host, and the batches
# that it has been given do not fill its memory.
_IN_FLIGHT = 2
# Sums of so many batches are fetched together; an evaluation rarely has more.
_KEPT = 1024


class Evaluator:
    """Evaluates parameters on all evaluation batches of a job.

    Args:
      job: its `eval_batches`, `loss_weights` and `validation_score` are used.
      mesh: of the run.
      step: the jitted `training.step.make_eval_step`.
      batch_size: rows of a batch over all processes.
      max_batches: of one evaluation; None: all there are.
      ahead: batches that may be built ahead.
    """

    def __init__(
        self,
        job: Job,
        mesh: jax.sharding.Mesh,
        step: Callable,
        *,
        batch_size: int,
        max_batches: int | None,
        ahead: int,
    ):
        self._job, self._mesh = job, mesh
        self._step = compiling.Announced("the evaluation step", step)
        self._size, self._ahead = batch_size, ahead
        self._max_batches = sys.maxsize if max_batches is None else max_batches

    def __call__(
        self, params: Params, *, should_stop: Callable[[], bool] = lambda: False
    ) -> dict[str, float] | None:
        """The mean of each metric over the weights of all batches, and the job's score.

        Args:
          params: on the mesh.
          should_stop: asked before each batch. With several processes it is asked by
            all of them at the same batches and must give all the same answer.

        Returns:
          {name: mean}, summed in float64; None if it was stopped.

        Raises:
          UserError: if there is no batch.
        """
        totals = _Totals()
        with Prefetcher(
            self._maker(), start=0, stop=self._max_batches, ahead=self._ahead
        ) as batches:
            for number in range(self._max_batches):
                if should_stop():
                    return None
                batch = batches.get(number)
                if batch is None:
                    break
                totals.add(self._step(params, batch))
        sums = totals.sums()
        if not sums:
            raise UserError(NO_BATCH)
        means = mean_metrics(sums, self._job.loss_weights)
        if self._job.validation_score is None:
            return means
        score = self._job.validation_score(params, should_stop=should_stop)
        return None if score is None else means | score

    def _maker(self) -> Callable[[int], Any]:
        """Makes the batches of one evaluation, in order, and then None."""
        rows = local_rows(self._size, self._mesh)
        batches = iter(self._job.eval_batches(rows))

        def make(number: int) -> Any:
            del number
            batch = next(batches, None)
            if batch is None:
                return None
            return to_global(batch, self._mesh, self._size)

        return make


class _Totals:
    """Sums of batches: on the device one by one, on the host in float64."""

    def __init__(self):
        self._on_device: list[Sums] = []
        self._sums: dict[str, tuple[float, float]] = {}

    def add(self, sums: Sums) -> None:
        """Takes the sums of a batch that has been started."""
        self._on_device.append(sums)
        if len(self._on_device) > _IN_FLIGHT:
            jax.block_until_ready(self._on_device[-1 - _IN_FLIGHT])
        if len(self._on_device) == _KEPT:
            self._fetch()

    def _fetch(self) -> None:
        for sums in jax.device_get(self._on_device):
            self._sums = metrics_lib.add_sums(self._sums, sums)
        self._on_device = []

    def sums(self) -> dict[str, tuple[float, float]]:
        """Of all batches."""
        self._fetch()
        return self._sums


def mean_metrics(
    sums: Mapping[str, tuple[float, float]],
    loss_weights: Mapping[str, float] = MEAN_LOSS,
) -> dict[str, float]:
    """The mean of each metric, and the "loss".

    Args:
      sums: {name: (sum, weight)} of all batches.
      loss_weights: see `Job.loss_weights`. A term without any target adds nothing; the
        loss is NaN if none has one.
    """
    means = metrics_lib.means(sums)
    terms = [
        factor * means[name]
        for name, factor in loss_weights.items()
        if name in sums and sums[name][1]
    ]
    return {**means, "loss": sum(terms) if terms else math.nan}
