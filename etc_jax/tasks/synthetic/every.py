"""Registers the makers of this package: each is a module."""

import importlib
import pkgutil

import etc_jax.tasks.synthetic

for _found in pkgutil.iter_modules(etc_jax.tasks.synthetic.__path__):
    if _found.name not in ("__main__", "every"):
        importlib.import_module(f"etc_jax.tasks.synthetic.{_found.name}")
