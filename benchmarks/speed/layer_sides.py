"""The sides of the layer benchmark: what each is, and what each is compared with."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.kit.harness import Side
from benchmarks.speed import problem
from benchmarks.speed.problem import Sizes

JAX_SIDES = (
    *("etc", "etc_xla", "etc_no_labels", "etc_dense", "jax_dpa", "jax_given_bias"),
    *("longformer", "big_bird"),
)
TORCH_SIDES = ("hf_longformer", "hf_bigbird", "torch_sdpa")
SIDES = JAX_SIDES + TORCH_SIDES
REFERENCE = "etc"
# Each side is compared with another one that claims the same function.
ORACLES = {
    "etc": "etc_dense",
    "etc_xla": "etc_dense",
    "etc_dense": "jax_dpa",
    "jax_dpa": "etc_dense",
    "jax_given_bias": "etc_dense",
    "etc_no_labels": "etc_dense_no_labels",
    "longformer": "etc_dense_no_labels",
    "big_bird": "big_bird_dense",
    "hf_longformer": "etc_dense_no_labels",
    "hf_bigbird": "big_bird_dense",
    "torch_sdpa": "etc_dense_full",
}
NOTES = {
    "jax_given_bias": "only its output is checked: no gradient reaches the labels",
    "longformer": "no labels; projects global tokens apart, as hf_longformer",
    "big_bird": "no labels; other pairs, those of hf_bigbird",
    "hf_longformer": "no labels; projects global tokens apart, as it always does",
    "hf_bigbird": "no labels; other pairs, random blocks being the first one",
    "torch_sdpa": "no labels; every token sees every token",
}


def build(name: str, sizes: Sizes, *, gradient: bool, dtype: str | None = None) -> Any:
    """One side, ready to run: a `compiled.Compiled` or a `sides_torch.TorchLayer`.

    Args:
      name: one of `SIDES`, or an oracle that is not timed: etc_dense_no_labels,
        etc_dense_full (no labels, every token sees every token), big_bird_dense.
      sizes: of the layer.
      gradient: forward and backward, or forward alone.
      dtype: that JAX computes in; None: that of `sizes`.
    """
    import jax

    if name in TORCH_SIDES:
        from benchmarks.speed import sides_torch

        how = {"gradient": gradient, "platform": jax.default_backend()}
        return sides_torch.TorchLayer(name, sizes, **how)
    from benchmarks.speed import sides_jax, sides_own

    if name.endswith(("_no_labels", "_full")) or name in sides_own.ENCODERS:
        sizes = dataclasses.replace(sizes, max_distance=0)
    if name.endswith("_full"):
        sizes = dataclasses.replace(sizes, radius=sizes.long_length)
    dtype = dtype or sizes.dtype
    x = problem.inputs(sizes).astype(dtype)
    weights = {k: w.astype(dtype) for k, w in problem.weights(sizes).items()}
    structure, rules = sides_jax.structure(sizes), sides_jax.rules(sizes)
    args = (weights, x, structure)
    if name == "jax_given_bias":
        bias = sides_jax.bias_at_start(sizes, *args)
        args = ({k: w for k, w in weights.items() if "labels" not in k}, x, bias)

        def forward(weights, x, bias):
            attend = functools.partial(jax.nn.dot_product_attention, bias=bias)
            return sides_jax.layer(weights, x, sizes.num_heads, attend)

    elif name == "jax_dpa":

        def forward(weights, x, structure):
            of_input = {"tables": sides_jax.label_tables(weights), "rules": rules}
            attend = functools.partial(
                sides_jax.dense_attend, **of_input, structure=structure
            )
            return sides_jax.layer(weights, x, sizes.num_heads, attend)

    elif name in sides_own.ENCODERS:
        forward = functools.partial(sides_own.encoder, name=name, sizes=sizes)
        args = (weights, x)
    else:
        how = "dense" if name.startswith("etc_dense") else "auto"
        how = "xla" if name == "etc_xla" else how
        own = {"rules": rules, "sizes": sizes, "implementation": how}
        forward = functools.partial(sides_own.etc, **own)
        args = (weights, sides_jax.split(x, sizes.global_length), structure)
    # GPUs and TPUs round operands of 32 bits to fewer, if nothing else is said.
    with jax.default_matmul_precision("highest" if dtype == "float32" else "default"):
        return sides_jax.compiled(forward, *args, gradient=gradient)


def make_sides(names: Sequence[str], sizes: Sizes, *, gradient: bool) -> list[Side]:
    """Sides ready to be compared.

    Raises:
      ValueError: for a name that is not among `SIDES`.
    """
    unknown = [name for name in names if name not in SIDES]
    if unknown:
        raise ValueError(f"no sides named {unknown}; there are: {list(SIDES)}")
    build_fn = oracle_fn = functools.partial(build, sizes=sizes, gradient=gradient)
    if sizes.dtype != "float32":
        oracle_fn = functools.partial(build_fn, dtype="float32")
    return checked(names, build_fn, oracle_fn)


def checked(
    names: Sequence[str],
    build_fn: Callable[[str], Any],
    oracle_fn: Callable[[str], Any],
) -> list[Side]:
    """Sides with their oracles.

    An oracle is built (unless it is among the sides) and run once, when it is first
    asked for.

    Args:
      names: of the sides.
      build_fn: see `build`.
      oracle_fn: the same, of oracles; if it is `build_fn`, a side is built once.
    """
    built = functools.cache(build_fn)
    built_oracle = built if oracle_fn is build_fn else oracle_fn

    @functools.cache
    def oracle(name: str) -> Mapping[str, np.ndarray]:
        side = built_oracle(name)
        return side.arrays(side.run())

    def make(name: str) -> Side:
        want = functools.partial(oracle, ORACLES[name])
        side = Side.of(name, built(name), want, NOTES.get(name, ""))
        if name != "jax_given_bias":
            return side
        arrays, want = _only_output(side.arrays), _only_output(want)
        return dataclasses.replace(side, arrays=arrays, oracle=want)

    return [make(name) for name in names]


def _only_output(arrays: Callable) -> Callable:
    return lambda *args: {"output": arrays(*args)["output"]}
