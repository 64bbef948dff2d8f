"""Names for the things a config can choose: models, objectives, data sets.

A new one is a file with one `register` line. It is found by its name; in a package of
one's own, by the path of the module that registers it under that path,

    registry.register("data_set", "my_package.my_dataset")(...)
    registry.import_named("my_package.my_dataset")
    registry.lookup("data_set", "my_package.my_dataset")

or, once that package is installed, under any name that a module of it registers, if
the package names the module as an entry point:

    [project.entry-points."etc_jax.plugins"]
    my_dataset = "my_package.my_dataset"

A lookup never imports what a name says: names stand in caches, checkpoints and folders
of others too. Only what the user has typed is imported: on a command line, --plugin
above all, or in a config file that is code.
"""

import contextlib
import functools
import importlib
import importlib.metadata
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from etc_jax.base.suggestions import suggestion

T = TypeVar("T")

_TABLES: dict[str, dict[str, Any]] = {}
_NAMED: list[str] = []  # modules that the user has named, in the order of their import

# The module whose import registers all names of a kind that have no path.
_PROVIDERS = {
    "causal_lm_model": "etc_jax.models",
    "data_set": "etc_jax.tasks.every",
    "decoder": "etc_jax.models",
    "encoder_body": "etc_jax.models",
    "extension": "etc_jax.models",
    "family": "etc_jax.models",
    "format": "etc_jax.formats",
    "invented_items": "etc_jax.tasks.synthetic.every",
    "validation_score": "etc_jax.prediction.validation",
    "hugging_face": "etc_jax.models",
    "hugging_face_class": "etc_jax.models",
    "launch_backend": "etc_jax.launch.backends",
    "learner": "etc_jax.objectives",
    "masked_lm_model": "etc_jax.models",
    "model_config": "etc_jax.models",
    "model_sizes": "etc_jax.models",
    "objective": "etc_jax.objectives",
    "objective_config": "etc_jax.objectives",
    "optimizer": "etc_jax.training.optimizers.optimizer",
    "reader": "etc_jax.objectives",
    "schedule": "etc_jax.training.optimizers.schedule",
    "seq2seq_model": "etc_jax.models",
    "source_config": "etc_jax.data.source_configs",
    "text_encoder": "etc_jax.loading.encoders",
    "weight_names": "etc_jax.models",
}


# The entry points of packages that register names of their own.
PLUGINS = "etc_jax.plugins"


class PluginError(ImportError):
    """A module that registers names, of a package or the user, cannot be imported."""

    exit_code = 2


class NoModuleError(PluginError):
    """There is no module of that path."""


def register(kind: str, name: str) -> Callable[[T], T]:
    """Decorator that files an object under `(kind, name)`.

    Raises:
      ValueError: if the name is taken by another object.
    """

    def add(obj: T) -> T:
        table = _TABLES.setdefault(kind, {})
        # A module run as __main__ is imported a second time under its own name.
        if name in table and _identity(table[name]) != _identity(obj):
            raise ValueError(
                f"{kind} {name!r} is already {table[name]!r}; choose another name"
            )
        table[name] = obj
        return obj

    return add


def _identity(obj: Any) -> Any:
    return getattr(obj, "__qualname__", id(obj))


def lookup(kind: str, name: str) -> Any:
    """The object filed under `(kind, name)`.

    What is not there yet may be of the module of this project that registers the kind,
    or of one of installed packages: these are imported, and no other.

    Raises:
      KeyError: naming what exists, if there is no such name.
      PluginError: if a module of an installed package cannot be imported.
    """
    table = _TABLES.setdefault(kind, {})
    if name not in table:
        _import(_PROVIDERS.get(kind))
    if name not in table:
        _import_plugins()
    if name not in table:
        raise KeyError(
            f"no {kind.replace('_', ' ')} named {name!r}; there are: "
            f"{', '.join(names(kind))}"
            + (how_to_import(name) or ", and others by --plugin=MODULE")
        )
    return table[name]


def problem(kind: str, name: Any) -> str | None:
    """Why a value is no name that is registered; None if it is one."""
    if not isinstance(name, str):
        return f"is {name!r}; expected a string"
    try:
        lookup(kind, name)
    except KeyError:
        return unknown(kind, name, names(kind))
    return None


def unknown(kind: str, name: str, valid: Iterable[str]) -> str:
    """The message that a name is not registered, and which may be meant."""
    hint = f"{suggestion(name, valid)}{how_to_import(name)}"
    return f"no {kind.replace('_', ' ')} named {name!r}; {hint}"


def import_named(name: str) -> None:
    """Imports the module of a path that the user has typed as the name of something.

    A name without a dot, and a path without a module, are left to `lookup`, which
    says what there is.

    Args:
      name: typed by the user; never one that was read from data.

    Raises:
      PluginError: if a module cannot be imported.
    """
    if "." not in name:
        return
    _import_plugins()
    installed = importlib.metadata.entry_points(group=PLUGINS)
    # Under any other path an installed package may have registered the name as well.
    if any(name == entry.module for entry in installed) or (
        name not in sys.modules and any(name in table for table in _TABLES.values())
    ):
        return
    with contextlib.suppress(NoModuleError):
        import_plugin(name)


def import_plugins(modules: Iterable[str]) -> None:
    """Imports each, such as what a parent process has as `named_modules`."""
    for module in modules:
        import_plugin(module)


def import_plugin(module: str) -> None:
    """Imports a module that the user has named; the next command is told to as well.

    Raises:
      NoModuleError: if there is none of that path.
      PluginError: if it cannot be imported.
    """
    try:
        importlib.import_module(module)
    except Exception as error:  # code of others may raise anything
        kind = NoModuleError if _is_of(error, module) else PluginError
        raise kind(
            f"the module {module} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    if module not in _NAMED:
        _NAMED.append(module)


def _is_of(error: Exception, module: str) -> bool:
    """Whether an error says that there is no module of this path."""
    return isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(
        f"{error.name}."
    )


def named_modules() -> tuple[str, ...]:
    """Paths that the user has named, which the next program is to be given too."""
    return tuple(name for name in _NAMED if name in sys.modules)


def how_to_import(name: str) -> str:
    """What to do about an unknown name that is the path of a module; else ""."""
    parts = name.split(".")
    if len(parts) < 2 or not all(map(str.isidentifier, parts)):
        return ""
    return (
        f"; if a module of this path registers it, and you trust its code, give "
        f"--plugin={name}, import it before, or install it with an entry point of the "
        f"group {PLUGINS}"
    )


def names(kind: str) -> Iterator[str]:
    """The registered names of one kind, sorted: of this project and of packages.

    Raises:
      PluginError: if a module of an installed package cannot be imported.
    """
    _import(_PROVIDERS.get(kind))
    _import_plugins()
    return iter(sorted(_TABLES.get(kind, {})))


def name_of(kind: str, obj: Any) -> str:
    """The name under which an object is filed.

    Raises:
      ValueError: if there is none.
    """
    for name in names(kind):
        if _TABLES[kind][name] is obj:
            return name
    label = getattr(obj, "__name__", repr(obj))
    raise ValueError(f"{label} is no registered {kind.replace('_', ' ')}")


def _import(module: str | None) -> None:
    """Imports a module if there is one of that path; an error inside it is raised."""
    if module is None:
        return
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if not _is_of(error, module):
            raise


def _import_plugins() -> None:
    """Imports the modules of installed packages, once."""
    waiting = _waiting_plugins()
    while waiting:
        # Taken out before its import, which may ask for names.
        entry = waiting.pop()
        try:
            importlib.import_module(entry.module)
        except Exception as error:  # code of others may raise anything
            waiting.append(entry)
            of = f" of {entry.dist.name}" if entry.dist else ""
            raise PluginError(
                f"the entry point {entry.name}{of} names the module {entry.module}, "
                f"which cannot be imported: {type(error).__name__}: {error}; repair or "
                "uninstall the package"
            ) from error


@functools.cache
def _waiting_plugins() -> list[importlib.metadata.EntryPoint]:
    return list(importlib.metadata.entry_points(group=PLUGINS))
