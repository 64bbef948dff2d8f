"""Adds tokens to the vocabulary of a model, to be learnt in training.

    etc-jax grow --from=longformer-base-4096 \\
        --tokens='[q],[/q],[ent],[/ent]' --out=models/longformer_wikihop
    etc-jax grow --from=bart-base --sentinels=100 \\
        --out=models/bart_spans

The source is a folder of Hugging Face, a model that etc-jax convert wrote, or a run, of
an encoder or an encoder-decoder; --out is a model of etc_jax with its tokenizer. New
tokens stand after the old ones, whose ids stay. No text is tokenised into them: a task
puts them into its inputs, and the objective `denoising` puts sentinels where spans are
missing: <extra_id_0> and on, after those that are there. New rows begin at random, and
the old rows are as they were: on short inputs the result is compared with the source
before anything is written.

    etc-jax grow --from=t5-v1_1-base --sentinels=250 --spare_rows \\
        --out=models/t5_spans

A table may have rows after the vocabulary: 28 in T5, and 341 sentinels in BART-LS. With
--spare_rows new tokens get these first, as they are. A table may also lack the row of a
special token, as that of bart-large-cnn lacks the one of <mask>: it gets one, too.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from etc_jax.cli import command_line
from etc_jax.cli.model_commands import (
    add_source_flags,
    carry_out,
    companions_of,
    find_source,
)
from etc_jax.conversion.formats import native
from etc_jax.data.text.denoised import next_sentinels
from etc_jax.data.tokenizers.tokenizer import Tokenizer, grown
from etc_jax.loading import model_card
from etc_jax.loading.model_card import Origin
from etc_jax.loading.model_source import ModelSource
from etc_jax.models.grow import grow

_PROG = "etc-jax grow"


def _parser() -> argparse.ArgumentParser:
    parser = command_line.ArgumentParser(_PROG, __doc__)
    add_source_flags(parser)
    add = parser.add_argument
    add(
        "--tokens",
        default=(),
        type=lambda text: text.split(","),
        help="names joined by commas, in the order of their ids",
    )
    add("--sentinels", type=int, default=0, help="number of sentinels, after --tokens")
    add("--spare_rows", action="store_true", help="use rows after the vocabulary first")
    add("--seed", type=int, default=0, help="of the new rows; default: 0")
    return parser


def run(args: argparse.Namespace) -> str:
    """The command; the report of it.

    Raises:
      ValueError, OSError, RunError: if something does not fit.
    """
    native.check_free(args.out, overwrite=args.overwrite)
    source = find_source(args.source, args.step, "given more tokens")
    tokenizer = _grown(source, args)
    number = max(tokenizer.vocab_size - source.config.vocab_size, 0)
    grown = grow(source.params, source.config, number, seed=args.seed)
    companions, notes = companions_of(source, tokenizer)
    added = tokenizer.added_ids
    about = {
        "made_from": {"grow": args.source},
        "tokens": added,
        "seed": args.seed,
        "largest_difference": grown.difference,
    }
    written = args.out, grown.params, grown.config
    origin = Origin(args.source, args.command_line, source)
    files = companions.native_files(grown.config)
    files |= model_card.files_of(*written, origin)
    native.save(*written, about, files=files, overwrite=args.overwrite)
    new = list(added)[len(source.tokenizer.added_ids) :]
    told = ", ".join(f"{token} {added[token]}" for token in new)
    lines = (
        f"{source.config.vocab_size} rows became {grown.config.vocab_size}: {told}",
        f"short inputs: logits differ by {grown.difference:.2g} of the largest at most",
    )
    return "\n".join([*lines, *notes])


def _grown(source: ModelSource, args: argparse.Namespace) -> Tokenizer:
    """The tokenizer of a model with new tokens.

    Raises:
      ValueError: if there is none, it is not that of the model, has such a token, or no
        token is asked for where each has a row already.
    """
    tokenizer, rows = source.tokenizer, source.config.vocab_size
    folder = source.place.tokenizer_folder
    if tokenizer is None:
        raise ValueError(
            f"no tokenizer in {folder}, which is needed to number new tokens; "
            "put the vocabulary files of the model there"
        )
    if tokenizer.vocab_size < rows and not args.spare_rows:
        raise ValueError(
            f"the tokenizer in {folder} has {tokenizer.vocab_size} pieces, but "
            f"the model's table has {rows} rows, so that an id after the pieces is "
            "not one after the rows; give the vocabulary of the model, or, if it is "
            "that, --spare_rows"
        )
    new = [*args.tokens, *next_sentinels(tokenizer, args.sentinels)]
    if not new and tokenizer.vocab_size > rows:
        return tokenizer  # its ids get the rows that they lack
    return grown(tokenizer, new)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code: 2 for bad input, 4 for a damaged run."""
    args = _parser().parse_args(argv)
    return carry_out(_PROG, lambda: run(args), args.out)


if __name__ == "__main__":
    sys.exit(main())
