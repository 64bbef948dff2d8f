"""Reformer beside transformers' Reformer: time and memory of a training step.

    python -m benchmarks reformer_speed --out=reformer_speed.json

Loss and gradients of a language model of bytes with local and LSH layers in turn. Both
are given the same random rotations, so that each token falls into the same bucket:
transformers draws its own from `hash_seed` before each hash. Losses and gradients are
compared first: both compute the same function, but a rounding error can move a token
that lies between two buckets, so that gradients are held to less than losses. A busy
machine is refused (exit code 3); exit code 1 if a floor fails.
"""

import dataclasses
import math

import jax
import numpy as np

from benchmarks.kit import beside, report
from benchmarks.kit.beside import JaxStep, Peers, TransformersStep
from benchmarks.speed.reformer_parts import (
    lm_loss,
    random_lm_params,
    random_tokens,
    small_config,
)
from etc_jax.models.reformer.config import ReformerConfig
from etc_jax.models.reformer.weights import weights_to_hf
from etc_jax.ops.attention.parts.lsh_hashing import buckets_for

GRADIENT_TOLERANCE = 0.05


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

    length: int
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
        columns = math.gcd(self.length, 2 ** (self.length.bit_length() // 2))
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


def jax_step(sizes: LmSizes, rotations: np.ndarray | None = None) -> JaxStep:
    """This library's side; rotations are those of `torch_rotations`, or drawn."""
    config = sizes.config
    params = random_lm_params(config, sizes.seed)
    return JaxStep(
        lm_loss(config),
        params,
        sizes.tokens,
        rotations,
        # The bias of the logits by both names: versions differ in which they add.
        export_fn=lambda gradients: weights_to_hf(
            jax.tree.map(np.asarray, gradients), config
        ),
    )


def transformers_step(sizes: LmSizes) -> TransformersStep:
    """The side of transformers: only in training it goes back through its layers."""
    import torch

    model = beside.load(random_lm_params(sizes.config, sizes.seed), sizes.config)
    tokens = torch.from_numpy(sizes.tokens).long()
    return TransformersStep(model, input_ids=tokens, labels=tokens)


def torch_rotations(config: ReformerConfig) -> np.ndarray:
    """What its LSH layers draw, `[heads, head_dim, num_hashes, half]`."""
    import torch

    torch.manual_seed(config.hash_seed)
    half = sum(config.num_buckets) // 2
    shape = config.num_heads, config.attention_head_dim, config.num_hashes, half
    return torch.randn(shape, device=beside.device()).cpu().numpy()


def parts(sizes: LmSizes) -> beside.Parts:
    """See `beside.step_parts`."""
    other = transformers_step(sizes)
    own = jax_step(sizes, torch_rotations(sizes.config))
    return beside.step_parts(own, other, tolerance=GRADIENT_TOLERANCE)


PEERS = Peers(
    __name__,
    __doc__,
    LmSizes,
    {"etc_jax": jax_step, "transformers": transformers_step},
    parts,
    what=lambda sizes: f"loss and gradients of {sizes.length} tokens",
    faster=lambda *_: 2.0,
    axes={"lengths": (report.integers, (4096, 16384))},
    rounds=5,
)
main = PEERS.main
