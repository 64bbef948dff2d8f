"""Draws the results of `benchmarks layer` as bars, relative to this library.

    cd docs/results/data/2026-11-21_layer
    python -m benchmarks layer_picture --out=../../../layer.png peers.json dense.json

Each file is one run; its sides are compared with its own reference only.
"""

import argparse
import json
import pathlib
from collections.abc import Sequence

import numpy as np

LABELS = {
    "torch_sdpa": "PyTorch, all pairs",
    "hf_longformer": "Hugging Face Longformer",
    "hf_bigbird": "Hugging Face BigBird",
    "etc_dense": "dense form in JAX",
    "jax_dpa": "jax.nn attention, dense bias",
}


def ratios(path: pathlib.Path) -> dict[str, float]:
    """{label: median time over that of the file's reference}.

    Raises:
      ValueError: if the file has no timings of a forward and backward pass.
    """
    run = json.loads(path.read_text())
    found = [r["rows"] for r in run["results"] if r["mode"] == "forward_backward"]
    if not found:
        raise ValueError(f"{path} has no results of mode forward_backward")
    medians = {row["name"]: float(np.median(row["times"])) for row in found[0]}
    reference = medians[run["reference"]]
    return {LABELS[x]: t / reference for x, t in medians.items() if x in LABELS}


def draw(found: dict[str, float], out: pathlib.Path) -> None:
    """Writes a PNG file with a bar for each side."""
    from matplotlib.figure import Figure

    bars = {"etc_jax": 1.0, **dict(sorted(found.items(), key=lambda x: x[1]))}
    figure = Figure(figsize=(7.0, 2.4), layout="constrained")
    axes = figure.subplots()
    colors = ["tab:blue"] + ["lightgrey"] * len(found)
    drawn = axes.barh(list(bars), list(bars.values()), color=colors)
    axes.bar_label(drawn, fmt="%.2f", padding=3)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xlabel("time of one layer, forward and backward (etc_jax = 1)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(out, dpi=120)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks layer_picture",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("files", type=pathlib.Path, nargs="+")
    args = parser.parse_args(argv)
    found = {k: x for path in args.files for k, x in ratios(path).items()}
    draw(found, args.out)
