"""Model families: named sizes and their assembly from layers."""

from etc_jax.models import etc  # noqa: F401  (registers the family)
