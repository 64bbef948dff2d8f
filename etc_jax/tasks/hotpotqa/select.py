"""Keeps the paragraphs of HotpotQA that a first model finds relevant, for a second one.

    python -m etc_jax.tasks.hotpotqa.select --model=runs/stage1 --out=dev_kept.json \\
        hotpot_dev_distractor_v1.json

The model is one of `--config=longformer_hotpotqa`, in the folder of its run. What is
written are the records in the official form with the `--keep` most relevant paragraphs
of each, in their order; questions, answers and supporting facts stay, those in lost
paragraphs too, so that official scores of the second model count them as missed. A
record that is no input of the first model stays whole.

Exit codes: 0 done; 2 something given is wrong; 4 the checkpoint is damaged.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from etc_jax.base.local_paths import INPUT, MODEL, OUTPUT
from etc_jax.base.whole_files import check_out, whole_text
from etc_jax.cli import command_line
from etc_jax.datasets.of_config import task_of
from etc_jax.datasets.records import Problems
from etc_jax.datasets.task import Task
from etc_jax.prediction import runner as runner_lib, work
from etc_jax.prediction.inputs import RecordReader
from etc_jax.prediction.model_files import TrainedModel, open_model
from etc_jax.prediction.record_stream import through_model
from etc_jax.tasks.hotpotqa import DATA_SET
from etc_jax.tasks.hotpotqa.records import Record, existing_support
from etc_jax.tasks.hotpotqa.sequence_decoding import Outputs
from etc_jax.tasks.hotpotqa.sequence_inputs import HotpotSequence
from etc_jax.training.errors import UserError

_PROG = "python -m etc_jax.tasks.hotpotqa.select"

KEEP = 5


class Selection(NamedTuple):
    """What was kept of some files.

    Attributes:
      records: written.
      paragraphs: in them, and before.
      facts: supporting facts in what was kept, and before.
      whole: records that were no input, by the reason.
    """

    records: int
    paragraphs: tuple[int, int]
    facts: tuple[int, int]
    whole: dict[str, int]

    def report(self) -> str:
        """For people."""
        after, before = self.paragraphs
        lines = [f"{self.records} records, {after} of {before} paragraphs"]
        if self.facts[1]:
            share = 100 * self.facts[0] / self.facts[1]
            lines.append(
                f"{self.facts[0]} of {self.facts[1]} supporting facts are still there "
                f"({share:.2f} %): no second model finds more"
            )
        lines += [f"  {n} x left whole: {kind}" for kind, n in self.whole.items()]
        return "\n".join(lines)


def most_relevant(
    logits: np.ndarray, window: HotpotSequence, keep: int
) -> tuple[int, ...]:
    """Numbers of the record's paragraphs, ascending; of equal ones the first.

    Args:
      logits: `[g]` of the paragraphs of the window.
      window: of the record.
      keep: so many at most.
    """
    relevance = np.float64(logits[: len(window.paragraphs)])
    best = np.argsort(-relevance, kind="stable")[:keep]
    return tuple(window.paragraphs[i] for i in sorted(best.tolist()))


def official(record: Record, paragraphs: Sequence[int]) -> dict[str, Any]:
    """The record in the official form with some of its paragraphs."""
    context = [record.paragraphs[i] for i in paragraphs]
    value = {
        "_id": record.id,
        "question": record.question,
        "context": [[p.title, list(p.sentences)] for p in context],
        "type": record.type,
        "level": record.level,
    }
    if record.answer is not None:
        value["answer"] = record.answer
    if record.support is not None:
        value["supporting_facts"] = [list(fact) for fact in record.support]
    return value


def select(
    model: TrainedModel,
    files: Sequence[str | os.PathLike],
    out: str | os.PathLike,
    *,
    keep: int = KEEP,
    batch_size: int | None = None,
    workers: int | None = None,
) -> Selection:
    """Writes the records of some files with what is most relevant in them.

    Args:
      model: of HotpotQA in one sequence.
      files: of the release.
      out: file that is written; it appears when it is whole.
      keep: paragraphs of a record, 1 or more.
      batch_size: inputs at once; None: what keeps the devices busy.
      workers: processes that make inputs; None: by the cores.

    Raises:
      UserError: if the model is of another task, or something given does not fit.
      ValueError, OSError: if a file cannot be read or written.
    """
    if keep < 1:
        raise UserError(f"--keep is {keep}; expected 1 or more")
    runner_lib.check(model)
    task = task_of(model.config)
    if (task.name, task.format) != (DATA_SET.name, "sequence"):
        raise UserError(
            f"{model.folder} was trained on {task.name!r} in format {task.format!r}; "
            f"expected {DATA_SET.name!r} in one sequence, as in "
            "configs/longformer/longformer_hotpotqa.py"
        )
    problems = Problems()
    count = sum(1 for _ in task.read(files, problems))
    if broken := problems.first_of_files():
        raise broken
    counter = _Count()
    with whole_text(out) as file:
        selected = _selected(model, task, files, count, keep, batch_size, workers)
        for number, (record, paragraphs, problem) in enumerate(selected):
            value = official(record, paragraphs)
            file.write(("[\n" if number == 0 else ",\n") + json.dumps(value))
            counter.add(record, paragraphs, problem)
        file.write("\n]\n" if count else "[]\n")
    return counter.selection()


def _selected(
    model: TrainedModel, task: Task, files, count: int, keep: int, batch_size, workers
) -> Iterator[tuple[Record, Sequence[int], tuple[str, str] | None]]:
    """Each record with the paragraphs that stay, and why it was no input."""
    steps = work.in_steps(range(count))
    reader = RecordReader(
        task,
        files,
        tokenizer_json=model.tokenizer.saved(),
        lengths=model.lengths,
        batches=steps,
    )
    runner = runner_lib.Runner(model, runner_lib.rows_for(count, batch_size))

    def read_fn(outputs: Any, windows: Sequence[HotpotSequence]) -> list[Any]:
        logits = Outputs(*outputs).paragraph
        pairs = zip(logits, windows, strict=True)
        return [most_relevant(row, window, keep) for row, window in pairs]

    with work.made_ahead(
        reader, len(steps), work.workers_for(count, workers)
    ) as inputs:
        results = through_model(inputs, runner, read_fn)
        for record, result in zip(task.read(files, Problems()), results, strict=True):
            paragraphs = range(len(record.paragraphs))
            if result.windows:
                [paragraphs] = result.windows
            yield record, paragraphs, result.problem


class _Count:
    """Sums over records."""

    def __init__(self):
        self._sums = np.zeros(5, np.int64)
        self._whole: collections.Counter[str] = collections.Counter()

    def add(self, record: Record, paragraphs: Sequence[int], problem: Any) -> None:
        facts = existing_support(record)
        titles = {record.paragraphs[i].title for i in paragraphs}
        num_kept = sum(title in titles for title, _ in facts)
        counts = (1, len(paragraphs), len(record.paragraphs), num_kept, len(facts))
        self._sums += np.array(counts)
        if problem is not None:
            self._whole[problem[0]] += 1

    def selection(self) -> Selection:
        records, after, before, facts_kept, facts = self._sums.tolist()
        return Selection(
            records, (after, before), (facts_kept, facts), dict(self._whole)
        )


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = command_line.ArgumentParser(_PROG, __doc__)
    parser.add_argument(
        "--model", required=True, type=MODEL, help="folder of the first model"
    )
    parser.add_argument("--out", required=True, type=OUTPUT, help="file to write")
    parser.add_argument("--overwrite", action="store_true", help="if --out exists")
    parser.add_argument("--step", type=int, help="of a run; default: the newest")
    parser.add_argument(
        "--keep", type=int, default=KEEP, help=f"paragraphs; default: {KEEP}"
    )
    parser.add_argument("--batch_size", type=int, help="inputs at once")
    parser.add_argument("--workers", type=int, help="processes that make inputs")
    parser.add_argument("files", nargs="+", type=INPUT, help="of the official release")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    args = _parse(arguments)
    return command_line.run(_PROG, lambda: _run(args))


def _run(args: argparse.Namespace) -> str:
    check_out(args.out, overwrite=args.overwrite)
    selection = select(
        open_model(args.model, args.step),
        args.files,
        args.out,
        keep=args.keep,
        batch_size=args.batch_size,
        workers=args.workers,
    )
    return f"{selection.report()}\nwrote {args.out}"


if __name__ == "__main__":
    sys.exit(main())
