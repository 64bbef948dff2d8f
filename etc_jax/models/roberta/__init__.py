"""RoBERTa (Liu et al. 2019)."""

from etc_jax.models import bert
from etc_jax.models.family import register
from etc_jax.models.roberta.config import RobertaConfig
from etc_jax.models.roberta.weights import EXCHANGE

FAMILY = register(
    "roberta",
    bert.FAMILY._replace(
        config=RobertaConfig, sizes={"base": RobertaConfig()}, exchange=EXCHANGE
    ),
)
