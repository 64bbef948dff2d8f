"""Makes a model from a checkpoint of another project, or of a run of this one.

    etc-jax convert --official=etc_base_2x_pretrain --out=models/etc_base

        An official ETC checkpoint of TensorFlow: the prefix of its files or the folder
        they are in, with etc_config.json beside them. TensorFlow is not needed. Of a
        fine-tuned one, --head=TASK takes what it has beside the encoder too.

    etc-jax convert --lift=bert-base-uncased --out=models/etc_from_bert \\
        --config=etc_base_pretrain

        Weights of BERT or RoBERTa, from a folder of Hugging Face with config.json and
        safetensors, as the beginning of the model of a config file. The numbers of
        layers and heads, the hidden width and that of the feed-forward blocks must be
        equal. As in the ETC paper (section 3.6, appendix D), positions are dropped and
        the model keeps its own activation, gelu by tanh; token types, on which the
        paper is silent, begin anew. The flags below depart from that.

    etc-jax convert --lift=roberta-base --out=models/etc_from_roberta \\
        --config=etc_base_pretrain:shared --config.model.vocab_size=50265 \\
        --activation=source --epsilon=source --types=first --special sentence=cls

    etc-jax convert --hf=longformer-base-4096 --out=models/longformer
    etc-jax convert --to_hf=models/longformer --out=back

        A BERT, RoBERTa, Longformer, BigBird or Reformer of Hugging Face, with the head
        it has, a BART, LED, T5 or LongT5, and back: from a model that this command
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
a vocabulary; of --to_hf, config.json and model.safetensors. It appears whole or not at
all.
"""

# One file: a parser and a function for each flag; the work is in conversion/.

import argparse
import dataclasses
import functools
import pathlib
import sys
from collections.abc import Sequence
from typing import Any, TypeVar

import jax

from etc_jax.base.local_paths import MODEL, OUTPUT, PathArgument, Use
from etc_jax.cli import command_line, extend, flag as config_flag, grow
from etc_jax.cli.model_commands import (
    add_tokenizer_flag,
    beside_of,
    carry_out,
    kept_tokenizer,
    may_be_left_out,
    tokenizer_note,
)
from etc_jax.config.kinds import section_of
from etc_jax.conversion import hugging_face
from etc_jax.conversion.engine import Report
from etc_jax.conversion.families import (
    bert,
    etc_heads,
    fairseq_bart,
    trax_reformer,
)
from etc_jax.conversion.families.etc_official import (
    config_from_official,
    import_official,
)
from etc_jax.conversion.formats import native
from etc_jax.conversion.formats.config_file import read_config_file
from etc_jax.conversion.formats.tf_checkpoint import TfCheckpoint
from etc_jax.conversion.surgery.lift import LiftOptions, lift, lifted_config
from etc_jax.data.tokenizers import fairseq as fairseq_vocabulary
from etc_jax.data.tokenizers.tokenizer import Tokenizer, open_tokenizer
from etc_jax.loading import model_source
from etc_jax.loading.beside import Beside
from etc_jax.models.etc.config import EtcConfig
from etc_jax.models.reformer.config import ReformerConfig
from etc_jax.objectives.learners import finetuning
from etc_jax.objectives.pretraining import Pretraining
from etc_jax.objectives.sections import MlmCpcConfig
from etc_jax.ops import sampling
from etc_jax.prediction.export import export_run

_PROG = "etc-jax convert"

T = TypeVar("T")

OFFICIAL_CONFIG = "etc_config.json"
ENCODER = "encoder/"
_SHOWN = 8
_NOTHING = Beside(None)


# Its files begin with the prefix that may be given.
_OFFICIAL = PathArgument(Use.READ_MODEL, lambda place: (place, f"{place}.*"))


def _parser() -> argparse.ArgumentParser:
    parser = command_line.ArgumentParser(_PROG, __doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    add = source.add_argument
    add("--official", metavar="CHECKPOINT", type=_OFFICIAL, help="official ETC")
    add("--lift", metavar="FOLDER", type=MODEL, help="BERT or RoBERTa")
    add("--hf", metavar="FOLDER", type=MODEL, help="of Hugging Face")
    add("--trax", metavar="FILE", type=MODEL, help="Reformer of trax")
    add("--fairseq", metavar="FILE", type=MODEL, help="BART of fairseq")
    add("--to_hf", metavar="FOLDER", type=MODEL, help="a model or run")
    add("--export", metavar="WORKDIR", type=MODEL, help="a fine-tuning run")
    parser.add_argument("--out", required=True, type=OUTPUT, help="folder to write")
    parser.add_argument(
        "--overwrite", action="store_true", help="replace a model that --out holds"
    )
    official = parser.add_argument_group("with --official")
    official.add_argument(
        "--etc_config", type=MODEL, help="its etc_config.json, if elsewhere"
    )
    official.add_argument(
        "--verify", action="store_true", help="compare checksums; 5 MB a second"
    )
    official.add_argument(
        "--head", choices=sorted(etc_heads.TASKS), help="task it was fine-tuned on"
    )
    sized = parser.add_argument_group("with --lift and --trax")
    parser.add_config_flag(sized)
    lifting = parser.add_argument_group("with --lift")
    lifting.add_argument(
        "--positions",
        choices=("drop", "copy"),
        help="absolute positions; default: drop",
    )
    lifting.add_argument(
        "--types",
        choices=("drop", "copy", "first"),
        help="token types; copy: row by row; first: the source's first row into every "
        "row, as long tokens have type 1 here; default: drop",
    )
    for name, what in (("activation", "activation"), ("epsilon", "epsilon of norms")):
        lifting.add_argument(
            f"--{name}",
            choices=("model", "source"),
            help=f"whose {what}; default: model, that of the config file",
        )
    lifting.add_argument(
        "--special",
        nargs="+",
        type=str,
        metavar="ROLE=ROLE",
        help="special tokens that begin with the embedding of another, such as "
        "sentence=cls; ids are those of official ETC for the vocabulary in FOLDER",
    )
    lifting.add_argument("--seed", type=int, help="of what begins anew; default: 0")
    exporting = parser.add_argument_group("with --export and --to_hf")
    exporting.add_argument("--step", type=int, help="default: the newest checkpoint")
    group = parser.add_argument_group("with --lift, --hf, --fairseq and --to_hf")
    add_tokenizer_flag(group)
    return parser


_LIFT_ONLY = ("positions", "types", "activation", "epsilon", "special", "seed")
# Flags of each mode.
_FLAGS = {
    "official": ("etc_config", "verify", "head"),
    "lift": ("config", "without_tokenizer", *_LIFT_ONLY),
    "hf": ("without_tokenizer",),
    "trax": ("config",),
    "fairseq": ("without_tokenizer",),
    "to_hf": ("step", "without_tokenizer"),
    "export": ("step",),
}


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = _parser()
    args = parser.parse_args(argv)
    # By identity: --seed=0 is given.
    flags = {n for n, v in vars(args).items() if v is not None and v is not False}
    flags |= {"config"} if args.changes else set()
    [mode] = flags & _FLAGS.keys()
    foreign = {n for names in _FLAGS.values() for n in names} - {*_FLAGS[mode]}
    if wrong := [f"--{name}" for name in sorted(foreign & flags)]:
        parser.error(f"{', '.join(wrong)} cannot go with --{mode}")
    if "config" in _FLAGS[mode] and args.config is None:
        parser.error(f"--{mode} needs --config=NAME, whose model it makes")
    return args


def _model_of(args: argparse.Namespace, kind: type[T], why: str) -> T:
    """The model of a config with its changes.

    Args:
      args: with the flags of the config.
      kind: that its config must be of.
      why: for the error.

    Raises:
      ValueError: if the config or a change is wrong, or the model is another one.
    """
    section = config_flag.read(args.config, args.changes).model.to_dict()
    config = native.model_config(section)
    if not isinstance(config, kind):
        raise ValueError(f"--config is of a {section['family']}; {why}")
    return config


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN]) or "none"
    more = len(names) - _SHOWN
    return shown if more <= 0 else f"{shown} and {more} more (see {native.REPORT})"


def _fresh(config: EtcConfig, seed: int) -> dict[str, Any]:
    """Initialised parameters of the model with the heads of pre-training."""
    return _init(Pretraining(config, MlmCpcConfig()), sampling.key(seed))


@functools.partial(jax.jit, static_argnums=0)
def _init(task: Pretraining, rng: jax.Array) -> dict[str, Any]:
    return task.init(rng)


def _official_config(args: argparse.Namespace):
    checkpoint = pathlib.Path(args.official)
    folder = checkpoint if checkpoint.is_dir() else checkpoint.parent
    path = pathlib.Path(args.etc_config or folder / OFFICIAL_CONFIG)
    if not path.is_file():
        raise ValueError(f"no {path}; give the checkpoint's config by --etc_config")
    return read_config_file(path, config_from_official)


def convert_official(args: argparse.Namespace) -> str:
    """An official checkpoint -> a saved model; the report of it."""
    config, unknown = _official_config(args)
    source = TfCheckpoint(args.official)
    if args.verify:
        source.verify()
    params, report = _import_official(source, config, args.head)
    about = {
        "made_from": {"official": str(args.official), "head": args.head},
        "unknown_config_keys": list(unknown),
        "loaded": {path: list(names) for path, names in report.loaded.items()},
        "left_out": list(report.missing),
        "left_over": list(report.unused),
    }
    native.save(args.out, params, config, about, overwrite=args.overwrite)
    parts = "the encoder" if args.head is None else f"encoder and {args.head} head"
    lines = [f"{len(report.loaded)} arrays of {parts}"]
    for title, names in (
        ("left out, as the checkpoint's heads are not ours", report.missing),
        ("left over in the checkpoint", report.unused),
        ("keys of the config that mean nothing to us", unknown),
    ):
        lines.append(f"{len(names)} {title}: {_listed(names)}")
    return "\n".join(lines)


def _import_official(source: TfCheckpoint, config: EtcConfig, head: str | None):
    """(parameters, report) of the encoder, and of a task's head if one is asked for."""
    if head is None:
        abstract = jax.eval_shape(lambda: _fresh(config, 0))
        others = [f"(?!{ENCODER}).*"]
        return import_official(
            source, config, abstract, target=ENCODER, allow_missing=others
        )
    section = section_of(head, config.formats[0])
    objective = section(head, **etc_heads.options_of(head, source))
    task = finetuning.find(config, objective)
    abstract = jax.eval_shape(task.init, jax.random.key(0))
    rows = etc_heads.TASKS[head]
    return import_official(source, config, abstract, target=ENCODER, head=rows)


def _token_rows(pairs: Sequence[str], folder: str) -> tuple[tuple[int, int], ...]:
    """(id, id whose row it begins with) of pairs of roles.

    Raises:
      ValueError, OSError: if a pair is none, or the vocabulary lacks a role.
    """
    if not pairs:
        return ()
    tokenizer = open_tokenizer(folder)
    rows = []
    for pair in pairs:
        new, equals, old = pair.partition("=")
        if not equals:
            raise ValueError(f"--special has {pair!r}; expected ROLE=ROLE")
        rows.append((tokenizer.special_id(new), tokenizer.special_id(old)))
    return tuple(rows)


def convert_lifted(args: argparse.Namespace) -> str:
    """BERT or RoBERTa -> a saved model; the report of it."""
    asked = _model_of(args, EtcConfig, "BERT is lifted into etc")
    source, weights = bert.open_checkpoint(args.lift)
    flags = {name: getattr(args, name) for name in _LIFT_ONLY[:4]}
    options = LiftOptions(
        token_rows=_token_rows(args.special or (), args.lift),
        **{name: value for name, value in flags.items() if value is not None},
    )
    config = lifted_config(source, asked, options)
    tokenizer = kept_tokenizer(args, lambda: _lifted_tokenizer(args.lift, config))
    seed = args.seed or 0
    params, report = lift(weights, source, _fresh(config, seed), config, options)
    about = {
        "made_from": {"lift": str(args.lift), "family": source.family},
        "options": dataclasses.asdict(options),
        "seed": seed,
        **report.as_dict(),
    }
    files = Beside(tokenizer).native_files(config)
    native.save(args.out, params, config, about, files=files, overwrite=args.overwrite)
    return "\n".join(
        [report.text(), tokenizer_note(tokenizer), *_changed(asked, config)]
    )


def _changed(asked: EtcConfig, config: EtcConfig) -> list[str]:
    """What a run's config must say beside the file that was given."""
    before, after = dataclasses.asdict(asked), dataclasses.asdict(config)
    return [
        f"to be given in a run as well: --config.model.{name}={value}"
        for name, value in after.items()
        if value != before[name]
    ]


def convert_hf(args: argparse.Namespace) -> str:
    """A model of Hugging Face -> a saved model; the report of it."""
    source = model_source.find(args.hf, named="--hf")
    if not source.is_hf:
        raise ValueError(
            f"--hf is {args.hf}, which is {source.place.kind.value}: it is read by all "
            "commands as it is; name a folder of Hugging Face"
        )
    params, config, report = hugging_face.read(source.place.path)
    tokenizer = kept_tokenizer(args, lambda: source.tokenizer)
    beside, notes = beside_of(source, tokenizer)
    message = _save(args, "hf", params, config, report, beside)
    return "\n".join([message, tokenizer_note(tokenizer), *notes])


def _lifted_tokenizer(folder: str, config: EtcConfig) -> Tokenizer | None:
    """Of a folder of Hugging Face, for the model that is made of it."""
    try:
        tokenizer = open_tokenizer(folder)
    except FileNotFoundError:
        return None
    model_source.check_ids(tokenizer, config, folder)
    return tokenizer


def convert_trax(args: argparse.Namespace) -> str:
    """A Reformer of trax -> a saved model; the report of it."""
    why = "what is read of trax is a reformer"
    config = _model_of(args, ReformerConfig, why)
    weights = trax_reformer.read_weights(args.trax)
    params, report = trax_reformer.import_trax(weights, config)
    return _save(args, "trax", params, config, report)


def convert_fairseq(args: argparse.Namespace) -> str:
    """A BART of fairseq -> a saved model; the report of it."""
    model = fairseq_bart.read(args.fairseq)
    vocabulary = kept_tokenizer(args, lambda: _fairseq_vocabulary(args.fairseq, model))
    vocabulary = vocabulary or fairseq_vocabulary.Vocabulary()
    params, note = _with_mask_at_its_id(model, vocabulary)
    heads, tokenizer = list(model.report.unused), vocabulary.tokenizer
    converted = params, model.config, model.report, Beside(tokenizer)
    message = _save(args, "fairseq", *converted, left_over=heads, mask=note)
    lines = [message, tokenizer_note(tokenizer), note]
    if heads:
        lines.append(f"{len(heads)} of classification heads left out: {_listed(heads)}")
    return "\n".join(lines)


def _fairseq_vocabulary(
    path: str, model: fairseq_bart.FairseqModel
) -> fairseq_vocabulary.Vocabulary:
    folder = pathlib.Path(path).parent
    vocabulary = fairseq_vocabulary.read(folder, model.config.vocab_size)
    if vocabulary.tokenizer is not None:
        model_source.check_ids(vocabulary.tokenizer, model.config, folder)
    return vocabulary


def _with_mask_at_its_id(
    model: fairseq_bart.FairseqModel, vocabulary: fairseq_vocabulary.Vocabulary
) -> tuple[dict[str, Any], str]:
    """(parameters with `<mask>` in the row of its id, a line on that).

    Raises:
      ValueError: if its row is not known, or the vocabulary is that of another model.
    """
    params, rows, mask = model.params, model.config.vocab_size, vocabulary.mask_id
    kind = {"sentinels": model.has_sentinels, "masks": model.masks}
    row = vocabulary.mask_row(rows, **kind)
    if vocabulary.tokenizer is None:
        row_note = "" if row is None else f"<mask> is row {row}; "
        return params, row_note + _NO_VOCABULARY
    if row is None:
        spare = mask is not None and mask < rows
        filler = f"; row {mask}, its id, is a filler word's" if spare else ""
        return params, f"the file has no row for <mask>{filler}"
    if mask is None or row == mask:
        return params, f"<mask> is row {row}"
    if mask >= rows:
        raise ValueError(
            f"the tokenizer beside the file has <mask> as id {mask}, but the table "
            f"{rows} rows: it is that of another model; put the one of this model there"
        )
    return fairseq_bart.with_rows_swapped(params, row, mask), (
        f"<mask> is row {row} of the file and id {mask} of the tokenizer: the two rows "
        "have changed places"
    )


_NO_VOCABULARY = (
    "texts need encoder.json and vocab.bpe of GPT-2 with the model's dict.txt, or "
    "vocab.json and merges.txt of RoBERTa, beside the file"
)


def _save(
    args: argparse.Namespace,
    mode: str,
    params,
    config,
    report: Report,
    beside: Beside = _NOTHING,
    **more: Any,
) -> str:
    """Saves a model that was imported whole; the report of it."""
    loaded = {path: list(names) for path, names in report.loaded.items()}
    about = {"made_from": {mode: str(getattr(args, mode))}, "loaded": loaded, **more}
    files = beside.native_files(config)
    native.save(args.out, params, config, about, files=files, overwrite=args.overwrite)
    return f"{len(loaded)} arrays of {type(config).__name__}"


def convert_to_hf(args: argparse.Namespace) -> str:
    """A model of ours -> one that transformers reads; the report of it."""
    source = model_source.find(args.to_hf, args.step, named="--to_hf")
    config, tokenizer = source.config, kept_tokenizer(args, lambda: source.tokenizer)
    beside, notes = beside_of(source, tokenizer)
    with may_be_left_out():
        files = beside.hugging_face_files(config)
    count = hugging_face.save(
        args.out, source.params, config, files=files, labels=beside.labels
    )
    lines = [f"{count} arrays of {type(config).__name__}", tokenizer_note(tokenizer)]
    return "\n".join([*lines, *notes, *([] if tokenizer else [_NO_TOKENIZER])])


# What transformers does where a folder has none.
_NO_TOKENIZER = (
    "transformers would make up a tokenizer for the folder, with a vocabulary of five "
    "tokens: put the files of the model's own there"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code: 2 for bad input, 4 for a damaged run."""
    argv = sys.argv[1:] if argv is None else list(argv)
    if argv[:1] == ["extend"]:
        return extend.main(argv[1:])
    if argv[:1] == ["grow"]:
        return grow.main(argv[1:])
    args = _parse(argv)
    return carry_out(_PROG, lambda: _convert(args), args.out)


def _convert(args: argparse.Namespace) -> str:
    native.check_free(args.out, overwrite=args.overwrite)
    if args.official is not None:
        return convert_official(args)
    if args.hf is not None:
        return convert_hf(args)
    if args.trax is not None:
        return convert_trax(args)
    if args.to_hf is not None:
        return convert_to_hf(args)
    if args.fairseq is not None:
        return convert_fairseq(args)
    if args.export is not None:
        return export_run(
            args.export, args.out, step=args.step, overwrite=args.overwrite
        )
    return convert_lifted(args)


if __name__ == "__main__":
    sys.exit(main())
