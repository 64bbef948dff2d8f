"""How models of each kind read texts; see `loading.text_encoder`."""

# They register kinds.
from etc_jax.loading.encoders import flat, structured  # noqa: F401
