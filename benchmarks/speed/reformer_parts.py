"""What the benchmarks of Reformer compile: one attention layer, or a language model."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.kit.compiled import Compiled, random_params, with_gradient
from etc_jax.layers.patterns.chunks import LshChunks
from etc_jax.layers.self_attention import SelfAttention, SequenceInputs
from etc_jax.models.reformer import weights as reformer
from etc_jax.models.reformer.body import ReformerLm
from etc_jax.models.reformer.config import ReformerConfig
from etc_jax.ops.attention import lsh

KINDS = ("lsh", "full")


@dataclasses.dataclass(frozen=True)
class FullUnits(LshChunks):
    """Every earlier token, by jax.nn, with the parameters of `LshChunks`."""

    def run(self, layer, projected, inputs, per_layer=None, state=None):
        """See `Pattern.run`."""
        del layer, inputs, per_layer, state
        query_key, value = projected.rows
        keys = lsh.unit_keys(query_key)
        out = jax.nn.dot_product_attention(
            query_key, keys, value, scale=1.0, is_causal=self.causal
        )
        return out, None


@dataclasses.dataclass(frozen=True)
class AttentionSizes:
    """One causal attention layer: projections, attention, output.

    Attributes:
      kind: of `KINDS`.
      length: tokens.
      num_heads, head_dim: their product is the width of the stream.
      chunk_length: of sorted tokens; a token sees its chunk and the one before.
      num_hashes: rounds of hashing.
      seed: of weights, inputs and rotations.
    """

    kind: str = "lsh"
    length: int = 1024
    num_heads: int = 8
    head_dim: int = 64
    chunk_length: int = 64
    num_hashes: int = 2
    seed: int = 0

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"kind {self.kind!r} is not one of {KINDS}")


def attention_step(sizes: AttentionSizes, *, implementation: str = "xla") -> Compiled:
    """Forward and backward pass of one layer, compiled.

    Its run gives (output, (gradients of the weights, of the input)) of the sum of
    squares of the output, as `compiled.with_gradient`.

    Args:
      sizes: of the layer; the buckets are about two for each chunk.
      implementation: of LSH attention, "xla" or the oracle, "dense".
    """
    embed = sizes.num_heads * sizes.head_dim
    look, kind = lsh.ChunkNeighbors(sizes.chunk_length), LshChunks
    if sizes.kind == "full":
        kind, implementation = FullUnits, "auto"
    pattern = kind(look, causal=True, num_hashes=sizes.num_hashes)
    module = SelfAttention(
        sizes.num_heads,
        sizes.head_dim,
        pattern,
        stddev=embed**-0.5,
        projection_bias=False,
        out_bias=False,
        implementation=implementation,
    )
    rng = np.random.default_rng(sizes.seed)
    x = rng.standard_normal((1, sizes.length, embed), np.float32)

    def sequence(x):
        return SequenceInputs(jnp.ones(x.shape[:2], jnp.int32))

    def forward(params, x):
        rngs = {"lsh": jax.random.key(sizes.seed)}
        return module.apply({"params": params}, x, sequence(x), rngs=rngs)[0]

    params = module.init(jax.random.key(sizes.seed), x[:, :1], sequence(x[:, :1]))
    run = with_gradient(forward)
    return Compiled.make(run, params["params"], x, arrays=_attention_arrays)


def _attention_arrays(result: Any) -> dict[str, np.ndarray]:
    """Named arrays of a raw result of `attention_step`."""
    output, (weights, x) = result
    named = {f"grad {name}": part["kernel"] for name, part in weights.items()}
    named |= {"output": output, "grad input": x}
    return {name: np.asarray(array) for name, array in named.items()}


def small_config(*, chunk_length: int, **fields: Any) -> ReformerConfig:
    """A language model of bytes without dropout.

    Args:
      chunk_length: of LSH attention, with about two buckets for each chunk.
      **fields: others of `ReformerConfig`.
    """
    given = {
        "vocab_size": 256,
        "axial_shape": None,
        "axial_dims": None,
        "lsh_chunk_length": chunk_length,
        "num_buckets": None,
        "dropout_rate": 0.0,
    }
    return ReformerConfig(**given | fields)


def random_lm_params(config: ReformerConfig, seed: int = 0) -> dict[str, Any]:
    """Parameters of `ReformerLm`, numpy."""
    params = random_params(reformer.shapes(config), seed)
    # transformers 5 keeps this bias and does not add it.
    params["logits"]["bias"] = np.zeros_like(params["logits"]["bias"])
    return params


def random_tokens(config: ReformerConfig, batch: int, length: int, seed: int = 0):
    """int32 `[batch, length]`."""
    rng = np.random.default_rng(seed + 1)
    return rng.integers(0, config.vocab_size, (batch, length)).astype(np.int32)


def lm_loss(config: ReformerConfig) -> Callable[..., jax.Array]:
    """(params, tokens `[b, n]`, rotations or None) -> nats a token, over all but the
    first token of each row, as transformers counts them."""
    model = ReformerLm(config)

    def loss(params, tokens, rotations=None):
        losses, _ = model.apply(
            {"params": params},
            tokens,
            jnp.roll(tokens, -1, axis=1),
            None,
            rotations,
            method=model.losses,
        )
        return jnp.mean(losses[:, :-1])

    return loss


def model_step(config: ReformerConfig, *, batch: int, length: int) -> Compiled:
    """Loss and gradients of a language model, compiled."""
    step = jax.value_and_grad(lm_loss(config))
    return Compiled.make(
        step, random_lm_params(config), random_tokens(config, batch, length)
    )
