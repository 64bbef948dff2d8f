"""Where jobs run: a file each."""

import importlib
import pkgutil

# They register themselves.
for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
