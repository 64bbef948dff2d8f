"""Attention in blocks and to averages (BART-LS) beside PyTorch's: time and memory.

    python -m benchmarks pooled_block --out=pooled_block.json
    python -m benchmarks pooled_block --length=16384 --rounds=3

Output and gradients of both attentions of a layer, from queries, keys and values of
each; float32, the same CPU and number of threads. PyTorch has two renderings that were
written for this: `scaled_dot_product_attention` of each block, and products and a
softmax by einsum. Before anything is timed, outputs and gradients are compared; memory
is measured in a process for each side. A busy machine is refused (exit code 3); exit
code 1 if a floor fails.
"""

import argparse
import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.kit import harness, machine, memory, report
from benchmarks.kit.harness import Floor, Side
from benchmarks.speed.sides_jax import Compiled
from etc_jax.ops.attention import pooled_block
from etc_jax.ops.attention.pooled_block import Blocks, Pool

REFERENCE = "etc_jax"
# How many times the time of this library, and the share of its memory.
FASTER = {"torch SDPA": 1.0, "torch einsum": 1.5}
SMALLER = 0.7
TOLERANCE = 1e-4
_NAMES = ("query", "key", "value", "pool query", "pool key", "pool value")


@dataclasses.dataclass(frozen=True)
class OpSizes:
    """Shapes of the attention of one layer.

    Attributes:
      length: tokens, a multiple of `block`.
      block: tokens of a block.
      num_heads: of all rows.
      head_dim: of all rows.
      kernel, stride, padding: of the averages.
      seed: of the numbers.
    """

    length: int = 8192
    block: int = 1024
    num_heads: int = 12
    head_dim: int = 64
    kernel: int = 18
    stride: int = 12
    padding: int = 9
    seed: int = 0

    @property
    def arrays(self) -> list[np.ndarray]:
        """Six of rows, and the weights of the output: float32 `[1, n, h, d]`."""
        rng = np.random.default_rng(self.seed)
        shape = (1, self.length, self.num_heads, self.head_dim)
        return [rng.standard_normal(shape, np.float32) for _ in range(7)]


class JaxSide:
    """This library.

    Args:
      sizes: of the op.
    """

    def __init__(self, sizes: OpSizes):
        blocks = Blocks(sizes.block)
        pool = Pool(sizes.kernel, sizes.stride, sizes.padding)

        def loss(rows, weight):
            out = pooled_block.attend(*rows[:3], blocks=blocks)
            out = out + pooled_block.attend_pooled(*rows[3:], pool=pool)
            return jnp.sum(out * weight), out

        step = jax.grad(loss, has_aux=True)
        *rows, weight = sizes.arrays
        self._step = Compiled.make(step, rows, weight)

    def run(self) -> tuple[Any, Any]:
        """(gradients, output)."""
        return self._step.run()

    def arrays(self, found: tuple[Any, Any]) -> dict[str, np.ndarray]:
        """By name."""
        gradients, out = found
        named = dict(zip(_NAMES, map(np.asarray, gradients), strict=True))
        return {"output": np.asarray(out), **named}


class TorchSide:
    """PyTorch.

    Args:
      sizes: of the op.
      einsum: in place of `scaled_dot_product_attention`.
    """

    def __init__(self, sizes: OpSizes, einsum: bool):
        import torch

        torch.set_num_threads(machine.num_threads())
        self._sizes, self._einsum = sizes, einsum
        *rows, weight = map(torch.from_numpy, sizes.arrays)
        self._rows = [x.requires_grad_() for x in rows]
        self._weight = weight

    def _attention(self, query, key, value):
        """Of `[..., q, d]` and `[..., k, d]`."""
        import torch

        if not self._einsum:
            return torch.nn.functional.scaled_dot_product_attention(query, key, value)
        logits = torch.einsum("...qd,...kd->...qk", query, key)
        chances = torch.softmax(logits * query.shape[-1] ** -0.5, dim=-1)
        return torch.einsum("...qk,...kd->...qd", chances, value)

    def _blocks(self, x):
        """`[1, n, h, d]` -> `[blocks, h, size, d]`."""
        s = self._sizes
        return x.reshape(-1, s.block, s.num_heads, s.head_dim).transpose(1, 2)

    def _averages(self, x):
        """`[1, n, h, d]` -> `[1, h, averages, d]`."""
        import torch

        s = self._sizes
        flat = x.flatten(2).transpose(1, 2)
        found = torch.nn.functional.avg_pool1d(flat, s.kernel, s.stride, s.padding)
        return found.reshape(1, s.num_heads, s.head_dim, -1).transpose(2, 3)

    def run(self) -> tuple[Any, Any]:
        """(gradients, output)."""
        import torch

        query, key, value, *pool = self._rows
        own = self._attention(*map(self._blocks, (query, key, value)))
        own = own.transpose(1, 2).reshape(query.shape)
        averages = map(self._averages, pool[1:])
        others = self._attention(pool[0].transpose(1, 2), *averages)
        out = own + others.transpose(1, 2)
        gradients = torch.autograd.grad((out * self._weight).sum(), self._rows)
        return gradients, out.detach()

    def arrays(self, found: tuple[Any, Any]) -> dict[str, np.ndarray]:
        """By name."""
        gradients, out = found
        named = dict(zip(_NAMES, (x.numpy() for x in gradients), strict=True))
        return {"output": out.numpy(), **named}


_SIDES = {
    REFERENCE: JaxSide,
    "torch SDPA": functools.partial(TorchSide, einsum=False),
    "torch einsum": functools.partial(TorchSide, einsum=True),
}


def build_run(name: str, sizes: dict[str, int]):
    """Builder for `memory.measure`: what one side does."""
    return _SIDES[name](OpSizes(**sizes)).run


def measure(
    args: argparse.Namespace, sizes: OpSizes
) -> tuple[dict[str, Any], list[Floor]]:
    """Times and memory, printed; (for JSON, floors)."""
    made = {name: make(sizes) for name, make in _SIDES.items()}
    own = made[REFERENCE]
    want = own.arrays(own.run())
    sides = [
        Side(name, side.run, side.arrays, None if side is own else lambda: want)
        for name, side in made.items()
    ]
    timings = harness.compare(
        sides, reference=REFERENCE, rounds=args.rounds, tolerance=TOLERANCE
    )
    print(report.times_table(timings, REFERENCE), flush=True)
    del made, own, sides
    given = dataclasses.asdict(sizes)
    peaks = {
        name: memory.measure(
            "benchmarks.speed.pooled_block:build_run", {"name": name, "sizes": given}
        )
        for name in _SIDES
    }
    print(report.memory_table(peaks, REFERENCE), flush=True)
    ratios = {t.name: t.ratio for t in timings}
    floors = []
    for name, faster in FASTER.items():
        what = f"times faster than {name}"
        floors.append(Floor(what, ratios[name], faster, at_most=False))
        share = peaks[REFERENCE]["peak_bytes"] / peaks[name]["peak_bytes"]
        floors.append(Floor(f"memory beside {name}", share, SMALLER, at_most=True))
    return {"rows": report.timing_rows(timings), "memory": peaks}, floors


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark; returns the exit code. Fields of `OpSizes` are options."""
    options = report.timing_parser("pooled_block", __doc__, rounds=5)
    numbers = report.defaults_of(OpSizes)
    report.add_numbers(options, numbers)
    args = options.parse_args(argv)
    sizes = OpSizes(**report.chosen(args, numbers))
    return report.run_quiet(
        options,
        args,
        functools.partial(measure, args, sizes),
        shapes=dataclasses.asdict(sizes),
    )
