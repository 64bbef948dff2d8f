"""What CPC does to the summary tokens: the quickstart's model with and without it.

    python -m benchmarks cpc_ablation --workdir=runs/cpc_ablation --out=ablation.json

Trains `--config=quickstart` and `--config=quickstart:no_cpc` once a seed, one after
the other, and compares what their final reports say of 256 validation sentences: how
often the nearest other summary is one of the same document, for sentences encoded
alone and for masked ones in their documents, and how often CPC finds the masked
sentence.
"""

from __future__ import annotations

import argparse
import json
import pathlib
from collections.abc import Sequence

from benchmarks.kit import finetuning_runs, rows
from etc_jax.config import Config
from etc_jax.configs.quickstart import quickstart

# Row -> variant of the config.
VARIANTS = {"with_cpc": "", "no_cpc": "no_cpc"}
MEASURE = "summary_same_document_top1"
# Shares, and the validation loss of MLM, in nats.
BESIDE = (
    *("context_same_document_top1", "cpc_pool_top1", "cpc_pool_shuffled_top1"),
    "mlm_loss",
)
# What the first two and the last two shares are by chance, and in which pool.
NOTES = (
    *("same_document_chance", "cpc_pool_chance"),
    *("cpc_pool_sentences", "cpc_pool_documents"),
)


def scores(_: Config, folder: pathlib.Path) -> dict[str, float]:
    """The metrics of a finished run."""
    found = json.loads((folder / "final_report.json").read_text())
    return found | {"mlm_loss": finetuning_runs.evaluations(folder)[-1]["mlm_loss"]}


def prepare(args: argparse.Namespace, changes: Sequence[str]) -> rows.Study:
    """What is to be trained."""
    folder = args.workdir or pathlib.Path("runs/cpc_ablation")

    def config(row: str, seed: int) -> Config:
        made = quickstart.get_config(VARIANTS[row])
        made.train.seed = seed
        made.data.cache_dir = str(folder / "data")
        return finetuning_runs.changed(made, changes)

    return rows.Study(
        folder,
        config,
        scores,
        measure=MEASURE,
        metric="mlm_loss",
        scale=1.0,
        form=".3f",
        beside=BESIDE,
        notes={
            name: lambda run, name=name: f"{run.scores[name]:.3g}" for name in NOTES
        },
        about={"seeds": list(args.seeds)},
    )


main = rows.Command(__name__, __doc__, prepare, VARIANTS).main
