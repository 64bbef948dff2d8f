"""Model families: named sizes and their assembly from layers."""

# They register families.
import etc_jax.models.encoder.body  # noqa: F401
import etc_jax.models.encoder.decoding  # noqa: F401
import etc_jax.models.encoder.flops  # noqa: F401
import etc_jax.models.encoder.lm  # noqa: F401
import etc_jax.models.encoder_decoder.body  # noqa: F401
import etc_jax.models.encoder_decoder.flops  # noqa: F401
import etc_jax.models.etc.body  # noqa: F401
import etc_jax.models.etc.flops  # noqa: F401
import etc_jax.models.reformer.body  # noqa: F401
import etc_jax.models.reformer.decoding  # noqa: F401
import etc_jax.models.reformer.flops  # noqa: F401
import etc_jax.models.reformer.seq2seq  # noqa: F401
import etc_jax.models.reformer.seq2seq_decoding  # noqa: F401
import etc_jax.models.seq2seq_decoding  # noqa: F401
import etc_jax.models.sled.bart_ls_config  # noqa: F401
