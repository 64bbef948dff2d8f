"""BART (Lewis et al. 2020)."""

from etc_jax.models.bart.config import SIZES, BartConfig
from etc_jax.models.bart.weights import EXCHANGE, names
from etc_jax.models.encoder_decoder.body import EncoderDecoder
from etc_jax.models.encoder_decoder.flops import EncoderDecoderFlops
from etc_jax.models.family import Family, register
from etc_jax.models.seq2seq_decoding import Seq2SeqDecoder

FAMILY = register(
    "bart",
    Family(
        BartConfig,
        sizes={name: BartConfig(**sizes) for name, sizes in SIZES.items()},
        seq2seq=EncoderDecoder,
        decoder=Seq2SeqDecoder,
        flops=EncoderDecoderFlops,
        text_encoder="text_to_text",
        weight_names=names,
        exchange=EXCHANGE,
    ),
)
