"""Positions of a model made long: copied block by block, or begun anew.

    python -m benchmarks position_extension --paths="books/*.jsonl.gz" --out=extend.json
    python -m benchmarks position_extension --paths=books.txt --source=bytes

Trains a small RoBERTa on masked tokens of a text at 128 positions and extends it to a
Longformer of eight times as many (`etc-jax extend`), whose rows are trained on:

  copy  the learnt positions again and again
  new   random positions after the learnt ones

Losses are in nats a masked token of validation text: after the further steps, at once
after extending, and of the short model; `gap` is the loss at once less that of the
short model. `entropy` is that of the masked tokens themselves, the loss of a model that
knows no more than how often each one comes. The paper's finding of the base model
(Beltagy et al. 2020, table 5), in bits a token: 10.3 with random positions, 1.96 with
copied ones, 1.85 for RoBERTa.

The RoBERTa begins as one that sees --near_window tokens around each (--near_steps):
among 128 a small model takes millions of tokens to find that the next one tells most.
"""

from __future__ import annotations

import argparse
import dataclasses
import glob
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.kit import finetuning_runs, rows
from benchmarks.kit.finetuning_runs import Spent, params_of, validation_loss
from etc_jax import config as config_lib
from etc_jax.conversion.formats import native
from etc_jax.data.text.cache import TOKENIZER
from etc_jax.models.extension import Extension, extend

TIMES = 8
SIZES = {
    "embed_dim": 128,
    "num_layers": 4,
    "num_heads": 4,
    "mlp_dim": 512,
    "dropout_rate": 0.0,
    "attention_dropout_rate": 0.0,
    "initializer_range": 0.05,
}
KINDS = ("copy", "new")
# Learning rates: of the short model, and of the long ones, which go on from it.
RATE, MORE_RATE = 3e-3, 1e-3
# What a RoBERTa has not of a Longformer's parameters.
_GLOBAL = tuple(
    f"encoder/stack/layers/period/layer_0/attention/{kind}_global"
    for kind in ("query", "key", "value")
)
# Ids of bytes, and those of what is masked and filled up with.
BYTES = 320


@dataclasses.dataclass(frozen=True)
class Positions:
    """What all runs share.

    Attributes:
      args: of the command line.
      changes: see `finetuning_runs.changed`.
    """

    args: argparse.Namespace
    changes: Sequence[str]

    def config(
        self, family: str, seed: int, length: int, steps: int, **sections: Any
    ) -> config_lib.Config:
        """The checked config of a run, with as many tokens a step at every length.

        Args:
          family: of the model.
          seed: of the run.
          length: of an input, and positions.
          steps: of training.
          **sections: section -> changes of its fields.

        Raises:
          ValueError: if a change does not fit.
        """
        args, config = self.args, config_lib.default_config(family)
        vocab_size = BYTES if args.source == "bytes" else args.vocab_size
        config.objective.name = "masked_lm"
        config.model.update(SIZES, vocab_size=vocab_size, max_length=length)
        config.data.update(
            source=args.source,
            paths=tuple(sorted(glob.glob(args.paths))) or (args.paths,),
            cache_dir=str(args.workdir / "cache"),
            vocab_size=vocab_size,
            input_length=length,
        )
        config.optimizer.update(
            learning_rate=RATE, b2=0.98, weight_decay=0.01, clip_norm=1.0
        )
        config.schedule.update(name="linear", warmup_steps=steps // 10)
        config.train.update(
            num_steps=steps,
            batch_size=max(1, args.tokens // length),
            eval_every_steps=steps,
            seed=seed,
            log_every_steps=50,
            compile_cache_dir=str(args.workdir / "compile_cache"),
        )
        config.checkpoint.keep = 1
        for section, fields in sections.items():
            config[section].update(fields)
        return finetuning_runs.changed(config, self.changes)

    def short(self, seed: int) -> config_lib.Config:
        """The config of the short model when it sees all."""
        start = {
            "init_from": str(self.folder(seed) / "near"),
            "init_from_partial": _GLOBAL,
            "init_from_changes": ("family",),
        }
        args = self.args
        lengths = args.short_length, args.steps
        return self.config("roberta", seed, *lengths, checkpoint=start)

    def long(self, kind: str, seed: int) -> config_lib.Config:
        """The config of a row."""
        args, model = self.args, self.folder(seed) / f"model_{kind}"
        return self.config(
            "longformer",
            seed,
            TIMES * args.short_length,
            args.more_steps,
            model={"attention_window": (args.window,)},
            optimizer={"learning_rate": MORE_RATE},
            checkpoint={"init_from": str(model)},
        )

    def folder(self, seed: int) -> pathlib.Path:
        """Of the short model of a seed, and what is made of it."""
        return self.args.workdir / f"seed{seed}"

    def before(self, kind: str, seed: int) -> Spent:
        """Trains the short model, unless that was done before, and extends it.

        Raises:
          RunError: see `finetuning_runs.train`.
        """
        args, folder = self.args, self.folder(seed)
        near = self.config(
            "longformer",
            seed,
            args.short_length,
            args.near_steps,
            model={"attention_window": (args.near_window,)},
        )
        spent = finetuning_runs.train(near, folder / "near")
        config = self.short(seed)
        spent += finetuning_runs.train(config, folder / "short")
        made = extend(
            params_of(folder / "short"),
            config.model,
            Extension(
                "longformer",
                TIMES * args.short_length,
                args.window,
                positions=kind,
                seed=seed,
            ),
        )
        tokenizer = folder / "short" / TOKENIZER
        # Bytes have none.
        files = {TOKENIZER: tokenizer.read_bytes()} if tokenizer.is_file() else {}
        about = {"made_from": str(folder / "short")}
        out = folder / f"model_{kind}"
        native.save(out, made.params, made.config, about, files=files, overwrite=True)
        return spent

    def scores(
        self, config: config_lib.Config, folder: pathlib.Path
    ) -> dict[str, float]:
        """Losses of a row, and the entropy of what is predicted."""
        aside, short = folder / "evaluation", self.short(config.train.seed)
        extended = native.load(pathlib.Path(config.checkpoint.init_from))[0]
        loss = validation_loss(config, aside, params_of(folder))
        at_once = validation_loss(config, aside, extended)
        first = self.folder(config.train.seed) / "short"
        before = validation_loss(short, aside, params_of(first))
        return {
            "loss": loss,
            "at once": at_once,
            "short": before,
            "gap": at_once - before,
            "entropy": entropy(short, aside),
        }


def entropy(config: config_lib.Config, folder: pathlib.Path) -> float:
    """Nats of the masked tokens of the validation text; see `validation_loss`."""
    job = finetuning_runs.open_job(config, folder)
    counts = np.zeros(config.model.vocab_size)
    for batch in job.eval_batches(np.arange(config.train.batch_size)):
        np.add.at(counts, batch["mlm_targets"][batch["mlm_weights"] > 0], 1)
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def prepare(args: argparse.Namespace, changes: Sequence[str]) -> rows.Study:
    """What is to be trained."""
    args.workdir = (args.workdir or pathlib.Path("runs/extension")).absolute()
    positions = Positions(args, changes)
    names = ("source", "tokens", "near_steps", "near_window", "steps")
    names += ("more_steps", "short_length", "window")
    return rows.Study(
        args.workdir,
        positions.long,
        positions.scores,
        measure="loss",
        metric="loss",
        before_fn=positions.before,
        scale=1.0,
        form=".3f",
        beside=("at once", "short", "gap", "entropy"),
        pairs=(("new", "copy"),),
        about={name: getattr(args, name) for name in names},
    )


def _add(add) -> None:
    add("--paths", required=True, help="files, a glob")
    add(
        "--source",
        choices=("jsonl", "bytes"),
        default="jsonl",
        help="JSONL with a field text, in tokens of its own, or files as they are",
    )


main = rows.Command(
    __name__,
    __doc__,
    prepare,
    KINDS,
    {
        "near_steps": (1500, "of the short model, seeing little"),
        "near_window": (8, "tokens that it sees, both sides together"),
        "steps": (1000, "of the short model, seeing all"),
        "more_steps": (200, "of the long one"),
        "tokens": (2048, "of a step, at every length"),
        "short_length": (128, "of an input of the short model"),
        "window": (128, "of the long one"),
        "vocab_size": (4096, "of the tokens of text"),
    },
    _add,
).main
