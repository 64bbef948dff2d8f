"""What every side computes: one transformer layer over long and global tokens.

Sizes, weights and inputs are numpy, so that JAX and PyTorch get the very same ones and
their results can be compared. The layer is BERT's (norm after each residual), with one
set of projections for long and global tokens:

    a = norm(x + out(attention(query(x), key(x), value(x))))
    y = norm(a + wo(gelu(wi(a))))

The loss is the sum of squares of y. Norm scales and biases are drawn, not 1 and 0:
otherwise that loss would be constant and every gradient zero.
"""

import dataclasses
from collections.abc import Mapping

import ml_dtypes  # noqa: F401  (numpy's bfloat16)
import numpy as np

NORM_EPSILON = 1e-12
PROJECTIONS = ("query", "key", "value", "out", "wi", "wo")
NORMS = ("attention_norm", "mlp_norm")
LABEL_TABLES = ("long_labels", "global_labels")
# A key bias adds the same to every logit of a row, which softmax takes away: this
# gradient is zero but for rounding, so it cannot be compared.
ROUNDING_ONLY = "grad key/bias"

Weights = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of the layer and its input; the defaults are ETC base (paper, table 8).

    Attributes:
      batch_size: examples.
      long_length, global_length: tokens of each.
      radius: long tokens visible on each side.
      max_distance: k, the clipping distance of labels; 0 for none.
      embed_dim, num_heads, mlp_dim: of the layer.
      bigbird_block_size, bigbird_random_blocks: of that peer.
      seed: of weights and inputs.
      dtype: that the sides compute in; weights and inputs are rounded to it.
    """

    batch_size: int = 1
    long_length: int = 4096
    global_length: int = 256
    radius: int = 84
    max_distance: int = 12
    embed_dim: int = 768
    num_heads: int = 12
    mlp_dim: int = 3072
    bigbird_block_size: int = 64
    bigbird_random_blocks: int = 3
    seed: int = 0
    dtype: str = "float32"

    def __post_init__(self):
        if self.embed_dim % self.num_heads:
            raise ValueError(
                f"embed_dim {self.embed_dim} is not a multiple of num_heads "
                f"{self.num_heads}"
            )
        if not 0 < self.global_length <= self.long_length:
            raise ValueError(
                f"global_length must be from 1 to long_length {self.long_length} (one "
                f"global token a sentence), got {self.global_length}"
            )

    @property
    def head_dim(self) -> int:
        return self.embed_dim // self.num_heads

    @property
    def num_labels(self) -> int:
        return 2 * self.max_distance + 4

    @property
    def sentence_lengths(self) -> list[int]:
        """Long tokens of each global token's sentence, as even as can be."""
        short, longer = divmod(self.long_length, self.global_length)
        return [short + (i < longer) for i in range(self.global_length)]


def weights(sizes: Sizes) -> dict[str, np.ndarray]:
    """Weights by name, float32; kernels are `[in, out]`.

    Label tables are there with labels only: `[labels, heads, head_dim]` embeddings and
    `[labels, heads]` biases, for long and for global rows.
    """
    rng = np.random.default_rng(sizes.seed)

    def normal(*shape, scale=1.0):
        return (scale * rng.standard_normal(shape)).astype(np.float32)

    e, m = sizes.embed_dim, sizes.mlp_dim
    shapes = {"wi": (e, m), "wo": (m, e)}
    out = {}
    for name in PROJECTIONS:
        rows, columns = shapes.get(name, (e, e))
        out[f"{name}/kernel"] = normal(rows, columns, scale=rows**-0.5)
        out[f"{name}/bias"] = normal(columns, scale=0.1)
    for name in NORMS:
        out[f"{name}/scale"] = rng.uniform(0.5, 1.5, e).astype(np.float32)
        out[f"{name}/bias"] = normal(e, scale=0.1)
    if sizes.max_distance:
        for name in LABEL_TABLES:
            out[f"{name}/embedding"] = normal(
                sizes.num_labels, sizes.num_heads, sizes.head_dim
            )
            out[f"{name}/bias"] = normal(sizes.num_labels, sizes.num_heads)
    return {name: _rounded(x, sizes.dtype) for name, x in out.items()}


def inputs(sizes: Sizes) -> np.ndarray:
    """Hidden states `[batch, global + long, embed]`, float32, global tokens first."""
    rng = np.random.default_rng(sizes.seed + 1)
    length = sizes.global_length + sizes.long_length
    shape = (sizes.batch_size, length, sizes.embed_dim)
    return _rounded(rng.standard_normal(shape, np.float32), sizes.dtype)


def _rounded(x: np.ndarray, dtype: str) -> np.ndarray:
    return x.astype(dtype).astype(np.float32)
