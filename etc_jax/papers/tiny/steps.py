"""Commands that several tiny studies are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etc_jax.papers.chain import Chain, Measured
from etc_jax.papers.table import find

TRAIN, DEV = "train", "dev"
# Of the invented records to learn from, and of the others: they have nothing in common.
_SEEDS = {TRAIN: 1, DEV: 2}


# Fields of an encoder-decoder that learns in minutes what is invented.
BART = {
    "model.embed_dim": 64,
    "model.num_layers": 2,
    "model.num_decoder_layers": 1,
    "model.activation": "relu",
    "model.dropout_rate": 0.0,
    # Norms before the branches: the other order learns names later, if at all.
    "model.pre_norm": True,
    "model.final_norm": True,
    # That of BART is for widths of 768: narrow layers would hardly begin to learn.
    "model.initializer_range": 0.1,
}


def changes(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Flags of fields of a config, by their dotted names."""
    return tuple(f"--config.{name}={value}" for name, value in values.items())


def invented(
    chain: Chain, name: str, part: str, count: int, *flags: str, end: str = ".json"
) -> str:
    """A file of invented records.

    Args:
      chain: to add to.
      name: of the file's folder.
      part: `TRAIN` or `DEV`, whose seeds differ.
      count: of records.
      *flags: `--task` of `etc-jax synthetic`, and how large and hard records are.
      end: of the file's name.
    """
    more = f"--count={count}", f"--seed={_SEEDS[part]}"
    return chain.do("synthetic", f"{name}/{part}{end}", *flags, *more)


def trained(
    chain: Chain, name: str, config: str, seed: int, steps: int, *flags: str
) -> str:
    """A run of a small model; returns its folder.

    It is evaluated at the quarters, and its last checkpoint counts.

    Args:
      chain: to add to.
      name: of the run, without its seed.
      config: of `etc-jax train`.
      seed: of parameters and order.
      steps: of the run, a tenth of which warms up.
      *flags: what differs from the config.
    """
    fields = {
        "optimizer.name": "adamw",
        "optimizer.b2": 0.98,
        "schedule.warmup_steps": 0.1,
        "train.num_steps": steps,
        "train.log_every_steps": 50,
        "train.eval_every_steps": max(1, steps // 4),
        "train.seed": seed,
        # Compiled once for all seeds, and for rows that are alike.
        "train.compile_cache_dir": chain.root / "compile_cache",
        "checkpoint.every_steps": max(1, steps),
        "checkpoint.keep_best": 0,
        "checkpoint.best_metric": "loss",
        "checkpoint.best_is": "lowest",
    }
    argv = f"--config={config}", *changes(fields), *flags
    return chain.do("train", f"{name}_seed{seed}", *argv)


def scored(
    chain: Chain, run: str, table: str, data: str, *argv: str
) -> dict[str, Measured]:
    """The columns of a data set, by an evaluation of a run.

    Args:
      chain: to add to.
      run: its folder.
      table: whose columns they are.
      data: the data set, as the table's `measured` names it.
      *argv: the file of records, and flags of `etc-jax evaluate`.
    """
    name = f"{chain.name_of(run)}_scores"
    chain.do("evaluate", name, f"--model={run}", *argv)
    columns = find(table).columns_of(data)
    return {column: metric.at(name) for column, metric in columns.items()}
