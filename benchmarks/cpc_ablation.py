"""What CPC does to the summary tokens: the quickstart's model with and without it.

    python -m benchmarks.cpc_ablation --workdir=runs/cpc_ablation --out=ablation.json

Trains `configs/quickstart.py` and `configs/quickstart.py:no_cpc` once a seed, one after
the other, and compares what their final reports say of 256 held-back sentences: how
often the nearest other summary is one of the same document, for sentences encoded
alone and for masked ones in their documents, and how often CPC finds the masked
sentence. Finished runs are not trained again, so the command can be interrupted.
Arguments of the form --config.A.B=VALUE go to every run.
"""

import argparse
import json
import pathlib
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks import report

CONFIG = "configs/quickstart.py"
VARIANTS = {"with CPC": "", "without": ":no_cpc"}
FIGURES = {
    "summary_same_document_top1": "same document, encoded alone",
    "context_same_document_top1": "same document, masked in it",
    "cpc_pool_top1": "masked sentence found",
    "cpc_pool_shuffled_top1": "found among shuffled ones",
    "mlm_loss": "held-back MLM loss",
}


def run_folder(workdir: pathlib.Path, variant: str, seed: int) -> pathlib.Path:
    """Where one run lives."""
    name = "with_cpc" if VARIANTS[variant] == "" else "no_cpc"
    return workdir / f"{name}_seed{seed}"


def train(workdir: pathlib.Path, variant: str, seed: int, more: Sequence[str]) -> None:
    """Trains one run to its end, unless that was done before."""
    folder = run_folder(workdir, variant, seed)
    if (folder / "final_report.json").exists():
        return
    command = [sys.executable, "-m", "etc_jax.train", f"--workdir={folder}"]
    command += [f"--config={CONFIG}{VARIANTS[variant]}", f"--config.train.seed={seed}"]
    command += [f"--config.data.cache_dir={workdir / 'data'}", *more]
    subprocess.run(command, check=True)


def metrics(folder: pathlib.Path) -> dict[str, float]:
    """The metrics of a finished run."""
    found = json.loads((folder / "final_report.json").read_text())
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    last = [line for line in lines if line["kind"] == "eval"][-1]
    return {**found, "mlm_loss": last["mlm_loss"]}


def table(results: dict[str, list[dict[str, float]]]) -> str:
    """Mean and standard deviation over seeds, in Markdown, and the shares by chance."""
    lines = ["| | " + " | ".join(results) + " |", "| --- |" + " --- |" * len(results)]
    for name, title in FIGURES.items():
        cells = [
            report.spread(
                (run[name] for run in runs), ".3f" if name == "mlm_loss" else ".1%"
            )
            for runs in results.values()
        ]
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    one = next(iter(results.values()))[0]
    lines += [
        "",
        f"By chance: same document {one['same_document_chance']:.1%}, masked sentence "
        f"{one['cpc_pool_chance']:.1%}; {one['cpc_pool_sentences']} sentences of "
        f"{one['cpc_pool_documents']} documents.",
    ]
    return "\n".join(lines)


def compare(args: argparse.Namespace, more: Sequence[str]) -> dict[str, Any]:
    """Trains what is missing; returns the metrics of every run, ready for JSON."""
    results: dict[str, list[dict[str, float]]] = {name: [] for name in VARIANTS}
    for seed in args.seeds:
        for variant in VARIANTS:
            train(args.workdir, variant, seed, more)
            folder = run_folder(args.workdir, variant, seed)
            results[variant].append(metrics(folder))
    print(table(results))
    return {"seeds": list(args.seeds), "options": list(more), "results": results}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the comparison; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cpc_ablation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--workdir", type=pathlib.Path, default="runs/cpc_ablation")
    parser.add_argument("--seeds", type=report.integers, default=(0, 1, 2))
    parser.add_argument("--out", type=pathlib.Path, help="JSON file to write")
    args, more = parser.parse_known_args(argv)
    if wrong := [x for x in more if not x.startswith("--config.") or "=" not in x]:
        parser.error(f"{wrong[0]!r} is not of the form --config.A.B=VALUE")
    found = compare(args, more)
    if args.out is not None:
        args.out.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
