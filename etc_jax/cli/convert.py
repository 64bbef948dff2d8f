"""Makes a model from a checkpoint of another project, or of a run of this one.

    etc-jax convert --official=etc_base_2x_pretrain --out=models/etc_base

        An official ETC checkpoint of TensorFlow: the prefix of its files or the folder
        they are in, with etc_config.json beside them. TensorFlow is not needed.
        --head=TASK takes the head of a fine-tuned one too.

    etc-jax convert --lift=bert-base-uncased --out=models/etc_from_bert \\
        --config=etc_base_pretrain

        A warm start from BERT or RoBERTa: their weights, from a folder of Hugging Face
        with config.json and safetensors, for the model of a config file. The numbers of
        layers and heads, the hidden width and that of the feed-forward blocks must be
        equal. As in the ETC paper (section 3.6, appendix D), positions are dropped and
        the model keeps its own activation, gelu by tanh; token types, on which the
        paper is silent, begin anew. The flags below depart from that.

    etc-jax convert --lift=roberta-base --out=models/etc_from_roberta \\
        --config=etc_base_pretrain:shared --config.model.vocab_size=50265 \\
        --activation=source --epsilon=source --types=first --special sentence=cls

    etc-jax convert --hf=longformer-base-4096 --out=models/longformer
    etc-jax convert --to_hf=models/longformer --out=back

        An encoder of Hugging Face, as a BERT or Longformer, with the head it has, a
        Reformer, a BART, LED, T5 or LongT5, and back: from a model that this command
        wrote, a run or one of its checkpoints. No bit is lost. The tokenizer goes
        along, in each direction. A folder of allenai's own LED is read too, and an
        XLM-RoBERTa or mT5, which are written as RoBERTa and T5.

    etc-jax extend --from=roberta-base --to=longformer \\
        --max_length=4096 --window=512 --out=roberta-4096

        A BERT or RoBERTa made long; see `etc-jax extend --help`.

    etc-jax grow --from=longformer-base-4096 \\
        --tokens='[q],[/q],[ent],[/ent]' --out=models/longformer_wikihop

        More tokens in the vocabulary of an encoder or an encoder-decoder, or with
        --sentinels=100 so many that stand for missing spans; see
        `etc-jax grow --help`.

    etc-jax convert --trax=model.pkl.gz --out=models/reformer \\
        --config=reformer_enwik8 --config.model.vocab_size=320

        Weights of trax's ReformerLM as its trainer pickles them; the config file says
        what the model is. Nothing that the pickle holds is run: arrays of numpy, lists,
        tuples and dicts are read, and no other object.

    etc-jax convert --fairseq=bart.large/model.pt --out=models/bart

        A BART of fairseq: sizes come from the weights, and heads, activation and order
        of norms from the settings in the file. Heads of classification are left out.
        The tokenizer comes of dict.txt with encoder.json and vocab.bpe, or of
        vocab.json and merges.txt, beside the file; the row of <mask> becomes that of
        its id there.

    etc-jax convert --export=runs/hotpotqa --out=models/hotpotqa --step=9000

        A fine-tuned model with its tokenizer and config, for etc-jax evaluate and
        etc-jax predict, without the optimizer. Without --step the newest checkpoint.

The folder holds model.json, params.safetensors and report.json, which says what every
array was made of, what is new and what was left over; also tokenizer.json, if there was
a vocabulary; of --to_hf, config.json and model.safetensors. README.md is a model card
as the Hub of Hugging Face reads it: sizes, origin, training, evaluations and licence,
as far as they are known. One that you have written or changed stays. The folder appears
whole or not at all.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from etc_jax.base.local_paths import MODEL, OF_MODEL, OUTPUT, PathArgument, Use
from etc_jax.cli import command_line, convert_sources as sources, extend, grow
from etc_jax.cli.model_commands import add_tokenizer_flag, carry_out
from etc_jax.conversion.formats import native
from etc_jax.models.etc import head_weights as etc_heads
from etc_jax.prediction.export import export_run

_PROG = "etc-jax convert"
# Its files begin with the prefix that may be given.
_OFFICIAL = PathArgument(Use.READ_MODEL, lambda path: (path, f"{path}.*"))


class _Mode(NamedTuple):
    """A kind of source.

    Attributes:
      convert: writes the model; returns the report.
      flags: those that only some modes have.
    """

    convert: Callable[[argparse.Namespace], str]
    flags: tuple[str, ...]


def _export(args: argparse.Namespace) -> str:
    options = {"step": args.step, "overwrite": args.overwrite}
    return export_run(args.export, args.out, by=args.command_line, **options)


_LIFTING = (*sources.LIFT_OPTIONS, "special", "seed")
_MODES = {
    "official": _Mode(sources.official, ("etc_config", "verify", "head")),
    "lift": _Mode(sources.lifted, ("config", "without_tokenizer", *_LIFTING)),
    "hf": _Mode(sources.hf, ("without_tokenizer",)),
    "trax": _Mode(sources.trax, ("config",)),
    "fairseq": _Mode(sources.fairseq, ("without_tokenizer",)),
    "to_hf": _Mode(sources.to_hf, ("step", "without_tokenizer")),
    "export": _Mode(_export, ("step",)),
}


def _parser() -> argparse.ArgumentParser:
    parser = command_line.ArgumentParser(_PROG, __doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    add = source.add_argument
    add("--official", metavar="CHECKPOINT", type=_OFFICIAL, help="official ETC")
    add(
        "--lift",
        metavar="FOLDER",
        type=OF_MODEL,
        help="BERT or RoBERTa, for a warm start",
    )
    add("--hf", metavar="FOLDER", type=MODEL, help="of Hugging Face")
    add("--trax", metavar="FILE", type=OF_MODEL, help="Reformer of trax")
    add("--fairseq", metavar="FILE", type=OF_MODEL, help="BART of fairseq")
    add("--to_hf", metavar="FOLDER", type=MODEL, help="a model or run")
    add("--export", metavar="WORKDIR", type=MODEL, help="a fine-tuning run")
    parser.add_argument("--out", required=True, type=OUTPUT, help="folder to write")
    parser.add_argument(
        "--overwrite", action="store_true", help="replace a model that --out holds"
    )
    _add_official_flags(parser.add_argument_group("with --official"))
    parser.add_config_flag(parser.add_argument_group("with --lift and --trax"))
    _add_lifting_flags(parser.add_argument_group("with --lift"))
    exporting = parser.add_argument_group("with --export and --to_hf")
    exporting.add_argument("--step", type=int, help="default: the newest checkpoint")
    group = parser.add_argument_group("with --lift, --hf, --fairseq and --to_hf")
    add_tokenizer_flag(group)
    return parser


def _add_official_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--etc_config", type=OF_MODEL, help="its etc_config.json, if elsewhere"
    )
    group.add_argument(
        "--verify", action="store_true", help="compare checksums; 5 MB a second"
    )
    group.add_argument(
        "--head", choices=sorted(etc_heads.TASKS), help="task it was fine-tuned on"
    )


def _add_lifting_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--positions",
        choices=("drop", "copy"),
        help="absolute positions; default: drop",
    )
    group.add_argument(
        "--types",
        choices=("drop", "copy", "first"),
        help="token types; copy: row by row; first: the source's first row into every "
        "row, as long tokens have type 1 here; default: drop",
    )
    for name, what in (("activation", "activation"), ("epsilon", "epsilon of norms")):
        group.add_argument(
            f"--{name}",
            choices=("model", "source"),
            help=f"whose {what}; default: model, that of the config file",
        )
    group.add_argument(
        "--special",
        nargs="+",
        type=str,
        metavar="ROLE=ROLE",
        help="special tokens that begin with the embedding of another, such as "
        "sentence=cls; ids are those of official ETC for the vocabulary in FOLDER",
    )
    group.add_argument("--seed", type=int, help="of what begins anew; default: 0")


def _parse(argv: Sequence[str]) -> tuple[_Mode, argparse.Namespace]:
    parser = _parser()
    args = parser.parse_args(argv)
    # By identity: --seed=0 is given.
    flags = {n for n, v in vars(args).items() if v is not None and v is not False}
    flags |= {"config"} if args.changes else set()
    [name] = flags & _MODES.keys()
    mode = _MODES[name]
    foreign = {n for other in _MODES.values() for n in other.flags} - {*mode.flags}
    if wrong := [f"--{flag}" for flag in sorted(foreign & flags)]:
        parser.error(f"{', '.join(wrong)} cannot go with --{name}")
    if "config" in mode.flags and args.config is None:
        parser.error(f"--{name} needs --config=NAME, whose model it makes")
    return mode, args


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code: 2 for bad input, 4 for a damaged run."""
    argv = sys.argv[1:] if argv is None else list(argv)
    if argv[:1] == ["extend"]:
        return extend.main(argv[1:])
    if argv[:1] == ["grow"]:
        return grow.main(argv[1:])
    mode, args = _parse(argv)

    def convert() -> str:
        native.check_free(args.out, overwrite=args.overwrite)
        return mode.convert(args)

    return carry_out(_PROG, convert, args.out)


if __name__ == "__main__":
    sys.exit(main())
