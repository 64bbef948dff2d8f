"""LongT5 (Guo et al. 2022)."""

from etc_jax.models import t5
from etc_jax.models.family import register
from etc_jax.models.long_t5.config import LongT5Config
from etc_jax.models.long_t5.extension import EXTENSION
from etc_jax.models.long_t5.weights import EXCHANGE
from etc_jax.models.t5.config import SIZES_V11

FAMILY = register(
    "long_t5",
    t5.FAMILY._replace(
        config=LongT5Config,
        sizes={
            f"{kind}_{name}": LongT5Config(**sizes, encoder_attention=attention)
            for kind, attention in (
                ("local", "local"),
                ("tglobal", "transient_global"),
            )
            for name, sizes in SIZES_V11.items()
            if name != "small"
        },
        exchange=EXCHANGE,
        extension=EXTENSION,
    ),
)
