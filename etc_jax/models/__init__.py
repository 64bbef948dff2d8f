"""Model families: a folder each, whose `FAMILY` says what it is."""

# They register themselves.
import etc_jax.models.bart_ls
import etc_jax.models.big_bird
import etc_jax.models.etc
import etc_jax.models.led
import etc_jax.models.led.allenai
import etc_jax.models.long_t5
import etc_jax.models.longformer
import etc_jax.models.reformer
import etc_jax.models.roberta  # noqa: F401
