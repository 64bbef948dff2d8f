"""Scores the gold labels themselves: no model can do better on these inputs.

    etc-jax upper_bound --task=hotpotqa --tokenizer=vocab.txt dev.json

Each record goes through features and decoding with its own labels as outputs. The
official metrics of that are printed, and for each record that lost something, why.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from etc_jax.base.local_paths import INPUT, OF_MODEL
from etc_jax.cli import command_line
from etc_jax.cli.prepare import add_lengths, given_lengths
from etc_jax.data.tokenizers.tokenizer import open_tokenizer
from etc_jax.datasets.task import named_task

_PROG = "etc-jax upper_bound"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    parser = command_line.ArgumentParser(_PROG, __doc__)
    parser.add_argument("--task", required=True, type=str, help="name of the data set")
    parser.add_argument("--format", type=str, help="default: the first that it has")
    parser.add_argument(
        "--tokenizer",
        required=True,
        type=OF_MODEL,
        help="vocabulary file, or a folder with one",
    )
    add_lengths(parser)
    parser.add_argument(
        "files", nargs="+", type=INPUT, help="files of the official release"
    )
    args = parser.parse_args(arguments)
    return command_line.run(_PROG, lambda: _report(args))


def _report(args: argparse.Namespace) -> str:
    task = named_task(args.task, args.format)
    sizes = given_lengths(args, task)
    tokenizer = open_tokenizer(args.tokenizer)
    return task.upper_bound(args.files, tokenizer, sizes).report()


if __name__ == "__main__":
    sys.exit(main())
