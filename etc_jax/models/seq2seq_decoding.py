"""BART, LED, T5, LongT5 token by token: the input is encoded once, with its keys.

The keys and values of cross-attention are made once for each input, and read by all
beams of it.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from etc_jax.layers.block import Block
from etc_jax.layers.cross_attention import MemoryProjections
from etc_jax.layers.self_attention import Memory, SequenceInputs
from etc_jax.layers.stack import stack_layers
from etc_jax.models.causal_decoder import (
    Cache,
    CausalDecoder,
    check_length,
    last_rows,
    prompt_ids,
)
from etc_jax.models.encoder_decoder.body import EncoderDecoder
from etc_jax.models.encoder_decoder.config import EncoderDecoderConfig
from etc_jax.models.encoder_decoder.layers import attention_options, make_layer
from etc_jax.ops.attention.memory_rows import MemoryRows
from etc_jax.ops.attention.row_cache import Newest


class CachedLayers(Protocol):
    """The layers of a decoder, with their parameters and caches."""

    def memory_rows(self, memory: Memory) -> MemoryRows:
        """The keys and values of cross-attention, of all layers."""

    def fill(
        self, x: jax.Array, example_ids: jax.Array, memory: MemoryRows
    ) -> tuple[Any, tuple[Any, ...]]:
        """Runs a prompt.

        Args:
          x: `[b, m, e]`, what the first layer reads.
          example_ids: int `[b, m]`, 0 after the end of each prompt.
          memory: of `memory_rows`.

        Returns:
          (rows after the last layer, states of the layers: see `Cache.layers`).
        """

    def step(self, x: jax.Array, cache: Cache) -> tuple[Any, tuple[Any, ...]]:
        """The same of one token more, `[b, 1, e]`, with the cache of those before."""


class CachedBlocks(NamedTuple):
    """Layers that are blocks; see `CachedLayers`.

    Attributes:
      config: of the model.
      model: of the parameters.
      block: of all layers, with a cache.
      params: of the layers, stacked.
    """

    config: EncoderDecoderConfig
    model: EncoderDecoder
    block: Block
    params: Any

    @classmethod
    def of(
        cls,
        config: EncoderDecoderConfig,
        model: EncoderDecoder,
        stack: Any,
        length: int,
    ) -> CachedBlocks:
        """Those of a model.

        Args:
          config: of the model.
          model: of the parameters.
          stack: parameters of the decoder's stack.
          length: longest sequence that there will be.
        """
        if not config.scan_layers:
            # Decoding always scans, so unrolled parameters are stacked.
            stack = stack_layers(stack)
        side = config.decoder_side
        (pattern,) = side.patterns
        block = make_layer(config, side, True, 0, pattern, length)()
        return cls(config, model, block, stack["layers"]["period"][block.name])

    def memory_rows(self, memory: Memory) -> MemoryRows:
        """Keys and values of all layers, `[layers, b, h, n, d]`."""
        c = self.config
        maps = MemoryProjections(**attention_options(c, c.decoder_side, True))
        # [b, n, e] -> [layers, b, h, n, d], twice.
        key, value = jax.vmap(lambda p: maps.apply({"params": p}, memory.rows))(
            self.params["cross_attention"]
        )
        return MemoryRows(key, value, memory.example_ids)

    def fill(self, x: jax.Array, example_ids: jax.Array, memory: MemoryRows):
        """(rows `[b, m, e]` after the last layer, states); see `CachedLayers`."""
        inputs = self.model.decoder.with_biases(SequenceInputs(example_ids))

        def body(x, of_layer):
            params, key, value = of_layer
            shared = inputs._replace(memory=memory._replace(key=key, value=value))
            # x is [b, m, e]; the cache of a layer is [b, length, h, d].
            return self.block.apply({"params": params}, x, shared)

        # Caches come out with a leading axis of layers.
        x, caches = jax.lax.scan(body, x, (self.params, memory.key, memory.value))
        return x, (caches,)

    def step(self, x: jax.Array, cache: Cache):
        """(rows `[b, 1, e]` after the last layer, states); see `CachedLayers`."""
        inputs = self.model.decoder.with_biases(SequenceInputs(None))
        rows, position = cache.memory, cache.newest

        def body(carry, of_layer):
            x, caches = carry
            layer, params, key, value = of_layer
            shared = inputs._replace(
                memory=rows._replace(key=key, value=value),
                newest=Newest(position, layer, beam=cache.beam),
            )
            return self.block.apply({"params": params}, x, shared, None, caches), None

        # Caches are carried, so that each layer writes its row where it is.
        layers = jnp.arange(self.config.num_decoder_layers, dtype=jnp.int32)
        of_layers = (layers, self.params, rows.key, rows.value)
        (x, caches), _ = jax.lax.scan(body, (x, *cache.layers), of_layers)
        return x, (caches,)


@dataclasses.dataclass(frozen=True)
class Seq2SeqDecoder(CausalDecoder):
    """An encoder-decoder token by token; see `decoding.Decoder`.

    Sequences are those of the decoder, which begin with `config.decoder_start_id`.
    """

    reads_beams: ClassVar[bool] = True

    config: EncoderDecoderConfig

    def check(self, length: int) -> None:
        """Raises ValueError if the decoder does not write so much."""
        reason = "max_target_length is how many tokens its decoder writes"
        check_length(length, self.config.longest_target, reason)

    def encode(
        self,
        params: Any,
        input_tokens: jax.Array,
        input_example_ids: jax.Array | None = None,
        global_index: jax.Array | None = None,
    ) -> Memory:
        """What the decoder reads of int `[b, n]`; see `EncoderDecoder.__call__`."""
        model = self.model(params)
        return model.encode(input_tokens, input_example_ids, global_index)

    def prefill(
        self,
        params: Any,
        tokens: jax.Array,
        lengths: jax.Array,
        length: int,
        memory: Memory,
    ) -> tuple[jax.Array, Cache]:
        """(logits `[b, vocabulary]` after a prompt, cache); `memory` is of `encode`."""
        model = self.model(params)
        layers = self.layers(model, params, length)
        # [1, m]
        position = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
        x = self._start(model, tokens, jnp.broadcast_to(position, tokens.shape))
        rows = layers.memory_rows(memory)
        x, states = layers.fill(x, prompt_ids(tokens, lengths), rows)
        # [b, m, e] -> [b, 1, e]
        logits = self._logits(model, last_rows(x, lengths))
        return logits, Cache(states, lengths, length, rows)

    def step(
        self, params: Any, cache: Cache, token: jax.Array
    ) -> tuple[jax.Array, Cache]:
        """(logits `[b, vocabulary]` after `token`, cache); see `decoding.Decoder`."""
        model = self.model(params)
        # [b] -> [b, 1, e]
        x = self._start(model, token[:, None], cache.newest[:, None])
        cache = cache.with_own_rows()
        x, states = self.layers(model, params, cache.length).step(x, cache)
        return cache.with_token(states, self._logits(model, x))

    def model(self, params: Any) -> EncoderDecoder:
        """The module with its parameters."""
        return EncoderDecoder(self.config).bind({"params": params})

    def layers(self, model: EncoderDecoder, params: Any, length: int) -> CachedLayers:
        """The decoder's layers, for a cache of so many tokens."""
        stack = params["decoder"]["stack"]
        return CachedBlocks.of(self.config, model, stack, length)

    def _start(self, model: EncoderDecoder, tokens, positions) -> jax.Array:
        """`[b, n, e]` that the first layer reads."""
        return model.decoder.start(model.embedded_targets(tokens), positions)

    def _logits(self, model: EncoderDecoder, rows: Any) -> jax.Array:
        """What `CachedLayers` give, of one token each -> float32 `[b, vocabulary]`."""
        return model.vocabulary_logits(model.decoder.finish(rows))[:, 0]
