"""Data sets: a package each, on top of the library.

A package gives `DATA_SET`, put together from its modules. `seqio/` alone imports seqio
and TensorFlow (extra: `seqio`); nothing else in `etc_jax` imports this package.
"""
