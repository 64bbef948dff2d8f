"""What the best possible model would score: gold labels to inputs and back to text.

    python -m tasks.upper_bound --task=hotpotqa --tokenizer=vocab.txt dev.json

Each record goes through features and decoding with its own labels as outputs. The
official metrics of that are printed, and for each record that lost something, why.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

from etc_jax.data.tokenizers.tokenizer import Tokenizer, open_tokenizer
from etc_jax.data.windows.window import InputSizes
from etc_jax.datasets.records import BadRecordError, Problems
from etc_jax.datasets.task import Task, find
from etc_jax.local_paths import ArgumentParser
from etc_jax.prepare import add_lengths, given_lengths
from etc_jax.scoring.result import Scores
from etc_jax.terminal import printable, say


class Loss(NamedTuple):
    """Something that a record lost, and why."""

    id: str
    reason: str


@dataclasses.dataclass(frozen=True)
class UpperBound:
    """The official metrics of gold labels.

    Attributes:
      scores: of all records that can be read.
      losses: why a point is missing; empty if and only if none is.
      problems: what was wrong with the files.
    """

    scores: Scores
    losses: tuple[Loss, ...]
    problems: Problems

    def report(self) -> str:
        """Everything, as lines."""
        lines = [f"  {loss.id}: {loss.reason}" for loss in self.losses]
        parts = [self.problems.report(), self.scores.report()]
        return "\n".join([*parts, f"{len(lines)} losses", *lines])


def upper_bound_of(
    task: Task,
    paths: Sequence[str | os.PathLike],
    tokenizer: Tokenizer,
    sizes: InputSizes | None = None,
) -> UpperBound:
    """The upper bound of files of a data set.

    Args:
      task: the data set in one format.
      paths: of its files.
      tokenizer: as for its inputs.
      sizes: of an input; None: those of the paper.

    Raises:
      ValueError: if there is no record, or one has no gold answer.
      OSError: if a file cannot be read.
    """
    problems, losses, gold = Problems(), [], []
    predictions = {}
    for record in task.read(paths, problems):
        if task.agreed is not None:
            record = task.agreed(record)
        if (of_record := task.gold(record)) is None:
            raise ValueError(
                f"{record.id!r} has no gold answer; give files of training or "
                "development data"
            )
        gold.append(of_record)
        try:
            windows = task.features(record, tokenizer, sizes or task.sizes)
        except BadRecordError as e:
            losses.append(Loss(record.id, str(e)))
            predictions[record.id] = task.no_answer
            continue
        decoded = task.decode(task.gold_outputs(windows), windows, (task.setting,))
        [prediction] = task.predictions(decoded)
        predictions[record.id] = prediction
        if task.why_lost is not None:
            reasons = task.why_lost(windows, prediction)
            losses += [Loss(record.id, why) for why in reasons]
    scores = task.score(gold, task.official(predictions))
    return UpperBound(scores, tuple(losses), problems)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line; see the module."""
    parser = ArgumentParser(
        prog="python -m tasks.upper_bound", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--task", required=True, help="name of the data set")
    parser.add_argument("--format", help="default: the first that it has")
    parser.add_argument(
        "--tokenizer", required=True, help="vocabulary file, or a folder with one"
    )
    add_lengths(parser)
    parser.add_argument("files", nargs="+", help="files of the official release")
    args = parser.parse_args(arguments)
    try:
        task = find(args.task).in_format(args.format)
        sizes = given_lengths(args, task)
        found = upper_bound_of(task, args.files, open_tokenizer(args.tokenizer), sizes)
    except (ValueError, OSError) as e:
        sys.exit(printable(f"error: {e}"))
    say(found.report())


if __name__ == "__main__":
    main()
