"""A causal Longformer as a language model, one token after the other from a cache.

A layer's cache has no more rows than its window reaches, whatever the length.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from etc_jax.layers.block import Block
from etc_jax.layers.self_attention import SequenceInputs
from etc_jax.layers.stack import stack_layers
from etc_jax.models.causal_decoder import (
    Cache,
    CausalDecoder,
    last_rows,
    prompt_ids,
)
from etc_jax.models.encoder.body import make_layer
from etc_jax.models.encoder.lm import EncoderForCausalLm
from etc_jax.ops.attention.row_cache import Newest


@dataclasses.dataclass(frozen=True)
class LongformerDecoder(CausalDecoder):
    """A causal Longformer token by token; see `decoding.Decoder`."""

    reads_beams: ClassVar[bool] = True

    def init_cache(self, params: Any, batch: int, length: int) -> Cache:
        """An empty cache; see `decoding.Decoder`."""
        none = jnp.zeros((batch, 1), jnp.int32)
        # A prompt of one token of padding leaves an empty cache.
        _, layers = self._prompt(params, none, jnp.zeros((batch,), jnp.int32), length)
        return Cache(layers, jnp.zeros((batch,), jnp.int32), length)

    def prefill(
        self, params: Any, tokens: jax.Array, lengths: jax.Array, length: int
    ) -> tuple[jax.Array, Cache]:
        """(logits `[b, vocabulary]` after a prompt, cache); see `decoding.Decoder`."""
        x, layers = self._prompt(params, tokens, lengths, length)
        model = self._model(params)
        # [b, n, e] -> [b, 1, e] -> [b, vocabulary]
        logits = model.logits(model.encoder.finish(last_rows(x, lengths)))[:, 0]
        return logits, Cache(layers, lengths, length)

    def step(
        self, params: Any, cache: Cache, token: jax.Array
    ) -> tuple[jax.Array, Cache]:
        """(logits `[b, vocabulary]` after `token`, cache); see `decoding.Decoder`."""
        model = self._model(params)
        position = cache.newest
        cache = cache.with_own_rows()
        one = jnp.ones_like(token)[:, None]
        # [b] -> [b, 1, e], at the place of the newest token.
        x = model.encoder.embeddings(token[:, None], one, None, position[:, None])
        blocks, stacked = self._layers(params, cache.length)

        def body(carry, inputs):
            x, layers = carry
            layer, params = inputs
            now = SequenceInputs(None, newest=Newest(position, layer, beam=cache.beam))
            for i, block in enumerate(blocks):
                x, state = _apply(block, params, x, now, layers[i])
                layers = (*layers[:i], state, *layers[i + 1 :])
            return (x, layers), None

        repeats = jnp.arange(self._repeats, dtype=jnp.int32)
        # Caches are carried, so that each layer writes its row where it is.
        # Parameters [repeats, ...] go through the scan, one repeat a step.
        (x, layers), _ = jax.lax.scan(body, (x, cache.layers), (repeats, stacked))
        return cache.with_token(layers, model.logits(model.encoder.finish(x))[:, 0])

    @property
    def _repeats(self) -> int:
        return self.config.num_layers // len(self.config.patterns)

    def _model(self, params: Any) -> EncoderForCausalLm:
        return EncoderForCausalLm(self.config).bind({"params": params})

    def _layers(self, params: Any, length: int) -> tuple[list[Block], Any]:
        """(the layers of a run, with caches; their parameters, stacked by repeats)."""
        stack = params["encoder"]["stack"]
        if not self.config.scan_layers:
            # Decoding always scans, so unrolled parameters are stacked.
            stack = stack_layers(stack)
        blocks = [
            make_layer(self.config, True, i, pattern, cache_length=length)()
            for i, pattern in enumerate(self.config.patterns)
        ]
        return blocks, stack["layers"]["period"]

    def _prompt(self, params: Any, tokens, lengths, length: int):
        """(rows after the layers, caches) of prompts."""
        ids = prompt_ids(tokens, lengths)
        x = self._model(params).encoder.embeddings(tokens, ids)
        blocks, stacked = self._layers(params, length)

        def body(x, params):
            caches = []
            for block in blocks:
                x, state = _apply(block, params, x, SequenceInputs(ids))
                caches.append(state)
            return x, tuple(caches)

        # Caches come out with a leading axis of repeats.
        return jax.lax.scan(body, x, stacked)


def _apply(block: Block, params: Any, x, shared, state=None):
    return block.apply({"params": params[block.name]}, x, shared, None, state)
