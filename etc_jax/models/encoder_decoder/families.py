"""BART, LED, T5, LongT5, BART-LS."""

from etc_jax.models.encoder_decoder.body import EncoderDecoder
from etc_jax.models.encoder_decoder.config import (
    BartConfig,
    LedConfig,
    LongT5Config,
    T5Config,
)
from etc_jax.models.encoder_decoder.flops import EncoderDecoderFlops
from etc_jax.models.family import Family, register
from etc_jax.models.seq2seq_decoding import Seq2SeqDecoder
from etc_jax.models.sled.bart_ls_config import BartLsConfig

_CONFIGS = {
    "bart": BartConfig,
    "led": LedConfig,
    "t5": T5Config,
    "long_t5": LongT5Config,
    "bart_ls": BartLsConfig,
}
FAMILIES = {
    name: Family(
        config,
        seq2seq=EncoderDecoder,
        decoder=Seq2SeqDecoder,
        flops=EncoderDecoderFlops,
    )
    for name, config in _CONFIGS.items()
}
for _name, _family in FAMILIES.items():
    register(_name, _family)
