"""Reformer (Kitaev et al. 2020), as a language model and as an encoder-decoder."""

from etc_jax.models.family import Family, register
from etc_jax.models.reformer.body import ReformerLm
from etc_jax.models.reformer.config import ReformerConfig
from etc_jax.models.reformer.decoding import ReformerDecoder
from etc_jax.models.reformer.flops import ReformerFlops
from etc_jax.models.reformer.seq2seq import (
    ReformerSeq2Seq,
    ReformerSeq2SeqConfig,
    ReformerSeq2SeqFlops,
)
from etc_jax.models.reformer.seq2seq_decoding import ReformerSeq2SeqDecoder
from etc_jax.models.reformer.weights import EXCHANGE

FAMILY = register(
    "reformer",
    Family(
        ReformerConfig,
        masked_lm=ReformerLm,
        causal_lm=ReformerLm,
        decoder=ReformerDecoder,
        flops=ReformerFlops,
        exchange=EXCHANGE,
    ),
)
SEQ2SEQ = register(
    "reformer_seq2seq",
    Family(
        ReformerSeq2SeqConfig,
        seq2seq=ReformerSeq2Seq,
        decoder=ReformerSeq2SeqDecoder,
        flops=ReformerSeq2SeqFlops,
    ),
)
