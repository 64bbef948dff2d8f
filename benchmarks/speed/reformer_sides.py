"""The sides of the Reformer benchmark: one language model, one set of weights, twice.

    etc_jax         `ReformerLm` of this library
    transformers    `ReformerModelWithLMHead` of Hugging Face, in PyTorch

Both are given the same tokens and the same random rotations, so that each token falls
into the same bucket: transformers draws its own from `hash_seed` before each hash.
"""

import dataclasses
import math
from typing import Any

import jax
import numpy as np

from benchmarks.kit import beside_transformers
from benchmarks.kit.beside_transformers import SIDES
from benchmarks.speed.reformer_parts import (
    lm_loss,
    random_params,
    random_tokens,
    small_config,
)
from benchmarks.speed.sides_jax import Compiled
from etc_jax.conversion.families.reformer import import_hf
from etc_jax.models.reformer.body import ReformerConfig
from etc_jax.ops.attention.parts.lsh_hashing import buckets_for


@dataclasses.dataclass(frozen=True)
class LmSizes:
    """A language model of bytes, batch size 1, local and LSH layers in turn.

    The defaults are the sizes of transformers' `ReformerConfig`.

    Attributes:
      length: tokens, also positions: transformers trains axial positions at one
        length alone.
      embed_dim, num_heads, head_dim, mlp_dim, num_layers: of the model.
      chunk_length: of both kinds of layer; a token sees its chunk and the one before.
      num_hashes: rounds of hashing; the buckets are about two for each chunk.
      seed: of weights, tokens and rotations.
    """

    length: int = 4096
    embed_dim: int = 256
    num_heads: int = 12
    head_dim: int = 64
    mlp_dim: int = 512
    num_layers: int = 6
    chunk_length: int = 64
    num_hashes: int = 1
    seed: int = 0

    def __post_init__(self):
        if self.length % self.chunk_length or self.length <= self.chunk_length:
            raise ValueError(
                f"length {self.length} is not two or more chunks of "
                f"{self.chunk_length}; transformers trains on whole chunks only"
            )

    @property
    def config(self) -> ReformerConfig:
        """The model; without dropout, rounded as transformers rounds."""
        columns = 2 ** ((self.length.bit_length()) // 2)
        columns = math.gcd(self.length, columns)
        return small_config(
            embed_dim=self.embed_dim,
            num_layers=self.num_layers,
            pattern=("local", "lsh"),
            num_heads=self.num_heads,
            head_dim=self.head_dim,
            mlp_dim=self.mlp_dim,
            max_length=self.length,
            axial_shape=(self.length // columns, columns),
            local_chunk_length=self.chunk_length,
            chunk_length=self.chunk_length,
            num_hashes=self.num_hashes,
            num_buckets=buckets_for(self.length, self.chunk_length),
            rounding="transformers",
            hash_seed=self.seed,
        )

    @property
    def tokens(self) -> np.ndarray:
        """int32 `[1, length]`."""
        return random_tokens(self.config, 1, self.length, self.seed)


class JaxLm:
    """This library's loss and gradients.

    Args:
      sizes: of the model.
      rotations: of `TransformersLm.rotations`; None: drawn from the seed.
    """

    def __init__(self, sizes: LmSizes, rotations: np.ndarray | None = None):
        params = random_params(sizes.config, sizes.seed)
        step = jax.value_and_grad(lm_loss(sizes.config))
        self._step = Compiled.make(step, params, sizes.tokens, rotations)
        self.more = {"xla_temp_bytes": self._step.temp_bytes}

    def run(self) -> tuple[float, Any]:
        """(nats a token, gradients as the parameters)."""
        return self._step.run()

    @staticmethod
    def gradients(result: tuple[float, Any]) -> Any:
        """As `ReformerLm` has its parameters, numpy."""
        return jax.tree.map(np.asarray, result[1])


class TransformersLm:
    """Hugging Face's loss and gradients, in training mode with no dropout.

    In any other mode it refuses to go backwards through its reversible layers.

    Args:
      sizes: of the model.
    """

    def __init__(self, sizes: LmSizes):
        import torch

        self._config = sizes.config
        self._abstract = random_params(sizes.config, sizes.seed)
        model = beside_transformers.load(self._abstract, self._config)
        self._model = model.train()
        self._tokens = torch.from_numpy(sizes.tokens).long()
        self.more: dict[str, Any] = {}

    def rotations(self) -> np.ndarray:
        """What its LSH layers draw, `[heads, head_dim, num_hashes, half]`."""
        import torch

        c = self._config
        torch.manual_seed(c.hash_seed)
        half = sum(c.num_buckets) // 2
        shape = (c.num_heads, c.attention_head_dim, c.num_hashes, half)
        return torch.randn(shape).numpy()

    def run(self) -> tuple[float, None]:
        """(nats a token, nothing); gradients are left on the parameters."""
        self._model.zero_grad(set_to_none=True)
        loss = self._model(self._tokens, labels=self._tokens, use_cache=False).loss
        loss.backward()
        return loss.item(), None

    def gradients(self, result: tuple[float, None]) -> Any:
        """Of the last run, as `ReformerLm` has its parameters, numpy."""
        del result
        named = {
            # It keeps the bias of the logits and does not add it.
            name: np.zeros(p.shape, np.float32) if p.grad is None else p.grad.numpy()
            for name, p in self._model.named_parameters()
        }
        return import_hf(named, self._config, self._abstract)[0]


def gradient_error(got: Any, want: Any) -> float:
    """Norm of the difference over the norm of `want`, over all parameters but the bias
    of the logits, which transformers leaves out."""

    def leaves(tree):
        tree = tree | {"logits": {"kernel": tree["logits"]["kernel"]}}
        return [np.asarray(x, np.float64) for x in jax.tree.leaves(tree)]

    pairs = list(zip(leaves(got), leaves(want), strict=True))
    difference = sum(np.sum((a - b) ** 2) for a, b in pairs)
    return float(np.sqrt(difference / sum(np.sum(b**2) for _, b in pairs)))


def build(name: str, sizes: LmSizes) -> JaxLm | TransformersLm:
    """One side by itself.

    Raises:
      ValueError: for a name that is not among `SIDES`.
    """
    if name not in SIDES:
        raise ValueError(f"side {name!r} is not one of {SIDES}")
    return JaxLm(sizes) if name == "etc_jax" else TransformersLm(sizes)


def build_run(name: str, sizes: dict[str, int]):
    """Builder for `memory.measure`: (run, metrics) of one side."""
    side = build(name, LmSizes(**sizes))
    return side.run, side.more
