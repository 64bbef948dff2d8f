"""ETC."""

from etc_jax.models.etc.config import EtcConfig
from etc_jax.models.etc.flops import EtcFlops
from etc_jax.models.family import Family, register

register("etc", Family(EtcConfig, flops=EtcFlops))
