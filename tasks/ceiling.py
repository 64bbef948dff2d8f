"""What the best possible model would score: gold labels to inputs and back to text.

    python -m tasks.ceiling --task=hotpotqa --tokenizer=vocab.txt dev.json

Each record goes through features and decoding with its own labels as outputs. The
official figures of that are printed, and for each record that lost something, why.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from etc_jax.data.tokenizer import Tokenizer, open_tokenizer
from etc_jax.scoring import hotpotqa as hotpotqa_scoring
from etc_jax.scoring import wikihop as wikihop_scoring
from etc_jax.scoring.answers import exact_match
from etc_jax.scoring.result import Scores
from tasks import hotpotqa, wikihop
from tasks.hotpotqa_records import existing_support
from tasks.multihop import Sizes
from tasks.records import BadRecordError, Problems


class Loss(NamedTuple):
    """Something that a record lost, and why."""

    id: str
    reason: str


@dataclasses.dataclass(frozen=True)
class Ceiling:
    """The official figures of gold labels.

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


def hotpotqa_ceiling(
    paths: Sequence[str | os.PathLike], tokenizer: Tokenizer, sizes: Sizes
) -> Ceiling:
    """The ceiling of HotpotQA files.

    Raises:
      ValueError: if there is no record, or one has no gold answer.
      OSError: if a file cannot be read.
    """
    problems, losses = Problems(), []
    gold, predictions = [], hotpotqa.Predictions()
    for record in hotpotqa.read(paths, problems):
        try:
            windows = hotpotqa.features(record, tokenizer, sizes)
        except BadRecordError as e:
            losses.append(Loss(record.id, str(e)))
            windows = []
        got = hotpotqa.decode(hotpotqa.gold_outputs(windows), windows)
        gold.append(hotpotqa.official_gold(record))
        predictions.answer |= got.answer
        predictions.support |= got.support
        losses += [
            Loss(record.id, reason) for w in windows for reason in _hotpotqa(w, got)
        ]
    scores = hotpotqa_scoring.score(gold, predictions.official())
    return Ceiling(scores, tuple(losses), problems)


def _hotpotqa(window, predictions) -> Iterator[str]:
    """Why this window does not give the gold answer and facts back."""
    record = window.record
    facts = set(predictions.support[record.id])
    for fact in sorted(set(record.support) - facts):
        there = fact in existing_support(record)
        yield (
            f"supporting fact {fact} "
            + ("did not fit into the input" if there else "points nowhere")
        )
    if record.support and not facts:
        yield "without a supporting fact there is no answer"
    text = predictions.answer[record.id]
    if not exact_match(text, record.answer):
        yield f"answer {record.answer!r}: {window.unusable or f'tokens say {text!r}'}"


def wikihop_ceiling(
    paths: Sequence[str | os.PathLike], tokenizer: Tokenizer, sizes: Sizes
) -> Ceiling:
    """The ceiling of WikiHop files.

    Raises:
      ValueError: if there is no record, or one has no gold answer.
      OSError: if a file cannot be read.
    """
    problems, losses, gold = Problems(), [], []
    predictions: dict[str, str] = {}
    for record in wikihop.read(paths, problems):
        try:
            windows = wikihop.features(record, tokenizer, sizes)
        except BadRecordError as e:
            losses.append(Loss(record.id, str(e)))
            windows = []
        predictions |= wikihop.decode(wikihop.gold_outputs(windows), windows)
        gold.append({"id": record.id, "answer": record.answer})
    return Ceiling(wikihop_scoring.score(gold, predictions), tuple(losses), problems)


TASKS = {
    "hotpotqa": (hotpotqa_ceiling, hotpotqa.SIZES),
    "wikihop": (wikihop_ceiling, wikihop.SIZES),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line; see the module."""
    parser = argparse.ArgumentParser(
        prog="python -m tasks.ceiling", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--task", required=True, choices=sorted(TASKS))
    parser.add_argument(
        "--tokenizer", required=True, help="vocabulary file, or a folder with one"
    )
    parser.add_argument("--long_length", type=int, help="default: that of the paper")
    parser.add_argument("--global_length", type=int, help="default: that of the paper")
    parser.add_argument("files", nargs="+", help="JSON files of the official release")
    args = parser.parse_args(arguments)
    measure, default = TASKS[args.task]
    try:
        sizes = Sizes(
            args.long_length or default.long_length,
            args.global_length or default.global_length,
        )
        ceiling = measure(args.files, open_tokenizer(args.tokenizer), sizes)
    except (ValueError, OSError) as e:
        sys.exit(f"error: {e}")
    print(ceiling.report())


if __name__ == "__main__":
    main()
