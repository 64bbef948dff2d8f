"""What the best possible model would score: gold labels to inputs and back to text.

    python -m tasks.ceiling --task=hotpotqa --tokenizer=vocab.txt dev.json

Each record goes through features and decoding with its own labels as outputs. The
official figures of that are printed, and for each record that lost something, why.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from etc_jax.data.tokenizer import Tokenizer, open_tokenizer
from etc_jax.formats.structured import Sizes
from etc_jax.local_paths import ArgumentParser
from etc_jax.terminal import printable, say
from tasks import (
    hotpotqa,
    hotpotqa_longformer,
    natural_questions,
    openkp,
    triviaqa,
    wikihop,
    wikihop_longformer,
)
from tasks.ceiling_report import Ceiling, ceiling_of
from tasks.hotpotqa.ceiling import hotpotqa_ceiling, hotpotqa_longformer_ceiling
from tasks.natural_questions.ceiling import natural_questions_ceiling
from tasks.openkp.ceiling import openkp_ceiling
from tasks.triviaqa.ceiling import triviaqa_ceiling


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
    """As `wikihop_ceiling`, of files as Longformer reads them."""
    task = wikihop_longformer.TASK
    outputs_fn = wikihop_longformer.gold_outputs
    return ceiling_of(task, outputs_fn, paths, tokenizer, sizes)


TASKS = {
    "hotpotqa": (hotpotqa_ceiling, hotpotqa.SIZES),
    "hotpotqa_longformer": (hotpotqa_longformer_ceiling, hotpotqa_longformer.SIZES),
    "natural_questions": (natural_questions_ceiling, natural_questions.SIZES),
    "openkp": (openkp_ceiling, openkp.SIZES),
    "triviaqa": (triviaqa_ceiling, triviaqa.SIZES),
    "wikihop": (wikihop_ceiling, wikihop.SIZES),
    "wikihop_longformer": (wikihop_longformer_ceiling, wikihop_longformer.SIZES),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line; see the module."""
    parser = ArgumentParser(
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
        sys.exit(printable(f"error: {e}"))
    say(ceiling.report())


if __name__ == "__main__":
    main()
