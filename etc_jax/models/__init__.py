"""Model families: named sizes and their assembly from layers."""

# They register themselves.
import etc_jax.models.encoder.families  # noqa: F401
import etc_jax.models.encoder_decoder.families  # noqa: F401
import etc_jax.models.etc.families  # noqa: F401
import etc_jax.models.reformer.families  # noqa: F401
