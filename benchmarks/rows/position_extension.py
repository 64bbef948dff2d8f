"""Positions of a model made long: copied block by block, or begun anew.

    python -m benchmarks position_extension --paths="books/*.jsonl.gz" --out=extend.json
    python -m benchmarks position_extension --paths=books.txt --source=bytes

Trains a small RoBERTa on masked tokens of a text at 128 positions, extends it to a
Longformer of eight times as many (`etc-jax convert extend`), once with the learnt
positions copied and once with random ones after them, and counts the loss of masked
tokens before, at once after that, and after some further steps; beside it the entropy
of the masked tokens themselves, which a model has that knows no more than how often
each one comes. The paper's finding of the base model (Beltagy et al. 2020, table 5), in
bits a token: 10.3 with random positions, 1.96 with copied ones, 1.85 for RoBERTa.

The RoBERTa begins as one that sees --near_window tokens around each (--near_steps):
among 128 a small model takes millions of tokens to find that the next one tells most.

Runs that are finished are not trained again. Arguments of the form --config.A.B=VALUE
go to all runs.
"""

from __future__ import annotations

import argparse
import dataclasses
import glob
import pathlib
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from etils import epath

from benchmarks.kit import finetuning_runs, report, rows
from etc_jax import config as config_lib
from etc_jax.base import registry
from etc_jax.conversion.formats import native
from etc_jax.conversion.surgery.extend import Extension, extend
from etc_jax.data.text.cache import TOKENIZER
from etc_jax.training.checkpoints.saved_params import read_params

SHORT_LENGTH, TIMES = 128, 8
WINDOW = 128
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
class Run:
    """What was seen with one seed; losses in nats a masked token.

    Attributes:
      seed: of everything.
      entropy: of the masked tokens of the evaluation.
      short: loss of the short model.
      start: loss of the long one before any step, by how its positions begin.
      later: the same after the further steps.
      cpu_secs: of all training.
    """

    seed: int
    entropy: float
    short: float
    start: dict[str, float]
    later: dict[str, float]
    cpu_secs: float


def config_of(
    args: argparse.Namespace, family: str, seed: int, changes: Sequence[str], **sections
) -> config_lib.Config:
    """The checked config of a run.

    Args:
      args: of the command.
      family: of the model.
      seed: of the run.
      changes: of the command line.
      **sections: section -> changes of its fields.

    Raises:
      ValueError: if a change does not fit.
    """
    config = config_lib.default_config(family)
    config.model.update(SIZES)
    config.objective.name = "masked_lm"
    vocab_size = BYTES if args.source == "bytes" else args.vocab_size
    config.data.update(
        source=args.source,
        paths=tuple(sorted(glob.glob(args.paths))) or (args.paths,),
        cache_dir=str(args.workdir / "cache"),
        vocab_size=vocab_size,
    )
    config.model.vocab_size = vocab_size
    config.optimizer.update(
        learning_rate=RATE, b2=0.98, weight_decay=0.01, clip_norm=1.0
    )
    config.train.update(
        seed=seed,
        log_every_steps=50,
        compile_cache_dir=str(args.workdir / "compile_cache"),
    )
    config.checkpoint.update(keep=1)
    for section, fields in sections.items():
        config[section].update(fields)
    return finetuning_runs.changed(config, changes)


def _lengths(
    args: argparse.Namespace, length: int, steps: int, warmup: int
) -> dict[str, dict[str, Any]]:
    """Sections of a run at a length, with as many tokens a step at every length."""
    return {
        "model": {"max_length": length},
        "data": {"input_length": length},
        "schedule": {"name": "linear", "warmup_steps": warmup},
        "train": {
            "num_steps": steps,
            "batch_size": max(1, args.tokens // length),
            "eval_every_steps": steps,
        },
    }


def evaluate(
    config: config_lib.Config, folder: pathlib.Path, params: Any
) -> tuple[float, float]:
    """(loss, entropy of what is predicted) in nats a masked token, held-back text.

    Args:
      config: of the run.
      folder: where the tokenizer of the data may be put.
      params: of the model.
    """
    folder.mkdir(parents=True, exist_ok=True)
    job = registry.lookup("objective", config.objective.name)(
        config, epath.Path(folder)
    )
    loss_fn = jax.jit(lambda batch: job.loss_fn(params, batch, None, True)["loss"])
    rows = np.arange(config.train.batch_size)
    total = weight = 0.0
    counts = np.zeros(config.model.vocab_size)
    for batch in job.eval_batches(rows):
        sums = loss_fn(batch)
        total, weight = total + float(sums[0]), weight + float(sums[1])
        np.add.at(counts, batch["mlm_targets"][batch["mlm_weights"] > 0], 1)
    shares = counts[counts > 0] / counts.sum()
    return total / weight, float(-(shares * np.log(shares)).sum())


def _train_short(
    seed: int, args: argparse.Namespace, changes: Sequence[str], folder: pathlib.Path
) -> tuple[config_lib.Config, float]:
    """(config, CPU seconds) of the short model, which is trained in two parts."""
    sections = _lengths(args, args.short_length, args.near_steps, args.near_steps // 10)
    sections["model"]["attention_window"] = (args.near_window,)
    near = config_of(args, "longformer", seed, changes, **sections)
    cpu_secs = finetuning_runs.train(near, folder / "near").cpu_secs
    sections = _lengths(args, args.short_length, args.steps, args.steps // 10)
    init = {"init_from": str(folder / "near"), "init_from_partial": _GLOBAL}
    init["init_from_changes"] = ("family",)
    short = config_of(args, "roberta", seed, changes, checkpoint=init, **sections)
    return short, cpu_secs + finetuning_runs.train(short, folder / "short").cpu_secs


@dataclasses.dataclass(frozen=True)
class Study(rows.Study):
    """A run is a short model of a seed and all that is made of it.

    Attributes:
      args: of the command line.
      changes: see `finetuning_runs.changed`.
    """

    args: argparse.Namespace = dataclasses.field(kw_only=True)
    changes: Sequence[str] = ()

    def run(self, row: str, seed: int) -> Run:
        """Trains, unless that was done before, extends and trains on.

        Raises:
          RunError: see `finetuning_runs.train`.
        """
        args, folder = self.args, self.folder / f"seed{seed}"
        short, cpu_secs = _train_short(seed, args, self.changes, folder)
        params = jax.tree.map(np.asarray, read_params(folder / "short").params)
        aside = folder / "evaluation"
        before, entropy = evaluate(short, aside, params)
        length = TIMES * args.short_length
        sections = _lengths(args, length, args.more_steps, args.more_steps // 10)
        sections["model"]["attention_window"] = (args.window,)
        sections["optimizer"] = {"learning_rate": MORE_RATE}
        start, later = {}, {}
        for kind in KINDS:
            asked = Extension(
                "longformer", length, args.window, positions=kind, seed=seed
            )
            made = extend(params, short.model, asked)
            model = folder / f"model_{kind}"
            _save(made, folder / "short", model)
            sections["checkpoint"] = {"init_from": str(model)}
            config = config_of(args, "longformer", seed, self.changes, **sections)
            start[kind] = evaluate(config, aside, made.params)[0]
            cpu_secs += finetuning_runs.train(config, folder / kind).cpu_secs
            trained = jax.tree.map(np.asarray, read_params(folder / kind).params)
            later[kind] = evaluate(config, aside, trained)[0]
        return Run(seed, entropy, before, start, later, cpu_secs)

    def summary(self, run: Run) -> str:
        return self.table([run])

    def is_as_wanted(self, runs: Sequence[Run]) -> bool:
        return True

    def table(self, runs: Sequence[Run]) -> str:
        """Losses of each seed, and how far they are from the short model's."""
        head = ["seed", "entropy", "short"]
        times = ("at once", self.args.more_steps)
        head += [f"{kind}, {when}" for when in times for kind in KINDS]
        head += ["gap new / gap copy", "CPU min"]
        lines = []
        for r in runs:
            losses = [found[kind] for found in (r.start, r.later) for kind in KINDS]
            gaps = [r.start[kind] - r.short for kind in KINDS]
            lines.append(
                [
                    str(r.seed),
                    *(f"{x:.3f}" for x in (r.entropy, r.short, *losses)),
                    f"{gaps[1] / gaps[0]:.1f}" if gaps[0] > 0 else "copy has none",
                    f"{r.cpu_secs / 60:.1f}",
                ]
            )
        return report.table(head, lines)


def _save(made: Any, short: pathlib.Path, out: pathlib.Path) -> None:
    """Writes an extended model beside the tokenizer of the run that it is made from."""
    tokenizer, about = short / TOKENIZER, {"made_from": str(short)}
    # Bytes have none.
    files = {TOKENIZER: tokenizer.read_bytes()} if tokenizer.is_file() else {}
    native.save(out, made.params, made.config, about, files=files, overwrite=True)


def prepare(args: argparse.Namespace, changes: Sequence[str]) -> Study:
    """What is to be trained."""
    args.workdir = (args.workdir or pathlib.Path("runs/extension")).absolute()
    names = ("source", "tokens", "near_steps", "near_window", "steps")
    names += ("more_steps", "short_length", "window")
    return Study(
        args.workdir,
        lambda row, seed: config_of(args, "longformer", seed, changes),
        lambda config, folder: {},
        measure="loss",
        metric="loss",
        about={name: getattr(args, name) for name in names},
        args=args,
        changes=changes,
    )


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = rows.parser("position_extension", __doc__)
    add = made.add_argument
    add("--paths", required=True, help="files, a glob")
    add(
        "--source",
        choices=("jsonl", "bytes"),
        default="jsonl",
        help="JSONL with a field text, in tokens of its own, or files as they are",
    )
    near = "of the short model, seeing little"
    add("--near_steps", type=int, default=1500, help=near)
    add("--near_window", type=int, default=8, help="tokens, both sides together")
    add("--steps", type=int, default=1000, help="of the short model, seeing all")
    add("--more_steps", type=int, default=200, help="of the long one")
    add("--tokens", type=int, default=2048, help="of a step, at every length")
    add("--short_length", type=int, default=SHORT_LENGTH)
    add("--window", type=int, default=WINDOW)
    add("--vocab_size", type=int, default=4096, help="of the tokens of text")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the comparison; returns the exit code."""
    return rows.main(parser(), argv, prepare)
