"""Model families: named sizes and their assembly from layers."""

from etc_jax.models import encoder, etc, reformer  # noqa: F401  (they register families)
