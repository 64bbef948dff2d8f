"""BERT (Devlin et al. 2018)."""

from etc_jax.models.bert.config import BertConfig
from etc_jax.models.bert.weights import EXCHANGE
from etc_jax.models.encoder.body import Encoder, EncoderForMaskedLm
from etc_jax.models.encoder.flops import EncoderFlops
from etc_jax.models.encoder.weights import names
from etc_jax.models.family import Family, register

FAMILY = register(
    "bert",
    Family(
        BertConfig,
        sizes={"base": BertConfig()},
        body=Encoder,
        masked_lm=EncoderForMaskedLm,
        flops=EncoderFlops,
        text_encoder="sequence",
        weight_names=names,
        exchange=EXCHANGE,
    ),
)
