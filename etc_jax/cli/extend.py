"""Makes a model of short texts long: BERT as a Longformer, BART as a LED.

BERT and RoBERTa become a Longformer or an ETC, for instance, BART a LED or a BART-LS,
and T5 a LongT5: what --to names.

    etc-jax extend --from=roberta-base --to=longformer \\
        --max_length=4096 --window=512 --out=roberta-4096
    etc-jax extend --from=bart-base --to=led --max_length=16384 \\
        --out=led-base

Of a folder of Hugging Face it makes one, with config, weights and tokenizer; of a model
that etc-jax convert wrote, or a run, a model of the same kind. --format=native makes
such a model of a folder of Hugging Face too; what transformers does not know, as an
ETC, a BART-LS, or blocks behind --num_globals, is always one.

Positions go on with copies of those of the source, block by block; global projections
begin as copies of the local ones. The result is compared with the source on short
inputs, where both must compute the same, before anything is written.

    etc-jax extend --from=runs/more --to=longformer --copy_global \\
        --out=models/longer

After training without global tokens: their projections become copies again.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

from etc_jax.base import registry
from etc_jax.cli import command_line
from etc_jax.cli.model_commands import (
    add_source_flags,
    add_tokenizer_flag,
    carry_out,
    companions_of,
    find_source,
    kept_tokenizer,
    may_be_left_out,
    tokenizer_note,
)
from etc_jax.conversion import hugging_face
from etc_jax.conversion.formats import native
from etc_jax.loading import model_card
from etc_jax.loading.model_card import Origin
from etc_jax.loading.model_source import ModelSource
from etc_jax.models import family as families
from etc_jax.models.extension import Extended, Extension, extend, targets

_PROG = "etc-jax extend"


def _short_names() -> dict[str, str]:
    """Names of targets without underscores -> with them."""
    return {name.replace("_", ""): name for name in targets() if "_" in name}


def _parser() -> argparse.ArgumentParser:
    parser = command_line.ArgumentParser(_PROG, __doc__)
    add_source_flags(parser)
    add = parser.add_argument
    add("--to", choices=[*targets(), *_short_names()], required=True, help="family")
    add("--max_length", type=int, help="tokens; default: 4096")
    add(
        "--window",
        type=int,
        help="tokens seen on both sides together; default: 512 for longformer and etc, "
        "1024 for led, 254 for long_t5",
    )
    add(
        "--block_size",
        type=int,
        help="of big_bird, default: 64; tokens of a sum of long_t5, default: 16; of "
        "bart_ls, default: 1024",
    )
    add(
        "--num_globals",
        type=int,
        help="tokens in front that are global, of big_bird, whose first and last block "
        "are too; of bart_ls in front of each block; default: 0",
    )
    add(
        "--overlap",
        action="store_true",
        help="of bart_ls: tokens see half of each neighbour of their block",
    )
    add(
        "--pooling_layers",
        type=int,
        help="of bart_ls, the last ones, that attend to averages; default: 4",
    )
    add(
        "--positions",
        choices=("copy", "new"),
        default="copy",
        help="after those of the source: copies of them, or random; default: copy",
    )
    add("--seed", type=int, default=0, help="of what begins at random; default: 0")
    add(
        "--copy_global",
        action="store_true",
        help="global projections become copies of the local ones again",
    )
    add(
        "--format",
        choices=("hf", "native"),
        help="of what is written; default: that of the source",
    )
    add_tokenizer_flag(parser)
    return parser


def _is_hf(args: argparse.Namespace, source: ModelSource) -> bool:
    """Whether the result is a folder of Hugging Face.

    Raises:
      ValueError: if it cannot be one.
    """
    if args.format == "hf" and not source.is_hf:
        raise ValueError(
            f"--format=hf, but {args.source} is a model of etc_jax; leave it out, and "
            "write the result for transformers with --to_hf"
        )
    ours = "" if families.find(args.to).exchange else args.to
    if args.num_globals:
        ours = f"{args.to} with global tokens in front"
    if args.format == "hf" and ours:
        raise ValueError(f"--format=hf, but transformers has no {ours}; leave it out")
    return source.is_hf and args.format != "native" and not ours


def run(args: argparse.Namespace) -> str:
    """The command; the report of it.

    Raises:
      ValueError, OSError, RunError: if something does not fit.
    """
    native.check_free(args.out, overwrite=args.overwrite)
    source = find_source(args.source, args.step, "made long")
    tokenizer = kept_tokenizer(args, lambda: source.tokenizer)
    is_hf = _is_hf(args, source)
    names = (field.name for field in dataclasses.fields(Extension))
    asked = Extension(**{name: getattr(args, name) for name in names})
    extended = extend(source.params, source.config, asked)
    length = asked.max_length or _length(extended)
    companions, notes = companions_of(source, tokenizer, max_length=length)
    written = args.out, extended.params, extended.config
    origin = Origin(args.source, args.command_line, source)
    card = model_card.files_of(*written, origin, for_transformers=is_hf)
    if is_hf:
        with may_be_left_out():
            files = companions.hugging_face_files(extended.config, length) | card
        hugging_face.save(*written, files=files, labels=companions.labels)
    else:
        about = {
            "made_from": {"extend": args.source},
            "options": dataclasses.asdict(asked),
            "largest_difference": extended.difference,
            "left_behind": list(extended.left_behind),
        }
        files = companions.native_files(extended.config) | card
        native.save(*written, about, files=files, overwrite=args.overwrite)
    report = _report(source.config, extended, length)
    return "\n".join([report, tokenizer_note(tokenizer), *notes])


def _length(extended: Extended) -> int:
    config = extended.config
    return getattr(config, "max_length", None) or config.max_positions


def _report(source: Any, extended: Extended, length: int) -> str:
    lines = [
        f"{source.max_length} positions became {length}",
        f"short inputs: rows differ by {extended.difference:.2g} at most",
    ]
    if extended.left_behind:
        lines.append(f"left out: {', '.join(extended.left_behind)}")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code: 2 for bad input, 4 for a damaged run."""
    with contextlib.suppress(registry.PluginError):  # the parser tells of it
        # --to may be a family of such a module.
        command_line.first_given(argv)
    args = _parser().parse_args(argv)
    args.to = _short_names().get(args.to, args.to)
    return carry_out(_PROG, lambda: run(args), args.out)


if __name__ == "__main__":
    sys.exit(main())
