"""Attention in blocks and to averages (BART-LS) beside PyTorch's: time and memory.

    python -m benchmarks pooled_block --out=pooled_block.json
    python -m benchmarks pooled_block --length=16384 --rounds=3

Output and gradients of both attentions of a layer, from queries, keys and values of
each. PyTorch has two renderings that were written for this:
`scaled_dot_product_attention` of each block, and products and a softmax by einsum.
Outputs and gradients are compared first. A busy machine is refused (exit code 3); exit
code 1 if a floor fails.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.kit import beside
from benchmarks.kit.beside import REFERENCE, Peers
from benchmarks.kit.compiled import Compiled
from benchmarks.kit.harness import Side
from etc_jax.ops.attention import pooled_block
from etc_jax.ops.attention.pooled_block import Blocks, Pool

# How many times the time of this library.
FASTER = {"torch SDPA": 1.0, "torch einsum": 1.5}
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


def arrays(found: tuple[Any, Any]) -> dict[str, np.ndarray]:
    """Output and gradients of a side by name."""
    gradients, out = found
    named = dict(zip(_NAMES, map(np.asarray, gradients), strict=True))
    return {"output": np.asarray(out), **named}


def jax_side(sizes: OpSizes) -> Compiled:
    """This library."""
    blocks = Blocks(sizes.block)
    pool = Pool(sizes.kernel, sizes.stride, sizes.padding)

    def loss(rows, weight):
        out = pooled_block.attend(*rows[:3], blocks=blocks)
        out = out + pooled_block.attend_pooled(*rows[3:], pool=pool)
        return jnp.sum(out * weight), out

    *rows, weight = sizes.arrays
    return Compiled.make(jax.grad(loss, has_aux=True), rows, weight, arrays=arrays)


class TorchSide:
    """PyTorch.

    Args:
      sizes: of the op.
      einsum: in place of `scaled_dot_product_attention`.
    """

    def __init__(self, sizes: OpSizes, einsum: bool):
        import torch

        beside.start_torch()
        self._sizes, self._einsum = sizes, einsum
        tensors = [torch.from_numpy(x).to(beside.device()) for x in sizes.arrays]
        *rows, weight = tensors
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
        if out.is_cuda:
            torch.cuda.synchronize()
        return gradients, out.detach()

    def arrays(self, found: tuple[Any, Any]) -> dict[str, np.ndarray]:
        """See `arrays` of this module."""
        gradients, out = found
        return arrays(([x.cpu() for x in gradients], out.cpu()))


_SIDES = {
    REFERENCE: jax_side,
    "torch SDPA": functools.partial(TorchSide, einsum=False),
    "torch einsum": functools.partial(TorchSide, einsum=True),
}


def parts(sizes: OpSizes) -> beside.Parts:
    """All sides; what this library computes is what the others are compared with."""
    made = {name: make(sizes) for name, make in _SIDES.items()}
    own = made[REFERENCE]
    want = own.arrays(own.run())
    return {
        "output and gradients": [
            Side.of(name, side, None if side is own else lambda: want)
            for name, side in made.items()
        ]
    }, {}


PEERS = Peers(
    __name__,
    __doc__,
    OpSizes,
    _SIDES,
    parts,
    what=lambda sizes: f"{sizes.length} tokens in blocks of {sizes.block}",
    faster=lambda sizes, part, peer: FASTER[peer],
    rounds=5,
)
main = PEERS.main
