"""Model families: named sizes and their assembly from layers."""

# They register families.
from etc_jax.models import encoder, encoder_lm, etc, reformer  # noqa: F401
