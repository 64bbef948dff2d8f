"""The flags of commands that give texts to a model."""

from __future__ import annotations

from etc_jax.base.local_paths import MODEL
from etc_jax.cli.command_line import ArgumentParser

BATCH_SIZE = 8


def add_flags(parser: ArgumentParser) -> None:
    """Adds those that say which model it is, and how it reads texts."""
    add = parser.add_argument
    add("--model", required=True, type=MODEL, help="folder or name, see above")
    add("--step", type=int, help="of a run; default: the newest checkpoint")
    add(
        "--special_tokens_in_text",
        action="store_true",
        help="[SEP], <mask> and the like in a text are special tokens; default: plain "
        "text",
    )
    add(
        "--batch_size",
        type=int,
        default=BATCH_SIZE,
        help=f"texts at once; default: {BATCH_SIZE}",
    )
