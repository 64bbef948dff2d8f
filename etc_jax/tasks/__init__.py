"""Data sets: one file each, on top of the library.

The `seqio_*` files alone import seqio and TensorFlow (extra: `seqio`); nothing in
`etc_jax` imports this package.
"""
