"""A small encoder-decoder for the tests of what trains such models.

One layer of dense attention on each side, without positions but those that the causal
mask gives, so that its losses are easily done again by hand. What is global is twice as
long as it would be.
"""

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

import jax
import jax.numpy as jnp
from flax import linen as nn

from etc_jax.base import registry
from etc_jax.config.model_fields import free, sized
from etc_jax.layers.patterns.full import Full
from etc_jax.layers.self_attention import Pattern
from etc_jax.ops.chunked_loss import FactoredLogits

NAME = "toy_seq2seq"


@registry.register("model_config", NAME)
@dataclasses.dataclass(frozen=True)
class ToySeq2SeqConfig:
    """Sizes of the toy."""

    formats: ClassVar[tuple[str, ...]] = ("text_to_text",)
    forced_bos_id: ClassVar[int | None] = None
    forced_eos_id: ClassVar[int | None] = None
    patterns: ClassVar[tuple[Pattern, ...]] = (Full(),)

    vocab_size: int = sized(40)
    embed_dim: int = sized(8)
    pad_id: int = free(0)
    decoder_start_id: int = free(0)
    eos_id: int = free(3)
    dropout_rate: float = free(0.1)
    chunk_length: int = free(4)
    dtype: str = sized("float32")

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.embed_dim < 1:
            yield "embed_dim", f"is {self.embed_dim}; expected at least 1"


class Attention(nn.Module):
    """One head; rows that see nothing are 0."""

    size: int

    @nn.compact
    def __call__(self, x, keys, mask):
        # Kernels as those of heads, of which there is one.
        def heads(y, name):
            shape = (1, self.size)
            return nn.DenseGeneral(shape, use_bias=False, name=name)(y)[:, :, 0]

        q, k, v = heads(x, "query"), heads(keys, "key"), heads(keys, "value")
        scores = jnp.einsum("bqe,bke->bqk", q, k) / jnp.sqrt(self.size)
        weights = jnp.where(mask, jnp.exp(scores), 0)  # [b, q, k]
        total = weights.sum(axis=-1, keepdims=True)
        y = jnp.einsum("bqk,bke->bqe", weights / jnp.maximum(total, 1e-9), v)
        out = nn.DenseGeneral(self.size, (-2, -1), use_bias=False, name="out")
        return x + out(y[:, :, None])


def same(a, b):
    """bool [b, q, k], whether two tokens are of one example."""
    return (a[:, :, None] == b[:, None, :]) & (a[:, :, None] > 0)


class Encoder(nn.Module):
    size: int

    @nn.compact
    def __call__(self, x, ids):
        return Attention(self.size, name="attention")(x, x, same(ids, ids))


class Decoder(nn.Module):
    size: int

    @nn.compact
    def __call__(self, y, memory, ids, input_ids):
        causal = jnp.tril(jnp.ones((y.shape[1],) * 2, bool))[None]
        y = Attention(self.size, name="attention")(y, y, same(ids, ids) & causal)
        cross = Attention(self.size, name="cross_attention")
        return cross(y, memory, same(ids, input_ids))


@registry.register("seq2seq_model", NAME)
class ToySeq2Seq(nn.Module):
    """See the module."""

    config: ToySeq2SeqConfig
    deterministic: bool = True

    def setup(self):
        c = self.config
        self.token_embedder = nn.Embed(c.vocab_size, c.embed_dim)
        self.encoder, self.decoder = Encoder(c.embed_dim), Decoder(c.embed_dim)
        self.dropout = nn.Dropout(c.dropout_rate)

    def encode(self, input_tokens, input_example_ids=None, global_index=None):
        ids = input_example_ids
        ids = jnp.ones_like(input_tokens) if ids is None else ids
        x = self.token_embedder(input_tokens)
        x = self.dropout(x, deterministic=self.deterministic)
        if global_index is not None:
            # Global tokens are marked: twice as long.
            places = jnp.arange(input_tokens.shape[1])[None, :, None]
            x = x * (1 + (places == global_index[:, None]).any(axis=-1))[..., None]
        return self.encoder(x, ids), ids

    def factored_logits(self, memory, decoder_tokens, target_example_ids=None):
        ids = target_example_ids
        ids = jnp.ones_like(decoder_tokens) if ids is None else ids
        x = self.decoder(self.token_embedder(decoder_tokens), memory[0], ids, memory[1])
        table, bias = self.token_embedder.embedding, jnp.zeros(self.config.vocab_size)
        return FactoredLogits(x, table.T, bias, self.config.chunk_length)

    def __call__(
        self,
        input_tokens,
        decoder_tokens,
        input_example_ids=None,
        target_example_ids=None,
        global_index=None,
    ) -> jax.Array:
        memory = self.encode(input_tokens, input_example_ids, global_index)
        made = self.factored_logits(memory, decoder_tokens, target_example_ids)
        return made.rows @ made.kernel + made.bias[None, None]
