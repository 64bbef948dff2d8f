"""Registers the data sets of this package: each is a folder."""

import importlib
import pkgutil

import tasks

for _found in pkgutil.iter_modules(tasks.__path__):
    if _found.ispkg:
        importlib.import_module(f"tasks.{_found.name}")
