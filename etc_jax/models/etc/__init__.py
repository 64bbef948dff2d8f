"""ETC (Ainslie et al. 2020)."""

from etc_jax.models.etc.config import EtcConfig, base, base_shared, large
from etc_jax.models.etc.extension import EXTENSION
from etc_jax.models.etc.flops import EtcFlops
from etc_jax.models.family import Family, register

FAMILY = register(
    "etc",
    Family(
        EtcConfig,
        sizes={"base": base(), "base_shared": base_shared(), "large": large()},
        flops=EtcFlops,
        text_encoder="structured",
        extension=EXTENSION,
    ),
)
