"""Model families: a folder each, whose `FAMILY` says what it is."""

import importlib
import pkgutil

# They register themselves.
for _module in pkgutil.iter_modules(__path__):
    if _module.ispkg:
        importlib.import_module(f"{__name__}.{_module.name}")
