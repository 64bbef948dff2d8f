"""Families of models, as other projects write their configs and weights."""

# They register families.
from etc_jax.conversion.families import encoder_families, reformer  # noqa: F401
