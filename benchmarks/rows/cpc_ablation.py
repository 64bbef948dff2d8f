"""What CPC does to the summary tokens: the quickstart's model with and without it.

    python -m benchmarks cpc_ablation --workdir=runs/cpc_ablation --out=ablation.json

Trains `--config=quickstart` and `--config=quickstart:no_cpc` once a seed, one after
the other, and compares what their final reports say of 256 held-back sentences: how
often the nearest other summary is one of the same document, for sentences encoded
alone and for masked ones in their documents, and how often CPC finds the masked
sentence. Finished runs are not trained again, so the command can be interrupted.
Arguments of the form --config.A.B=VALUE go to every run.
"""

from __future__ import annotations

import argparse
import json
import pathlib
from collections.abc import Sequence
from typing import Any

from benchmarks.kit import finetuning_runs, report, rows
from etc_jax.config import Config
from etc_jax.configs.quickstart import quickstart

# Row -> variant of the config, and the name of the column.
VARIANTS = {"with_cpc": "", "no_cpc": "no_cpc"}
TITLES = {"with_cpc": "with CPC", "no_cpc": "without"}
METRICS = {
    "summary_same_document_top1": "same document, encoded alone",
    "context_same_document_top1": "same document, masked in it",
    "cpc_pool_top1": "masked sentence found",
    "cpc_pool_shuffled_top1": "found among shuffled ones",
    "mlm_loss": "held-back MLM loss",
}


def scores(_: Config, folder: pathlib.Path) -> dict[str, float]:
    """The metrics of a finished run."""
    found = json.loads((folder / "final_report.json").read_text())
    return found | {"mlm_loss": finetuning_runs.evaluations(folder)[-1]["mlm_loss"]}


class Study(rows.Study):
    """Metrics are lines of the table, and runs stand by their row in the file."""

    def table(self, runs: Sequence[rows.Run]) -> str:
        """Mean and standard deviation over seeds, in Markdown, and chance."""
        results = self.values(runs)["results"]
        lines = [f"| | {' | '.join(results)} |", "| --- |" + " --- |" * len(results)]
        for name, title in METRICS.items():
            form = ".3f" if name == "mlm_loss" else ".1%"
            cells = [
                report.spread((scores[name] for scores in every), form)
                for every in results.values()
            ]
            lines.append(f"| {title} | {' | '.join(cells)} |")
        one = runs[0].scores
        lines += [
            "",
            f"By chance: same document {one['same_document_chance']:.1%}, masked "
            f"sentence {one['cpc_pool_chance']:.1%}; {one['cpc_pool_sentences']} "
            f"sentences of {one['cpc_pool_documents']} documents.",
        ]
        return "\n".join(lines)

    def values(self, runs: Sequence[rows.Run]) -> dict[str, Any]:
        results = {
            title: [run.scores for run in runs if run.row == row]
            for row, title in TITLES.items()
        }
        return {**self.about, "results": {k: x for k, x in results.items() if x}}


def prepare(args: argparse.Namespace, changes: Sequence[str]) -> Study:
    """What is to be trained."""
    folder = args.workdir or pathlib.Path("runs/cpc_ablation")

    def config(row: str, seed: int) -> Config:
        made = quickstart.get_config(VARIANTS[row])
        made.train.seed = seed
        made.data.cache_dir = str(folder / "data")
        return finetuning_runs.changed(made, changes)

    return Study(
        folder,
        config,
        scores,
        measure="mlm_loss",
        metric="mlm_loss",
        scale=1.0,
        form=".3f",
        about={"seeds": list(args.seeds)},
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the comparison; returns the exit code."""
    return rows.main(rows.parser("cpc_ablation", __doc__, VARIANTS), argv, prepare)
