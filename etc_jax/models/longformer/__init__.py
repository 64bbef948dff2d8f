"""Longformer (Beltagy et al. 2020), of both sides or causal."""

from etc_jax.models import bert
from etc_jax.models.encoder.lm import EncoderForCausalLm
from etc_jax.models.family import register
from etc_jax.models.longformer.config import LongformerConfig
from etc_jax.models.longformer.decoding import LongformerDecoder
from etc_jax.models.longformer.extension import EXTENSION
from etc_jax.models.longformer.weights import EXCHANGE

FAMILY = register(
    "longformer",
    bert.FAMILY._replace(
        config=LongformerConfig,
        sizes={"base": LongformerConfig()},
        causal_lm=EncoderForCausalLm,
        decoder=LongformerDecoder,
        exchange=EXCHANGE,
        extension=EXTENSION,
    ),
)
