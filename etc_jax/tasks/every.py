"""Registers the data sets of this package: each is a folder."""

import importlib
import pkgutil

import etc_jax.tasks

for _found in pkgutil.iter_modules(etc_jax.tasks.__path__):
    if _found.ispkg:
        importlib.import_module(f"etc_jax.tasks.{_found.name}")
