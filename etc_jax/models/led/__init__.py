"""LED (Beltagy et al. 2020, section 7)."""

from etc_jax.models import bart
from etc_jax.models.bart.config import SIZES
from etc_jax.models.family import register
from etc_jax.models.led import allenai  # noqa: F401  (a layout that is read too)
from etc_jax.models.led.config import LedConfig
from etc_jax.models.led.extension import EXTENSION
from etc_jax.models.led.weights import EXCHANGE, names

FAMILY = register(
    "led",
    bart.FAMILY._replace(
        config=LedConfig,
        sizes={name: LedConfig(**sizes) for name, sizes in SIZES.items()},
        weight_names=names,
        exchange=EXCHANGE,
        extension=EXTENSION,
    ),
)
