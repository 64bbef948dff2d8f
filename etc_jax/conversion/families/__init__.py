"""Families of models, as other projects write their configs and weights."""

# They register families.
from etc_jax.conversion.families import (  # noqa: F401
    encoder_decoder,
    encoder_families,
    led_allenai,
    reformer,
)
