"""BERT, RoBERTa, Longformer, BigBird."""

from etc_jax.models.encoder.body import Encoder, EncoderForMaskedLm
from etc_jax.models.encoder.config import (
    BertConfig,
    BigBirdConfig,
    LongformerConfig,
    RobertaConfig,
)
from etc_jax.models.encoder.decoding import LongformerDecoder
from etc_jax.models.encoder.flops import EncoderFlops
from etc_jax.models.encoder.lm import EncoderForCausalLm
from etc_jax.models.family import Family, register

_BERT = Family(BertConfig, Encoder, EncoderForMaskedLm, flops=EncoderFlops)
FAMILIES = {
    "bert": _BERT,
    "roberta": _BERT._replace(config=RobertaConfig),
    "longformer": _BERT._replace(
        config=LongformerConfig,
        causal_lm=EncoderForCausalLm,
        decoder=LongformerDecoder,
    ),
    "big_bird": _BERT._replace(config=BigBirdConfig),
}
for _name, _family in FAMILIES.items():
    register(_name, _family)
