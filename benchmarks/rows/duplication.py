"""Table 2 of the Reformer paper: one attention in training, others in evaluation.

    python -m benchmarks duplication --short --out=duplication.json
    python -m benchmarks duplication --seeds=0 --rows=lsh4 --out=duplication.json

Trains `--config=reformer_duplication` with full attention and with 4, 2 and 1 rounds
of hashing, and counts with each trained model the symbols of the second half that it
predicts, with full attention and with 8, 4, 2 and 1 rounds; beside it the metrics of
the paper, which trains 150,000 steps on 1,024 symbols. --short: 256 symbols, for a CPU.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

import jax

from benchmarks.kit import finetuning_runs, rows
from etc_jax.config import Config
from etc_jax.configs.reformer import reformer_duplication
from etc_jax.data.bytes.duplication import DuplicationReader
from etc_jax.models.reformer.body import ReformerLm
from etc_jax.models.reformer.config import ReformerConfig

# Of the paper, in percent: trained -> evaluated.
PAPER = {
    "full": {"full": 100.0, "8": 94.8, "4": 92.5, "2": 76.9, "1": 52.5},
    "lsh4": {"full": 0.8, "8": 100.0, "4": 99.9, "2": 99.4, "1": 91.9},
    "lsh2": {"full": 0.8, "8": 100.0, "4": 99.9, "2": 98.1, "1": 86.8},
    "lsh1": {"full": 0.8, "8": 99.9, "4": 99.6, "2": 94.8, "1": 77.9},
}
COLUMNS = tuple(PAPER["full"])
# The row whose config says how many buckets there are, and how long chunks.
BUCKETS = "lsh4"
_BATCH, _BATCHES = 32, 16


def config_of(row: str, seed: int, *, short: bool, changes: Sequence[str]) -> Config:
    """The checked config of a run.

    Raises:
      ValueError: if a change does not fit.
    """
    made = reformer_duplication.get_config(f"{row},short" if short else row)
    made.train.seed = seed
    # Another draw of rotations in evaluation for each seed.
    made.model.hash_seed = seed
    return finetuning_runs.changed(made, changes)


def model_for(column: str, trained: Config, buckets: ReformerConfig):
    """The model of a run with the attention of a column.

    Args:
      column: of `COLUMNS`.
      trained: config of the run.
      buckets: the model that says how many there are, and how long chunks.
    """
    changes: dict[str, Any] = {"lsh_chunk_length": trained.model.max_length}
    if column != "full":
        changes = {
            "num_hashes": int(column),
            "num_buckets": buckets.num_buckets,
            "lsh_chunk_length": buckets.lsh_chunk_length,
        }
    return dataclasses.replace(trained.model, **changes)


def accuracy(params: Any, model: ReformerConfig, trained: Config) -> float:
    """Percent of the symbols of the second half that are predicted.

    Args:
      params: of `ReformerLm`.
      model: config, which may have another attention than that of training.
      trained: config of the run.
    """
    reader = DuplicationReader(
        length=trained.data.input_length,
        num_symbols=trained.data.vocab_size,
        batch_size=_BATCH,
        seed=trained.train.seed,
        evaluation=True,
    )
    lm = ReformerLm(model)

    @jax.jit
    def hits(params, batch):
        args = batch["tokens"], batch["targets"]
        _, right = lm.apply({"params": params}, *args, method=lm.losses)
        return (right * batch["target_weights"]).sum()

    batches = [reader.batch_at(step) for step in range(_BATCHES)]
    found = sum(float(hits(params, batch)) for batch in batches)
    return 100 * found / sum(float(batch["target_weights"].sum()) for batch in batches)


def prepare(args: argparse.Namespace, changes: Sequence[str]) -> rows.Study:
    """What is to be trained."""

    def config_fn(row: str, seed: int) -> Config:
        return config_of(row, seed, short=args.short, changes=changes)

    def scores(config: Config, folder: pathlib.Path) -> dict[str, float]:
        buckets = config_fn(BUCKETS, config.train.seed).model
        params = finetuning_runs.params_of(folder)
        return {
            c: accuracy(params, model_for(c, config, buckets), config) for c in COLUMNS
        }

    return rows.Study(
        args.workdir or pathlib.Path("runs/duplication"),
        config_fn,
        scores,
        measure=COLUMNS[0],
        metric="accuracy",
        beside=COLUMNS[1:],
        paper=PAPER,
        about={"short": args.short},
    )


main = rows.Command(
    __name__,
    __doc__,
    prepare,
    PAPER,
    add_fn=lambda add: add("--short", action="store_true", help="256 symbols"),
).main
