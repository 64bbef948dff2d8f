"""What `etc-jax convert` makes a model of: a function for each kind of source.

Each takes the arguments of the command line, writes the folder --out, and returns the
report for people. The work itself is in `conversion`.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import Any, TypeVar

import jax

from etc_jax.cli import flag as config_flag
from etc_jax.cli.model_commands import (
    companions_of,
    kept_tokenizer,
    may_be_left_out,
    tokenizer_note,
)
from etc_jax.config.kinds import section_of
from etc_jax.conversion import hugging_face
from etc_jax.conversion.engine import Report
from etc_jax.conversion.formats import native
from etc_jax.conversion.formats.config_file import read_config_file
from etc_jax.conversion.formats.tf_checkpoint import TfCheckpoint
from etc_jax.data.tokenizers import fairseq as fairseq_vocabulary
from etc_jax.data.tokenizers.tokenizer import Tokenizer, open_tokenizer
from etc_jax.loading import model_card, model_source
from etc_jax.loading.companions import Companions
from etc_jax.loading.model_card import Origin
from etc_jax.loading.model_source import ModelSource
from etc_jax.models.bart import fairseq as fairseq_bart
from etc_jax.models.etc import bert_source, head_weights as etc_heads
from etc_jax.models.etc.config import EtcConfig
from etc_jax.models.etc.lift import LiftOptions, lift, lifted_config
from etc_jax.models.etc.official import config_from_official, import_official
from etc_jax.models.reformer import trax as trax_reformer
from etc_jax.models.reformer.config import ReformerConfig
from etc_jax.objectives.learners import finetuning
from etc_jax.objectives.pretraining import Pretraining
from etc_jax.objectives.sections import MlmCpcConfig
from etc_jax.ops import sampling

T = TypeVar("T")

OFFICIAL_CONFIG = "etc_config.json"
ENCODER = "encoder/"
# Flags of --lift that are fields of `LiftOptions`.
LIFT_OPTIONS = ("positions", "types", "activation", "epsilon")
_SHOWN = 8
_NOTHING = Companions(None)


# --- official ETC ---------------------------------------------------------------------


def _official_config(args: argparse.Namespace):
    checkpoint = pathlib.Path(args.official)
    folder = checkpoint if checkpoint.is_dir() else checkpoint.parent
    path = pathlib.Path(args.etc_config or folder / OFFICIAL_CONFIG)
    if not path.is_file():
        raise ValueError(f"no {path}; give the checkpoint's config by --etc_config")
    return read_config_file(path, config_from_official)


def official(args: argparse.Namespace) -> str:
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
    files = _card(args, args.official, params, config)
    native.save(args.out, params, config, about, files=files, overwrite=args.overwrite)
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


# --- BERT and RoBERTa, lifted ---------------------------------------------------------


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


def lifted(args: argparse.Namespace) -> str:
    """BERT or RoBERTa -> a saved model; the report of it."""
    asked = _model_of(args, EtcConfig, "BERT is lifted into etc")
    source, weights = bert_source.open_checkpoint(args.lift)
    flags = {name: getattr(args, name) for name in LIFT_OPTIONS}
    options = LiftOptions(
        token_rows=_token_rows(args.special or (), args.lift),
        **{name: value for name, value in flags.items() if value is not None},
    )
    config = lifted_config(source, asked, options)
    tokenizer = kept_tokenizer(args, lambda: _lifted_tokenizer(args.lift, config))
    seed = args.seed or 0
    params, report = lift(weights, source, _fresh(config, seed), config, options)
    about = {
        "made_from": {"lift": str(args.lift), "family": native.family_of(source)},
        "options": dataclasses.asdict(options),
        "seed": seed,
        **report.as_dict(),
    }
    files = Companions(tokenizer).native_files(config)
    files |= _card(args, args.lift, params, config)
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


def _lifted_tokenizer(folder: str, config: EtcConfig) -> Tokenizer | None:
    """Of a folder of Hugging Face, for the model that is made of it."""
    try:
        tokenizer = open_tokenizer(folder)
    except FileNotFoundError:
        return None
    model_source.check_ids(tokenizer, config, folder)
    return tokenizer


# --- Hugging Face ---------------------------------------------------------------------


def hf(args: argparse.Namespace) -> str:
    """A model of Hugging Face -> a saved model; the report of it."""
    source = model_source.find(args.hf, named="--hf")
    if not source.is_hf:
        raise ValueError(
            f"--hf is {args.hf}, which is {source.place.kind.value}: it is read by all "
            "commands as it is; name a folder of Hugging Face"
        )
    params, config, report = hugging_face.read(source.place.path)
    tokenizer = kept_tokenizer(args, lambda: source.tokenizer)
    companions, notes = companions_of(source, tokenizer)
    message = _save(args, "hf", params, config, report, companions, source=source)
    return "\n".join([message, tokenizer_note(tokenizer), *notes])


def to_hf(args: argparse.Namespace) -> str:
    """A model of ours -> one that transformers reads; the report of it."""
    source = model_source.find(args.to_hf, args.step, named="--to_hf")
    config, tokenizer = source.config, kept_tokenizer(args, lambda: source.tokenizer)
    companions, notes = companions_of(source, tokenizer)
    with may_be_left_out():
        files = companions.hugging_face_files(config)
    origin = Origin(args.to_hf, args.command_line, source, is_source=True)
    files |= model_card.files_of(
        args.out, source.params, config, origin, for_transformers=True
    )
    count = hugging_face.save(
        args.out, source.params, config, files=files, labels=companions.labels
    )
    lines = [f"{count} arrays of {type(config).__name__}", tokenizer_note(tokenizer)]
    return "\n".join([*lines, *notes, *([] if tokenizer else [_NO_TOKENIZER])])


# What transformers does where a folder has none.
_NO_TOKENIZER = (
    "transformers would make up a tokenizer for the folder, with a vocabulary of five "
    "tokens: put the files of the model's own there"
)


# --- trax and fairseq -----------------------------------------------------------------


def trax(args: argparse.Namespace) -> str:
    """A Reformer of trax -> a saved model; the report of it."""
    why = "what is read of trax is a reformer"
    config = _model_of(args, ReformerConfig, why)
    weights = trax_reformer.read_weights(args.trax)
    params, report = trax_reformer.import_trax(weights, config)
    return _save(args, "trax", params, config, report)


def fairseq(args: argparse.Namespace) -> str:
    """A BART of fairseq -> a saved model; the report of it."""
    model = fairseq_bart.read(args.fairseq)
    vocabulary = kept_tokenizer(args, lambda: _fairseq_vocabulary(args.fairseq, model))
    vocabulary = vocabulary or fairseq_vocabulary.Vocabulary()
    params, note = _with_mask_at_its_id(model, vocabulary)
    heads, tokenizer = list(model.report.unused), vocabulary.tokenizer
    converted = params, model.config, model.report, Companions(tokenizer)
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


# --- what they share ------------------------------------------------------------------


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


def _fresh(config: EtcConfig, seed: int) -> dict[str, Any]:
    """Initialised parameters of the model with the heads of pre-training."""
    return _init(Pretraining(config, MlmCpcConfig()), sampling.key(seed))


@functools.partial(jax.jit, static_argnums=0)
def _init(task: Pretraining, rng: jax.Array) -> dict[str, Any]:
    return task.init(rng)


def _save(
    args: argparse.Namespace,
    mode: str,
    params,
    config,
    report: Report,
    companions: Companions = _NOTHING,
    source: ModelSource | None = None,
    **more: Any,
) -> str:
    """Saves a model that was imported whole; the report of it."""
    loaded = {path: list(names) for path, names in report.loaded.items()}
    name = str(getattr(args, mode))
    about = {"made_from": {mode: name}, "loaded": loaded, **more}
    files = companions.native_files(config)
    files |= _card(args, name, params, config, source)
    native.save(args.out, params, config, about, files=files, overwrite=args.overwrite)
    return f"{len(loaded)} arrays of {type(config).__name__}"


def _card(
    args: argparse.Namespace,
    name: str,
    params,
    config,
    source: ModelSource | None = None,
) -> dict[str, bytes]:
    """The card of a model that was made of what the user named."""
    origin = Origin(str(name), args.command_line, source)
    return model_card.files_of(args.out, params, config, origin)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN]) or "none"
    more = len(names) - _SHOWN
    return shown if more <= 0 else f"{shown} and {more} more (see {native.REPORT})"
