"""BART-LS (Xiong et al. 2022)."""

from etc_jax.models import bart
from etc_jax.models.bart.config import SIZES
from etc_jax.models.bart_ls.config import BartLsConfig
from etc_jax.models.bart_ls.extension import EXTENSION
from etc_jax.models.bart_ls.weights import names
from etc_jax.models.family import register

FAMILY = register(
    "bart_ls",
    bart.FAMILY._replace(
        config=BartLsConfig,
        # Section 2.1: the last layers of the encoder have averages.
        sizes={name: BartLsConfig(**sizes) for name, sizes in SIZES.items()},
        weight_names=names,
        exchange=None,
        extension=EXTENSION,
    ),
)
