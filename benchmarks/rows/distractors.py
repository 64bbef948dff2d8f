"""A paragraph among others: SLED's figure 3, at a size that learns on a CPU.

    python -m benchmarks distractors --out=distractors.json
    python -m benchmarks distractors --rows=alone,sled --seeds=0 --out=two_rows.json

Invented articles in SQuAD's form (`etc_jax.tasks.synthetic`), each question among other
paragraphs (`tasks.squad.distractors`), which say the same things of other names. A row
is a system (Ivgi et al. 2022, sections 4.1 and 4.3) and an order of the paragraphs,
such as "sled-shuffled":

  alone      the backbone reads the right paragraph alone: what a model reaches that
             need not search
  truncated  the backbone reads the first half of the input
  sled       windows of 18 tokens, half of them context, behind the question
  no_prefix  the question is a window of its own
  one_token  windows of one token behind the question
  led        the backbone made a LED of such windows; the question is global
  led_local  the same, where only the first token is
  bart_ls    the backbone made a BART-LS: blocks behind the question, and averages

  -ordered   the right paragraph comes first
  -shuffled  the paragraphs come in a random order

--read=N has all systems but `alone` and `truncated` read N paragraphs of an input.

All rows begin with one backbone, a BART trained from random weights on questions of
short texts (`distractor_items`): does the text have the answer, and what is it? All
rows see the same questions, each once. The score is SQuAD's own, on validation
questions. Of --config.A.B=VALUE those of the model go to the backbone too.
"""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import ml_collections

from benchmarks.data import distractor_items
from benchmarks.data.distractor_items import (
    PIECE,
    QUESTION,
    SHORT,
    SHORT_LENGTH,
    TASK,
    Items,
    length_of,
)
from benchmarks.kit import finetuning_runs, rows
from etc_jax import config as config_lib
from etc_jax.config import Config
from etc_jax.conversion.formats import native
from etc_jax.data.windows.cache import WindowCache

# Systems that search have a row for each order.
SYSTEMS = (
    *("sled", "truncated", "no_prefix", "one_token"),
    *("led", "led_local", "bart_ls"),
)
ORDERS = ("ordered", "shuffled")
NAMES = ("alone", *(f"{system}-{order}" for system in SYSTEMS for order in ORDERS))
PAIRS = tuple(
    (f"sled-{order}", f"{system}-{order}") for system in SYSTEMS[1:] for order in ORDERS
)
# Figure 3, F1 of BART-base on the right paragraph. SLED has 87.6, of which order the
# text does not say; the other bars have no numbers in it.
PAPER = {"alone": {"f1": 88.1}}

MODEL = {
    "embed_dim": 64,
    "num_heads": 4,
    "num_layers": 2,
    "num_decoder_layers": 1,
    "mlp_dim": 256,
    "max_length": 512,
    "activation": "relu",
    "dropout_rate": 0.0,
    # Norms before the branches: the other order learns the names later, if at all.
    "pre_norm": True,
    "final_norm": True,
    # That of BART is for widths of 768: narrow layers would hardly begin to learn.
    "initializer_range": 0.1,
    "forced_eos_id": None,
}
# As long as the pieces that the backbone has learnt.
_WINDOWS = {"window": PIECE, "prefix_length": QUESTION}
# Fields of `SledConfig`; the others are the backbone alone.
_SLED: Mapping[str, Mapping[str, Any]] = {
    "sled": _WINDOWS,
    "no_prefix": {**_WINDOWS, "prefix_in_windows": False},
    "one_token": {**_WINDOWS, "window": 1},
}
_MAX_LENGTH = MODEL["max_length"]
# A piece and an end token behind the question.
_BLOCK = QUESTION + PIECE
# Families that `etc-jax extend` makes of the backbone -> (options of it, fields that
# its model then has).
_EXTENDED: Mapping[str, tuple[tuple[str, ...], Mapping[str, Any]]] = {
    "led": (
        (f"--window={PIECE}",),
        {"attention_window": (PIECE,), "max_target_length": _MAX_LENGTH},
    ),
    "bart_ls": (
        (f"--block_size={_BLOCK}",),
        {
            "block_size": _BLOCK,
            "pooling_layers": MODEL["num_layers"] - 1,
            "max_target_length": _MAX_LENGTH,
        },
    ),
}
# System -> (family, first tokens of an input that are global).
_FAMILIES = {
    "led": ("led", QUESTION),
    "led_local": ("led", 1),
    "bart_ls": ("bart_ls", 0),
}
_BATCH, _SHORT_BATCH = 32, 64


def _parts_of(row: str) -> tuple[str, str]:
    """(system, order of the paragraphs)."""
    system, _, order = row.partition("-")
    return system, order or "alone"


def make_caches(
    row: str, items: Items, paragraphs: int, read: int | None = None
) -> tuple[WindowCache, WindowCache]:
    """Inputs of a row to learn from and to validate on, made once.

    Args:
      row: of `NAMES`.
      items: the questions.
      paragraphs: of each.
      read: of these, by all systems but `alone` and `truncated`; None: all.
    """
    system, order = _parts_of(row)
    if order == "alone":
        paragraphs = 1
    if system == "truncated":
        paragraphs //= 2
    elif read and order != "alone":
        paragraphs = min(read, paragraphs)
    apart = {"prefix_length": QUESTION} if system in {*_SLED, *_FAMILIES} else {}
    length = length_of(paragraphs)
    if system == "bart_ls":
        # Each block has the question, a piece and an end token.
        apart["prefix_every"] = _BLOCK
        length = -(-(length - QUESTION) // (PIECE - 1)) * _BLOCK
    return items.caches(order, length, apart)


def _small_config(
    caches: tuple[WindowCache, WindowCache],
    *,
    seed: int,
    steps: int,
    batch_size: int,
    family: str = "bart",
) -> ml_collections.ConfigDict:
    """A model from scratch, at the lengths of the inputs."""
    train, validation = caches
    made = config_lib.default_config(family, objective=TASK.name, source="windows")
    vocab_size = train.header["vocab_size"]
    special = train.load_tokenizer().special_id
    made.model.update(MODEL, vocab_size=vocab_size, eos_id=special("sep"))
    made.model.update(pad_id=special("pad"), decoder_start_id=special("cls"))
    lengths = {f"{name}_length": value for name, value in train.sizes.items()}
    finetuning_runs.read_caches(made, train, validation, **lengths)
    finetuning_runs.set_training(made, seed=seed, steps=steps)
    # One for all orders, whose inputs have the same shapes.
    compiled = train.path.parent.parent / "compile_cache"
    made.train.update(batch_size=batch_size, compile_cache_dir=str(compiled))
    return made


def short_config(
    caches: tuple[WindowCache, WindowCache], steps: int, changes: Sequence[str]
) -> Config:
    """The checked config of the backbone."""
    made = _small_config(caches, seed=0, steps=steps, batch_size=_SHORT_BATCH)
    made.optimizer.learning_rate = 3e-3
    of_model = [x for x in changes if x.startswith("--config.model.")]
    return finetuning_runs.changed(made, of_model)


def config_of(
    row: str,
    seed: int,
    caches: tuple[WindowCache, WindowCache],
    backbone: pathlib.Path,
    changes: Sequence[str],
) -> Config:
    """The checked config of a run: each question once.

    Args:
      row: of `NAMES`.
      seed: of the order of questions.
      caches: see `make_caches`.
      backbone: folder of the run that it begins with.
      changes: see `finetuning_runs.changed`.

    Raises:
      ValueError: if a change does not fit.
    """
    steps = caches[0].num_windows // _BATCH
    system, _ = _parts_of(row)
    family, global_tokens = _FAMILIES.get(system, ("bart", 0))
    made = _small_config(
        caches, seed=seed, steps=steps, batch_size=_BATCH, family=family
    )
    if system in _SLED:
        made.model.sled.update(_SLED[system], input_length=made.data.input_length)
    if family in _EXTENDED:
        _, fields = _EXTENDED[family]
        made.model.update(fields)
        made.objective.global_tokens = global_tokens
        backbone = _extended(family, backbone)
    made.checkpoint.init_from = str(backbone.resolve())
    return finetuning_runs.changed(made, changes)


def _extended(family: str, backbone: pathlib.Path) -> pathlib.Path:
    """The folder of the backbone as another family."""
    return backbone.with_name(f"{backbone.name}_{family}")


def _extend(family: str, backbone: pathlib.Path) -> None:
    """Makes the folder if it is not there."""
    out = _extended(family, backbone)
    if not native.exists(out):
        options, _ = _EXTENDED[family]
        argv = f"--from={backbone}", f"--to={family}", f"--max_length={_MAX_LENGTH}"
        finetuning_runs.convert("extend", *argv, *options, f"--out={out}")


def prepare(args: argparse.Namespace, changes: Sequence[str]) -> rows.Study:
    """Makes the inputs.

    Raises:
      ValueError, OSError: if something given does not fit.
    """
    workdir = args.workdir or pathlib.Path("runs/distractors")
    backbone, paragraphs = workdir / "backbone", args.count + 1
    short = distractor_items.write_short(
        workdir / SHORT, questions=args.short_items, validation=args.validation
    )
    folder = workdir / f"{args.items}_of_{paragraphs}"
    items = distractor_items.write_items(
        folder / "items",
        short.tokenizer,
        questions=args.items,
        validation=args.validation,
        paragraphs=paragraphs,
    )
    caches = {row: make_caches(row, items, paragraphs, args.read) for row in args.rows}
    short_caches = short.caches(SHORT, SHORT_LENGTH, {})
    about = {"task": TASK.name, "items": args.items, "paragraphs": paragraphs}
    about["read"] = args.read or paragraphs

    def before(row: str, seed: int) -> finetuning_runs.Spent:
        config = short_config(short_caches, args.short_steps, changes)
        spent = finetuning_runs.train(config, backbone)
        system, _ = _parts_of(row)
        if system in _FAMILIES:
            _extend(_FAMILIES[system][0], backbone)
        about[SHORT] = rows.official(short.validation[SHORT])(config, backbone)
        return spent

    def score(config: Config, run: pathlib.Path) -> Mapping[str, float]:
        _, order = _parts_of(run.name.partition("_seed")[0])
        return rows.official(items.validation[order])(config, run)

    return rows.Study(
        folder / f"read_{args.read}" if args.read else folder,
        lambda row, seed: config_of(row, seed, caches[row], backbone, changes),
        score,
        measure=TASK.metric,
        metric="accuracy",
        before_fn=before,
        beside=("exact_match",),
        paper=PAPER,
        pairs=PAIRS,
        about=about,
    )


main = rows.Command(
    __name__,
    __doc__,
    prepare,
    NAMES,
    {
        "items": (3200, "to learn from"),
        "validation": (256, "items to be evaluated on"),
        "count": (3, "paragraphs beside the right one"),
        "read": (None, "paragraphs that are read of an input; None: all"),
        "short_items": (32_000, "for the backbone"),
        "short_steps": (2500, "of the backbone, of 64 questions"),
    },
).main
