"""The loop itself: step, log, evaluate, save, until the end or a signal."""

import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
from etils import epath

from etc_jax.base.whole_files import write_whole
from etc_jax.config import Config, config_hash, identity, to_dict
from etc_jax.sharding.batch import local_rows, to_global
from etc_jax.training.checkpoints import fingerprints
from etc_jax.training.checkpoints.checkpointer import Checkpointer, Restored
from etc_jax.training.errors import DONE, PREEMPTED, NotFiniteError
from etc_jax.training.evaluation import Evaluator
from etc_jax.training.hosts import distributed
from etc_jax.training.hosts.preemption import StopVote
from etc_jax.training.job import Job
from etc_jax.training.prefetch import Prefetcher
from etc_jax.training.preflight import hardware
from etc_jax.training.preflight.plan import StepFlops
from etc_jax.training.reporting import metrics as metrics_lib, writers
from etc_jax.training.reporting.profiling import ProfileWindow
from etc_jax.training.reporting.progress import StepProgress
from etc_jax.training.state import TrainState

_LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class RunResult:
    """How a run ended.

    Attributes:
      exit_code: `DONE` or `PREEMPTED`; other ends are exceptions.
      step: batches consumed.
      state: the train state at the end, on the devices.
      evaluation: metrics of the last evaluation; {} if there was none.
      failed_evaluations: how many have failed, the final report among them.
      report: of `Job.final_report`; {} if there is none.
    """

    exit_code: int
    step: int
    state: TrainState
    evaluation: dict[str, float]
    report: dict[str, Any]
    failed_evaluations: int = 0


@dataclasses.dataclass(frozen=True)
class Steps:
    """The compiled functions of a run, and what its steps need.

    Attributes:
      train: (state, batch, rng) -> (state, metrics); None if no step is taken.
      evaluate: (params, batch) -> sums.
      rng: key of all steps.
      flops: of one training step; None as above.
    """

    train: Callable | None
    evaluate: Callable
    rng: jax.Array
    flops: StepFlops | None


class Run:
    """What the loop carries from step to step; use it with `with`.

    Args:
      config: of the run.
      folder: the workdir.
      job: what is trained.
      mesh: where.
      steps: compiled for the state and the mesh.
      checkpointer: open on `folder`.
      vote: says when to stop early.
      restored: where to begin; `data` has `step`, the counts of skipped steps and,
        once saved, the window of the metrics and the count of failed evaluations.
      check_owner: raises once the workdir is not that of this run any longer.
    """

    def __init__(
        self,
        config: Config,
        folder: epath.Path,
        job: Job,
        mesh: jax.sharding.Mesh,
        steps: Steps,
        checkpointer: Checkpointer,
        vote: StopVote,
        restored: Restored,
        *,
        check_owner: Callable[[], None],
    ):
        self._config, self._folder, self._job, self._mesh = config, folder, job, mesh
        self._steps, self._checkpointer, self._vote = steps, checkpointer, vote
        self._check_owner = check_owner
        self._state: TrainState = restored.state
        self._step = int(restored.data["step"])
        self._saved_step = self._step if restored.is_saved else None
        self._evaluation = restored.evaluation
        self._evaluated_step = self._step if restored.evaluation else None
        self._failed_step: int | None = None
        self._failed_evaluations = restored.data.get("failed_evaluations", 0)
        self._faults: set[str] = set()  # whose tracebacks are in the log
        self._evaluator = Evaluator(
            job,
            mesh,
            steps.evaluate,
            batch_size=config.train.batch_size,
            max_batches=config.train.eval_steps,
            ahead=config.train.prefetch_batches,
        )
        self._began = time.perf_counter()
        self._waited = (0.0, 0.0)  # for data, for checkpoints; at the last report
        self._meter = metrics_lib.StepMetrics(
            skipped_steps=restored.data["skipped_steps"],
            skipped_in_row=restored.data["skipped_in_row"],
            window=restored.data.get("window"),
        )
        total = config.train.num_steps
        self._writers = [
            metrics_lib.MetricsWriter(
                folder,
                resume_step=self._step,
                is_evaluated=self._evaluated_step == self._step,
            ),
            *writers.make(config, folder, resume_step=self._step),
        ]
        self._progress = StepProgress(
            start=self._step,
            total=total,
            eval_every=config.train.eval_every_steps,
            best_metric=config.checkpoint.best_metric,
        )
        self._profile = ProfileWindow(
            folder,
            start=config.train.profile_start_step,
            steps=config.train.profile_steps,
        )
        self._batches = Prefetcher(
            self._make_batch,
            start=self._step,
            stop=total,
            ahead=config.train.prefetch_batches,
        )

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *exc) -> None:
        self._batches.close()
        self._progress.close()
        self._profile.close()
        for writer in self._writers:
            writer.close()

    def to_the_end(self) -> RunResult:
        """Trains until the last step or a signal, which also cuts an evaluation off.

        A run of no steps saves what it begins with, and evaluates it.

        Raises:
          NotFiniteError: after `train.max_nonfinite_steps` bad updates in a row.
        """
        total = self._config.train.num_steps
        if self._step == total and self._saved_step is None:  # no step is taken
            self._save(last=True)
        if self._lacks_evaluation():  # it was cut off, or is all there is to do
            self._evaluate()
        while self._step < total:
            if self._vote.stop:
                return self._preempted()
            self._one_step()
            self._do_what_is_due(last=self._step == total)
        if self._lacks_evaluation() and self._failed_step != self._step:
            return self._preempted()
        self._close_checkpoints()
        report = self._final_report()
        return self._result(DONE, report)

    def _close_checkpoints(self) -> None:
        self._checkpointer.close()
        self._check_owner()  # what was saved is of use where the run's record is

    def _result(self, exit_code: int, report: dict[str, Any]) -> RunResult:
        return RunResult(
            exit_code,
            self._step,
            self._state,
            self._evaluation,
            report,
            self._failed_evaluations,
        )

    def _make_batch(self, step: int) -> Any:
        size = self._config.train.batch_size
        rows = self._job.train_batch(step, local_rows(size, self._mesh))
        return to_global(rows, self._mesh, size)

    def _one_step(self) -> None:
        self._check_owner()
        batch = self._batches.get(self._step)
        self._profile.before(self._step, self._state)
        self._state, metrics = self._steps.train(self._state, batch, self._steps.rng)
        self._step += 1
        self._profile.after(self._step, self._state)
        self._meter.add(self._step, metrics)
        self._vote.after_step()
        self._stop_if_not_finite()
        self._checkpointer.poll()
        self._progress.advance()

    def _do_what_is_due(self, *, last: bool) -> None:
        def due(every: int) -> bool:
            return last or self._step % every == 0

        config = self._config
        if due(config.train.log_every_steps):
            self._log()
        # Saved first: an evaluation may be long, and whoever ends the run impatient.
        if due(config.checkpoint.every_steps):
            self._save(last=last)
        if self._lacks_evaluation():
            self._evaluate()

    def _lacks_evaluation(self) -> bool:
        """Whether the evaluation that is due at this step is not finished."""
        section = self._config.train
        due = self._step == section.num_steps or (
            self._step and self._step % section.eval_every_steps == 0
        )
        return bool(due) and self._evaluated_step != self._step

    def _stop_if_not_finite(self) -> None:
        in_row = self._meter.skipped_in_row
        if in_row < self._config.train.max_nonfinite_steps:
            return
        bad = self._meter.last_step  # before the report, which looks at a later one
        where = "all of them before this start"
        if bad is not None:
            where = (
                f"the last at step {bad} (batch {bad - 1}, counted from 0); the last "
                f"good step is {bad - in_row}"
            )
        self._log()
        self._checkpointer.wait()  # all processes are here: the same steps are bad
        saved = "there is no checkpoint yet"
        if (good := self._checkpointer.last_step) is not None:
            folder = self._folder / "checkpoints" / str(good)
            saved = f"the last good checkpoint is {folder}"
        raise NotFiniteError(
            f"{in_row} updates in a row were not finite, {where}; {saved}. Look at the "
            "data of these steps, lower "
            "optimizer.learning_rate, or raise train.max_nonfinite_steps"
        )

    def _log(self) -> None:
        self._meter.flush()
        waited = (self._batches.waited_secs, self._checkpointer.blocked_secs)
        values = self._meter.take(tokens_per_step=self._job.tokens_per_step)
        secs = values.pop("secs")
        data, saves = (
            now - before for now, before in zip(waited, self._waited, strict=True)
        )
        self._waited = waited
        self._report(
            "train",
            {
                **values,
                "data_wait_share": data / secs,
                "checkpoint_share": saves / secs,
                "failed_saves": self._checkpointer.failed_saves,
                "failed_evaluations": self._failed_evaluations,
                **self._device_metrics(values["tokens_per_s"]),
            },
        )

    def _device_metrics(self, tokens_per_s: float) -> dict[str, float]:
        """Shares of the peak FLOPs, and the memory; what is not known is left out.

        `mfu` is the share of what the model asks for, `hfu` of all that is computed
        (Chowdhery et al. 2022, appendix B). The peak is of dense bfloat16 products,
        whatever the dtype of the run.
        """
        devices = list(self._mesh.devices.flat)
        measured = {}
        if peak := hardware.peak_flops(devices):
            steps_per_s = tokens_per_s / self._job.tokens_per_step
            for name, flops in zip(("mfu", "hfu"), self._steps.flops, strict=True):
                if flops is not None:
                    measured[name] = flops * steps_per_s / peak
        if (used := hardware.peak_memory(devices)) is not None:
            measured["peak_memory_bytes"] = used
        return measured

    def _report(self, kind: str, values: dict[str, Any]) -> None:
        values = {**values, "wall_secs": time.perf_counter() - self._began}
        for writer in self._writers:
            writer.write(kind, self._step, values)
        self._progress.report(kind, self._step, values)

    def _evaluate(self) -> None:
        self._meter.flush()
        began, evaluation = time.perf_counter(), None
        with self._outlived("EVALUATION"):
            evaluation = self._evaluator(
                self._state.params, should_stop=self._voted_to_stop
            )
        if self._failed_step == self._step:
            secs = time.perf_counter() - began
            failed = {"failed_evaluations": self._failed_evaluations}
            self._report("eval", {**failed, "eval_secs": secs})
            self._meter.exclude(secs)
            return
        if evaluation is None:
            _LOG.warning("the evaluation of step %d is cut off", self._step)
            return
        self._evaluation, self._evaluated_step = evaluation, self._step
        secs = time.perf_counter() - began
        self._report("eval", {**evaluation, "eval_secs": secs})
        if self._saved_step == self._step:
            self._checkpointer.add_evaluation(self._step, evaluation)
        self._meter.exclude(secs)

    @contextlib.contextmanager
    def _outlived(self, what: str) -> Iterator[None]:
        """Goes on after an error in what only looks at the state, and counts it.

        The state is whole, was saved first if that was due, and the next evaluation may
        succeed. The log has each fault with its traceback once, and a line each time.
        Of several processes one may fail while the others wait for it: that ends the
        run. So does a failure where no step is taken, which is for looking alone.
        """
        try:
            yield
        except Exception as error:
            if distributed.several() or self._config.train.only_evaluates:
                raise
            fault = f"{type(error).__name__}: {error}"
            self._failed_step = self._step
            self._failed_evaluations += 1
            _LOG.error(
                "%s FAILED at step %d: %s. The run goes on; %d failed so far",
                what,
                self._step,
                fault,
                self._failed_evaluations,
                exc_info=fault not in self._faults,
            )
            self._faults.add(fault)

    def _voted_to_stop(self) -> bool:
        """Asked before each batch of an evaluation, on every process."""
        self._vote.after_step()
        return self._vote.stop

    def _save(self, *, last: bool) -> None:
        self._check_owner()
        self._meter.flush()
        self._stop_if_not_finite()
        # Of this step alone: it ranks the checkpoint. It may also come later.
        evaluated = self._evaluated_step == self._step
        evaluation = self._evaluation if evaluated else {}
        data = {
            "step": self._step,
            "data": {"next_step": self._step},
            "skipped_steps": self._meter.skipped_steps,
            "skipped_in_row": self._meter.skipped_in_row,
            "window": self._meter.window(),
            "failed_evaluations": self._failed_evaluations,
            "config_hash": config_hash(self._config),
            "config": to_dict(self._config),
            "identity": identity(self._config),
            "evaluation": evaluation,
            **fingerprints.of_job(self._job),
        }
        self._checkpointer.save(self._state, data, step=self._step, last=last)
        self._saved_step = self._step

    def _preempted(self) -> RunResult:
        saved = self._saved_step == self._step and self._checkpointer.wait()
        if not saved:
            self._save(last=True)
        self._close_checkpoints()
        _LOG.warning(
            "%s: saved step %d; the same command continues from there",
            self._vote.signal_name,
            self._step,
        )
        return self._result(PREEMPTED, {})

    def _final_report(self) -> dict[str, Any]:
        if self._job.final_report is None:
            return {}
        report: dict[str, Any] = {}
        with self._outlived("FINAL REPORT"):
            report = self._job.final_report(self._state.params)
        if report and distributed.is_first():
            self._write_report(metrics_lib.to_json(report, indent=2))
        return report

    def _write_report(self, text: str) -> None:
        path = self._folder / "final_report.json"
        try:
            write_whole(path, text)
        except OSError as error:
            # All that the run is for is saved; the same command writes the report.
            _LOG.error("%s IS NOT WRITTEN: %s. It would be:\n%s", path, error, text)
