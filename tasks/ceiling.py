"""What the best possible model would score: gold labels to inputs and back to text.

    python -m tasks.ceiling --task=hotpotqa --tokenizer=vocab.txt dev.json

Each record goes through features and decoding with its own labels as outputs. The
official figures of that are printed, and for each record that lost something, why.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence

from etc_jax.data.tokenizer import Tokenizer, open_tokenizer
from etc_jax.scoring import hotpotqa as hotpotqa_scoring
from etc_jax.scoring.answers import exact_match
from tasks import (
    hotpotqa,
    natural_questions,
    openkp,
    triviaqa,
    wikihop,
    wikihop_longformer,
)
from tasks.ceiling_report import Ceiling, Loss, ceiling_of
from tasks.hotpotqa_records import existing_support
from tasks.multihop import Sizes
from tasks.natural_questions_ceiling import natural_questions_ceiling
from tasks.openkp_ceiling import openkp_ceiling
from tasks.records import BadRecordError, Problems
from tasks.triviaqa_ceiling import triviaqa_ceiling


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
    return ceiling_of(wikihop.TASK, wikihop.gold_outputs, paths, tokenizer, sizes)


def wikihop_longformer_ceiling(
    paths: Sequence[str | os.PathLike], tokenizer: Tokenizer, sizes: Sizes
) -> Ceiling:
    """The ceiling of WikiHop files as Longformer reads them; see `wikihop_ceiling`."""
    task = wikihop_longformer.TASK
    outputs_fn = wikihop_longformer.gold_outputs
    return ceiling_of(task, outputs_fn, paths, tokenizer, sizes)


TASKS = {
    "hotpotqa": (hotpotqa_ceiling, hotpotqa.SIZES),
    "natural_questions": (natural_questions_ceiling, natural_questions.SIZES),
    "openkp": (openkp_ceiling, openkp.SIZES),
    "triviaqa": (triviaqa_ceiling, triviaqa.SIZES),
    "wikihop": (wikihop_ceiling, wikihop.SIZES),
    "wikihop_longformer": (wikihop_longformer_ceiling, wikihop_longformer.SIZES),
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
    parser.add_argument("files", nargs="+", help="files of the official release")
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
