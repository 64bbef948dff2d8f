"""T5 (Raffel et al. 2020), and its version 1.1."""

from etc_jax.models import bart
from etc_jax.models.family import register
from etc_jax.models.t5.config import SIZES, SIZES_V11, T5Config
from etc_jax.models.t5.weights import EXCHANGE, names

_V11 = {
    "gated": True,
    "activation": "gelu",
    "tied_logits": False,
    "scaled_logits": False,
}
FAMILY = register(
    "t5",
    bart.FAMILY._replace(
        config=T5Config,
        sizes={
            **{name: T5Config(**sizes) for name, sizes in SIZES.items()},
            **{
                f"v11_{name}": T5Config(**sizes, **_V11)
                for name, sizes in SIZES_V11.items()
            },
        },
        weight_names=names,
        exchange=EXCHANGE,
    ),
)
