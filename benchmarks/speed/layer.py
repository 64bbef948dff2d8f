"""One transformer layer beside its peers: time, memory, and how both grow.

    python -m benchmarks layer --out=layer.json
    python -m benchmarks layer --scaling --out=scaling.json
    python -m benchmarks layer --reference=longformer --sides=longformer,hf_longformer \
        --long_length=4095 --global_length=1 --radius=256 --modes=forward_backward
    python -m benchmarks layer --platform=cuda --dtype=bfloat16 --batch_size=8
    python -m benchmarks layer --reference=big_bird --sides=big_bird,hf_bigbird \
        --long_length=4095 --global_length=1 --modes=forward_backward

Every side computes the layer of `speed.problem` with the same weights and the same
inputs, on the same GPU, or on the same CPU with the same number of threads:

    etc              this library, with labels
    etc_xla          the same without kernels: on a CPU there are none
    etc_no_labels    this library, without labels
    etc_dense        this library's dense form
    jax_dpa          jax.nn.dot_product_attention, masks and labels as a dense bias
    jax_given_bias   the same, but the bias is an input: labels are not learnt
    longformer       this library's Longformer: sequence with global tokens in it
    big_bird         this library's BigBird; sees the pairs of hf_bigbird
    hf_longformer    Hugging Face LongformerLayer, same window, same global tokens
    hf_bigbird       Hugging Face BigBirdLayer, as many tokens; sees other pairs
    torch_sdpa       PyTorch scaled_dot_product_attention over everything, no labels

Before a side is timed, its output and every gradient are compared with a dense form of
the function that it claims to compute; a wrong side ends the run. A busy machine is
refused (exit code 3). Memory is what one call adds in a process of its own: on a CPU to
the process, on a GPU to what the allocators of JAX and PyTorch have handed out.
"""

import argparse
import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from benchmarks.kit import machine, memory, report, scaling
from benchmarks.kit.harness import TOLERANCES
from benchmarks.speed.layer_sides import REFERENCE, SIDES, build, make_sides
from benchmarks.speed.problem import Sizes

MODES = {"forward": False, "forward_backward": True}
SCALING_LENGTHS = (2048, 4096, 8192, 16384)
SCALING_GLOBALS = 512


def compare_layers(args: argparse.Namespace, sizes: Sizes) -> dict[str, Any]:
    """Times and memory of every side, printed and ready for JSON."""
    out: dict[str, Any] = {"reference": args.reference, "results": [], "memory": []}
    for mode in args.modes:
        timings = report.compared(
            f"{mode}: {sizes.long_length} long + {sizes.global_length} global tokens",
            make_sides(args.sides, sizes, gradient=MODES[mode]),
            reference=args.reference,
            rounds=args.rounds,
            tolerance=TOLERANCES[sizes.dtype],
        )
        out["results"].append({"mode": mode, "rows": report.timing_rows(timings)})
    if args.memory:
        out["memory_calibration_error"] = memory.calibration_error()
    for mode in args.modes if args.memory else ():
        peaks = {
            name: memory.measure(build, name, sizes, gradient=MODES[mode])
            for name in args.sides
        }
        print(f"\nmemory, {mode}")
        print(report.memory_table(peaks, args.reference), flush=True)
        out["memory"].append({"mode": mode, "rows": peaks})
    return out


def scale_layer(args: argparse.Namespace, sizes: Sizes) -> dict[str, Any]:
    """Growth of this library's layer with the long length, ready for JSON.

    The shortest length is compared with the dense form; the others are too long for
    it and are checked for finite values alone.
    """
    at = [dataclasses.replace(sizes, long_length=n) for n in args.lengths]
    results = []
    for mode in args.modes:
        how = {"gradient": MODES[mode]}
        found = scaling.measure(
            f"{mode}: {REFERENCE} with {sizes.global_length} global tokens",
            args.lengths,
            [make_sides([REFERENCE], s, **how)[0] for s in at],
            [functools.partial(memory.measure, build, REFERENCE, s, **how) for s in at]
            if args.memory
            else (),
            time="time",
            rounds=args.rounds,
            tolerance=TOLERANCES[sizes.dtype],
        )
        results.append({"mode": mode, **found})
    return {"scaling": {"lengths": list(args.lengths), "results": results}}


def parser() -> argparse.ArgumentParser:
    """The command line; field names of `Sizes` are options."""
    made = report.timing_parser("layer", __doc__, rounds=20)
    report.add_numbers(made, dict.fromkeys(report.defaults_of(Sizes)))
    add = made.add_argument
    add("--dtype", choices=tuple(TOLERANCES), default=Sizes.dtype)
    add("--platform", default="cpu", help="of jax: cpu, cuda or tpu")
    add("--sides", type=report.names(SIDES), default=SIDES)
    add("--reference", choices=SIDES, default=REFERENCE, help="what ratios are of")
    add("--modes", type=report.names(MODES), default=tuple(MODES))
    add("--memory", action=argparse.BooleanOptionalAction, default=True)
    add(
        "--scaling",
        action="store_true",
        help=f"{REFERENCE} alone over --lengths, with {SCALING_GLOBALS} global tokens",
    )
    add("--lengths", type=report.integers, default=SCALING_LENGTHS)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark; returns the exit code."""
    options = parser()
    args = options.parse_args(argv)
    if not args.scaling and args.reference not in args.sides:
        options.error(f"--sides must name the reference {args.reference!r}")
    machine.use(args.platform)
    given = report.chosen(args, [*report.defaults_of(Sizes), "dtype"])
    if args.scaling:
        given.setdefault("global_length", SCALING_GLOBALS)
        given.setdefault("long_length", min(args.lengths))
    sizes = Sizes(**given)
    measure_fn = scale_layer if args.scaling else compare_layers
    return report.run_quiet(
        options,
        args,
        lambda: (measure_fn(args, sizes), ()),
        shapes=dataclasses.asdict(sizes),
        dtype=sizes.dtype,
    )
