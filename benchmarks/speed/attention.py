"""The attention operation alone, over lengths: linear form, dense form, jax.nn.

    python -m benchmarks attention --out=attention.json

Queries, keys and values are given; there are no projections. One global token for
every `--tokens_per_global` long tokens, `--max_globals` at most (the sizes of the
paper's figure 4). Gradients are with respect to queries, keys, values and label tables.

    etc              this library's linear form
    etc_dense        this library's dense form
    jax_dpa          jax.nn.dot_product_attention, masks and labels as a dense bias
    jax_given_bias   the same, but the bias is an input: labels are not learnt

Memory is XLA's own count of temporary memory. Dense forms stop at
`--max_dense_length`; beyond it the linear form is checked for finite values alone.
"""

import argparse
import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.kit import report
from benchmarks.kit.compiled import Compiled
from benchmarks.kit.harness import Side
from benchmarks.kit.memory import MIB
from benchmarks.speed import layer_sides, problem, sides_jax
from benchmarks.speed.layer import MODES
from benchmarks.speed.problem import Sizes
from benchmarks.speed.sides_jax import label_tables, split
from etc_jax.base.types import Pieces
from etc_jax.ops.attention import global_local

SIDES = ("etc", "etc_dense", "jax_dpa", "jax_given_bias")
REFERENCE = "etc"
NUMBERS = ("radius", "max_distance", "embed_dim", "num_heads", "seed")
LENGTHS = (512, 1024, 2048, 4096, 8192)
TOLERANCES = {"float32": 1e-4, "bfloat16": 3e-2}


def build(name: str, sizes: Sizes, *, gradient: bool) -> Compiled:
    """One side; query, key and value are `[1, g + n, h, d]`, globals first."""
    tables = {k: w for k, w in problem.weights(sizes).items() if "labels" in k}
    rng = np.random.default_rng(sizes.seed + 1)
    shape = (1, sizes.global_length + sizes.long_length)
    shape += (sizes.num_heads, sizes.head_dim)
    qkv = tuple(
        jnp.asarray(rng.standard_normal(shape, np.float32), sizes.dtype)
        for _ in range(3)
    )
    structure, rules = sides_jax.structure(sizes), sides_jax.rules(sizes)
    rows = tuple(split(x, sizes.global_length) for x in qkv)
    if name == "jax_given_bias":
        bias = jax.jit(functools.partial(sides_jax.dense_bias, rules=rules))(
            rows[0], label_tables(jax.tree.map(jnp.asarray, tables)), structure
        )
        args = ({}, qkv, bias.astype(sizes.dtype))

        def forward(_, qkv, bias):
            return jax.nn.dot_product_attention(*qkv, bias=bias)

    elif name == "jax_dpa":
        args = (tables, qkv, structure)

        def forward(tables, qkv, structure):
            of_input = {"tables": label_tables(tables), "structure": structure}
            return sides_jax.dense_attend(*qkv, **of_input, rules=rules)

    else:
        args = (tables, rows, structure)
        how = "dense" if name == "etc_dense" else "xla"

        def forward(tables, qkv, structure):
            query, *rest = qkv
            # One key and one value of each token serve all four pieces.
            pieces = (Pieces(x.long, x.global_, x.global_, x.long) for x in rest)
            return global_local.attend(
                query,
                *pieces,
                label_tables(tables),
                structure,
                rules,
                implementation=how,
            )

    inputs = ("query", "key", "value")
    return sides_jax.compiled(forward, *args, gradient=gradient, inputs=inputs)


def make_sides(
    names: Sequence[str], sizes: Sizes, *, gradient: bool, checked: bool
) -> tuple[list[Side], dict[str, int]]:
    """(sides ready to be compared, XLA's temporary bytes of each).

    Args:
      names: of `SIDES`.
      sizes: of the operation.
      gradient: forward and backward, or forward alone.
      checked: whether the dense oracles fit; without them only finiteness is checked.
    """
    built = functools.cache(functools.partial(build, sizes=sizes, gradient=gradient))
    sides = layer_sides.checked(names, built, built)
    if not checked:
        sides = [dataclasses.replace(side, oracle=None) for side in sides]
    return sides, {name: built(name).temp_bytes for name in names}


def compare_at(args: argparse.Namespace, sizes: Sizes, mode: str) -> dict[str, Any]:
    """Times and memory at one length in one mode, printed, ready for JSON."""
    fits = sizes.long_length <= args.max_dense_length
    names = args.sides if fits else (REFERENCE,)
    how = {"gradient": MODES[mode], "checked": fits}
    sides, temp_bytes = make_sides(names, sizes, **how)
    timings = report.compared(
        f"{mode}: {sizes.long_length} long + {sizes.global_length} global tokens",
        sides,
        reference=REFERENCE,
        rounds=args.rounds,
        tolerance=TOLERANCES[args.dtype],
    )
    shown = ", ".join(f"{k} {v / MIB:.0f}" for k, v in temp_bytes.items())
    print(f"XLA temp MiB: {shown}", flush=True)
    return {
        "mode": mode,
        "long_length": sizes.long_length,
        "global_length": sizes.global_length,
        "checked": fits,
        "rows": report.timing_rows(timings),
        "xla_temp_bytes": temp_bytes,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark; returns the exit code."""
    options = report.timing_parser("attention", __doc__, rounds=10)
    add, defaults = options.add_argument, report.defaults_of(Sizes)
    report.add_numbers(options, {name: defaults[name] for name in NUMBERS})
    add("--lengths", type=report.integers, default=LENGTHS)
    add("--tokens_per_global", type=int, default=16)
    add("--max_globals", type=int, default=512)
    add("--max_dense_length", type=int, default=4096)
    add("--sides", type=report.names(SIDES), default=SIDES)
    add("--modes", type=report.names(MODES), default=tuple(MODES))
    add("--dtype", choices=tuple(TOLERANCES), default="float32")
    args = options.parse_args(argv)
    if REFERENCE not in args.sides:
        options.error(f"--sides must name the reference {REFERENCE!r}")
    numbers = report.chosen(args, [*NUMBERS, "dtype"])
    at = []
    for n in args.lengths:
        g = max(1, min(n // args.tokens_per_global, args.max_globals))
        at.append(Sizes(long_length=n, global_length=g, **numbers))

    def work():
        results = [compare_at(args, s, mode) for s in at for mode in args.modes]
        return {"reference": REFERENCE, "results": results}, ()

    return report.run_quiet(options, args, work, dtype=args.dtype)
