"""BigBird (Zaheer et al. 2020)."""

from etc_jax.models import bert
from etc_jax.models.big_bird.config import BigBirdConfig
from etc_jax.models.big_bird.extension import EXTENSION
from etc_jax.models.big_bird.weights import EXCHANGE
from etc_jax.models.family import register

FAMILY = register(
    "big_bird",
    bert.FAMILY._replace(
        config=BigBirdConfig,
        sizes={"base": BigBirdConfig()},
        exchange=EXCHANGE,
        extension=EXTENSION,
    ),
)
