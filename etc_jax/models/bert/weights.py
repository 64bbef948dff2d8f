"""BERT as Hugging Face writes it."""

from etc_jax.models.bert.config import BertConfig
from etc_jax.models.encoder.hf_config import EncoderFamily
from etc_jax.models.encoder.weights import exchange_of

MLM = (
    ("cls.predictions.transform.dense.", "mlm.dense."),
    ("cls.predictions.transform.LayerNorm.", "mlm.norm."),
    ("cls.predictions.decoder.", "mlm.decoder."),
    ("cls.predictions.bias", "mlm.bias"),
)
EXCHANGE = exchange_of(
    BertConfig,
    EncoderFamily("Bert", ("bert.",), MLM),
    tokenizer_class="BertTokenizer",
)
