"""Reformer as an encoder-decoder, token by token: the input is encoded once.

Each token sees what it would see if the target ended with it; `reformer.decoding` says
where that is what one forward pass over the target shows it. Beams of one input share
the keys and values of cross-attention, and copy the rows of self-attention.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax

from etc_jax.layers.patterns.chunks import change_rows
from etc_jax.models.reformer.decoding import ReformerLayers
from etc_jax.models.reformer.seq2seq import ReformerSeq2Seq, ReformerSeq2SeqConfig
from etc_jax.models.seq2seq_decoding import Seq2SeqDecoder


@dataclasses.dataclass(frozen=True)
class ReformerSeq2SeqDecoder(Seq2SeqDecoder):
    """See `Seq2SeqDecoder`."""

    reads_beams: ClassVar[bool] = False

    config: ReformerSeq2SeqConfig

    def of_rows(self, layers: Any, change: Callable[[jax.Array], jax.Array]) -> Any:
        """Changes all arrays `[layers, b, ...]` of the layers' states."""
        return change_rows(layers, change)

    def model(self, params: Any) -> ReformerSeq2Seq:
        """See `Seq2SeqDecoder`."""
        return ReformerSeq2Seq(self.config).bind({"params": params})

    def layers(self, model: ReformerSeq2Seq, params: Any, length: int):
        """See `Seq2SeqDecoder`."""
        side, stack = self.config.one_side(causal=True), params["decoder"]["stack"]
        return ReformerLayers.of(side, stack, length, cross_attention=True)
