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
from benchmarks.kit.compiled import Compiled, with_gradient
from benchmarks.kit.harness import Side
from benchmarks.kit.memory import MIB
from benchmarks.speed import layer_sides, problem, sides_jax
from benchmarks.speed.problem import Sizes
from benchmarks.speed.sides_jax import joined, split
from etc_jax.base.types import Pieces, Rows
from etc_jax.ops.attention import global_local

MODES = {"forward": False, "forward_backward": True}
SIDES = ("etc", "etc_dense", "jax_dpa", "jax_given_bias")
REFERENCE = "etc"
NUMBERS = ("radius", "max_distance", "embed_dim", "num_heads", "seed")
LENGTHS = (512, 1024, 2048, 4096, 8192)
TOLERANCES = {"float32": 1e-4, "bfloat16": 3e-2}


def make_inputs(sizes: Sizes, dtype: str) -> tuple[dict, tuple]:
    """(label tables by name, query, key and value `[1, g + n, h, d]`)."""
    tables = {k: w for k, w in problem.weights(sizes).items() if "labels" in k}
    rng = np.random.default_rng(sizes.seed + 1)
    shape = (1, sizes.global_length + sizes.long_length)
    shape += (sizes.num_heads, sizes.head_dim)
    qkv = (jnp.asarray(rng.standard_normal(shape, np.float32), dtype) for _ in range(3))
    return tables, tuple(qkv)


def own(tables, qkv, structure, *, rules, implementation):
    """This library's operation; query, key, value are `Rows`."""
    query, *rest = qkv
    # One key and one value of each token serve all four pieces.
    key, value = (Pieces(x.long, x.global_, x.global_, x.long) for x in rest)
    return global_local.attend(
        query,
        key,
        value,
        sides_jax.label_tables(tables),
        structure,
        rules,
        implementation=implementation,
    )


def dpa(tables, qkv, structure, *, rules):
    """`jax.nn.dot_product_attention`; query, key, value are joined, globals first."""
    of_input = {"tables": sides_jax.label_tables(tables), "structure": structure}
    return sides_jax.dense_attend(*qkv, **of_input, rules=rules)


def given_bias(_, qkv, bias):
    """`jax.nn.dot_product_attention` with a bias that is an input."""
    return jax.nn.dot_product_attention(*qkv, bias=bias)


def build(name: str, sizes: Sizes, *, gradient: bool, dtype: str):
    """(compiled side, function from its raw result to named arrays)."""
    tables, qkv = make_inputs(sizes, dtype)
    structure, rules = sides_jax.structure(sizes), sides_jax.rules(sizes)
    g = sizes.global_length
    if name == "jax_given_bias":
        bias = jax.jit(functools.partial(sides_jax.dense_bias, rules=rules))(
            split(qkv[0], g),
            sides_jax.label_tables(jax.tree.map(jnp.asarray, tables)),
            structure,
        )
        forward, args = given_bias, ({}, qkv, bias.astype(dtype))
    elif name == "jax_dpa":
        forward = functools.partial(dpa, rules=rules)
        args = (tables, qkv, structure)
    else:
        implementation = "dense" if name == "etc_dense" else "xla"
        forward = functools.partial(own, rules=rules, implementation=implementation)
        args = (tables, tuple(split(x, g) for x in qkv), structure)
    run = with_gradient(forward) if gradient else forward
    return Compiled.make(run, *args), functools.partial(arrays, gradient=gradient)


def arrays(result: Any, *, gradient: bool) -> dict[str, np.ndarray]:
    """Named arrays of a raw result, float32, globals first."""
    output, gradients = result if gradient else (result, None)
    named = {"output": output}
    if gradients is not None:
        named |= {f"grad {k}": x for k, x in gradients[0].items()}
        names = ("grad query", "grad key", "grad value")
        named |= dict(zip(names, gradients[1], strict=True))
    return {
        name: np.asarray(joined(x) if isinstance(x, Rows) else x, np.float32)
        for name, x in named.items()
    }


def make_sides(
    names: Sequence[str], sizes: Sizes, *, gradient: bool, dtype: str, checked: bool
) -> tuple[list[Side], dict[str, int]]:
    """(sides ready to be compared, XLA's temporary bytes of each).

    Args:
      names: of `SIDES`.
      sizes: of the operation.
      gradient: forward and backward, or forward alone.
      dtype: of queries, keys, values.
      checked: whether the dense oracles fit; without them only finiteness is checked.
    """
    how = {"sizes": sizes, "gradient": gradient, "dtype": dtype}
    built = functools.cache(functools.partial(build, **how))
    sides = layer_sides.checked(names, built, built)
    if not checked:
        sides = [dataclasses.replace(side, oracle=None) for side in sides]
    return sides, {name: built(name)[0].temp_bytes for name in names}


def compare_at(args: argparse.Namespace, sizes: Sizes, mode: str) -> dict[str, Any]:
    """Times and memory at one length in one mode, printed, ready for JSON."""
    fits = sizes.long_length <= args.max_dense_length
    names = args.sides if fits else (REFERENCE,)
    sides, temp_bytes = make_sides(
        names, sizes, gradient=MODES[mode], dtype=args.dtype, checked=fits
    )
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


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = report.timing_parser("attention", __doc__, rounds=10)
    add, defaults = made.add_argument, report.defaults_of(Sizes)
    report.add_numbers(made, {name: defaults[name] for name in NUMBERS})
    add("--lengths", type=report.integers, default=LENGTHS)
    add("--tokens_per_global", type=int, default=16)
    add("--max_globals", type=int, default=512)
    add("--max_dense_length", type=int, default=4096)
    add("--sides", type=report.names(SIDES), default=SIDES)
    add("--modes", type=report.names(MODES), default=tuple(MODES))
    add("--dtype", choices=tuple(TOLERANCES), default="float32")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark; returns the exit code."""
    options = parser()
    args = options.parse_args(argv)
    if REFERENCE not in args.sides:
        options.error(f"--sides must name the reference {REFERENCE!r}")
    numbers = report.chosen(args, NUMBERS)
    at = []
    for n in args.lengths:
        g = max(1, min(n // args.tokens_per_global, args.max_globals))
        at.append(Sizes(long_length=n, global_length=g, **numbers))

    def work():
        results = [compare_at(args, s, mode) for s in at for mode in args.modes]
        return {"reference": REFERENCE, "results": results}, ()

    return report.run_quiet(options, args, work, dtype=args.dtype)
