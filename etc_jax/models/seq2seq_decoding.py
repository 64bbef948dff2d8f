"""BART, LED, T5, LongT5 token by token: the input is encoded once, with its keys.

The keys and values of cross-attention are made once for each input, and read by all
beams of it.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from etc_jax import registry
from etc_jax.layers.cross_attention import MemoryProjections
from etc_jax.layers.self_attention import Memory, SequenceInputs
from etc_jax.layers.stack import stack_layers
from etc_jax.models.causal_decoder import Cache, CausalDecoder
from etc_jax.models.encoder_decoder import (
    EncoderDecoder,
    attention_options,
    make_layer,
)
from etc_jax.models.encoder_decoder_config import EncoderDecoderConfig
from etc_jax.ops.attention.memory_rows import MemoryRows
from etc_jax.ops.attention.row_cache import Newest


@registry.register("decoder", "bart")
@registry.register("decoder", "led")
@registry.register("decoder", "t5")
@registry.register("decoder", "long_t5")
@dataclasses.dataclass(frozen=True)
class Seq2SeqDecoder(CausalDecoder):
    """An encoder-decoder token by token; see `decoding.Decoder`.

    Sequences are those of the decoder, which begin with `config.decoder_start_id`.
    """

    reads_beams: ClassVar[bool] = True

    config: EncoderDecoderConfig

    def check(self, length: int) -> None:
        """Raises ValueError if the decoder does not write so much."""
        longest = self.config.max_target_length
        if not 1 <= length <= longest:
            raise ValueError(
                f"length is {length}, expected 1..{longest}: the model's "
                "max_target_length is how many tokens its decoder writes"
            )

    def encode(
        self,
        params: Any,
        input_tokens: jax.Array,
        input_example_ids: jax.Array | None = None,
        global_index: jax.Array | None = None,
    ) -> Memory:
        """What the decoder reads; see `EncoderDecoder.__call__`."""
        model = self._model(params)
        return model.encode(input_tokens, input_example_ids, global_index)

    def prefill(
        self,
        params: Any,
        tokens: jax.Array,
        lengths: jax.Array,
        length: int,
        memory: Memory,
    ) -> tuple[jax.Array, Cache]:
        """See `decoding.Decoder`; `memory` is of `encode`."""
        model = self._model(params)
        # [1, m]
        place = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
        # int32 [b, m]: 0 after the end of each prompt.
        ids = (place < lengths[:, None]).astype(jnp.int32)
        x = self._start(model, tokens, jnp.broadcast_to(place, tokens.shape))
        block, stacked = self._layers(params, length)
        rows = self._memory_rows(stacked, memory)
        inputs = model.decoder.with_biases(SequenceInputs(ids))

        def body(x, of_layer):
            params, key, value = of_layer
            mine = rows._replace(key=key, value=value)
            # x is [b, m, e]; the cache of a layer is [b, length, h, d].
            return block.apply({"params": params}, x, inputs._replace(memory=mine))

        # Caches come out with a leading axis of layers.
        x, layers = jax.lax.scan(body, x, (stacked, rows.key, rows.value))
        # [b, m, e] -> [b, 1, e]: the row of each prompt's last token.
        last = jnp.take_along_axis(x, (lengths - 1)[:, None, None], axis=1)
        return self._logits(model, last), Cache((layers,), lengths, length, rows)

    def step(
        self, params: Any, cache: Cache, token: jax.Array
    ) -> tuple[jax.Array, Cache]:
        """See `decoding.Decoder`."""
        model = self._model(params)
        position = cache.newest
        # [b] -> [b, 1, e]
        x = self._start(model, token[:, None], position[:, None])
        block, stacked = self._layers(params, cache.length)
        inputs = model.decoder.with_biases(SequenceInputs(None))
        cache = cache.with_own_rows()
        rows = cache.memory

        def body(carry, of_layer):
            x, kept = carry
            layer, params, key, value = of_layer
            shared = inputs._replace(
                memory=rows._replace(key=key, value=value),
                newest=Newest(position, layer, beam=cache.beam),
            )
            return block.apply({"params": params}, x, shared, None, kept), None

        # Caches are carried, so that each layer writes its row where it is.
        layers = jnp.arange(self.config.num_decoder_layers, dtype=jnp.int32)
        of_layers = (layers, stacked, rows.key, rows.value)
        (x, kept), _ = jax.lax.scan(body, (x, *cache.layers), of_layers)
        return cache.with_token((kept,), self._logits(model, x))

    def _model(self, params: Any) -> EncoderDecoder:
        return EncoderDecoder(self.config).bind({"params": params})

    def _start(self, model: EncoderDecoder, tokens, positions) -> jax.Array:
        """`[b, n, e]` that the first layer reads."""
        return model.decoder.start(model.embedded_targets(tokens), positions)

    def _logits(self, model: EncoderDecoder, x: jax.Array) -> jax.Array:
        """`[b, 1, e]` -> float32 `[b, vocabulary]`."""
        return model.vocabulary_logits(model.decoder.finish(x))[:, 0]

    def _layers(self, params: Any, length: int):
        """(the block of all layers, with a cache; their parameters, stacked)."""
        stack = params["decoder"]["stack"]
        if not self.config.scan_layers:
            # Decoding always scans, so unrolled parameters are stacked.
            stack = stack_layers(stack)
        side = self.config.decoder_side
        (pattern,) = side.patterns
        block = make_layer(self.config, side, True, 0, pattern, length)()
        return block, stack["layers"]["period"][block.name]

    def _memory_rows(self, stacked: Any, memory: Memory) -> MemoryRows:
        """Keys and values of all layers, `[layers, b, h, n, d]`."""
        c = self.config
        maps = MemoryProjections(**attention_options(c, c.decoder_side, True))
        # [b, n, e] -> [layers, b, h, n, d], twice.
        key, value = jax.vmap(lambda p: maps.apply({"params": p}, memory.rows))(
            stacked["cross_attention"]
        )
        return MemoryRows(key, value, memory.example_ids)
