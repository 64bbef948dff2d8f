"""The config that --config=NAME:VARIANT and its changes, --config.FIELD=VALUE, give.

NAME is one of

    quickstart                 a config of the package, from any folder
    my/config.py               a Python file with get_config()
    my_package.config          a module with get_config(), of a package of one's own
    runs/mine/run.json         the record of a run, or what --print_config wrote

Python files and modules are code that runs, and so are modules that they, or a change,
give as the name of an objective, a source or the like. A record is data: it finds what
is registered already, and --plugin=MODULE registers more.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pathlib
import pkgutil
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import ml_collections
from absl import flags
from ml_collections import config_flags

from etc_jax import config as config_lib
from etc_jax.base import registry, strict_json
from etc_jax.base.suggestions import suggestion
from etc_jax.config import kinds as config_kinds
from etc_jax.config.upgrades import RENAMED

_PACKAGE = "etc_jax.configs"
_FLAG = "--config"
_FAMILY = "model.family"


class ConfigFlagError(ValueError):
    """The config, or a change of it, cannot be had."""

    exit_code = 2

    def __init__(self, message: str):
        super().__init__(f"{_FLAG}: {message}")


def modules() -> dict[str, str]:
    """The configs of the package: name -> path of the module, sorted by name."""
    path = importlib.util.find_spec(_PACKAGE).submodule_search_locations
    paths = [x.name for x in pkgutil.walk_packages(path, f"{_PACKAGE}.") if not x.ispkg]
    return dict(sorted((path.rpartition(".")[2], path) for path in paths))


def names() -> list[str]:
    """The configs of the package."""
    return list(modules())


def read(name: str, changes: Sequence[str] = ()) -> ml_collections.ConfigDict:
    """The config of a name with its changes; locked.

    Args:
      name: see above, with a variant after a colon or without.
      changes: "--config.FIELD=VALUE" each.

    Raises:
      ConfigFlagError: if there is no such config, it raises, or a change does not fit.
      registry.PluginError: if a module that is named cannot be imported.
    """
    for old, new in RENAMED.items():
        earlier, today = (f"{_FLAG}.data.{field}=" for field in (old, new))
        changes = [change.replace(earlier, today, 1) for change in changes]
    typed = (change.removeprefix(f"{_FLAG}.").partition("=") for change in changes)
    _import_named({path: value for path, _, value in typed})
    source, colon, variant = name.partition(":")
    if source.endswith(".json"):
        if colon:
            raise ConfigFlagError(f"{source} is a record, without variants; got {name}")
        config = _of_record(pathlib.Path(source))
    else:
        config = _called(module_of(source), [variant] if colon else [])
        _import_named(config_lib.flat_items(config.to_dict()))
    return _changed(config, changes)


def _import_named(values: Mapping[str, Any]) -> None:
    """Imports the modules whose paths are values of the fields that are names."""
    for field in config_kinds.NAMES:
        if isinstance(name := values.get(field), str):
            registry.import_named(name)


def help_of(name: str) -> str:
    """What a config is for, as its file says, and its variants.

    Raises:
      ConfigFlagError: if there is no such config.
    """
    source = name.partition(":")[0]
    if source.endswith(".json"):
        raise ConfigFlagError(
            f"{source} is a record, without a text; see --print_config"
        )
    module = module_of(source)
    texts = [inspect.getdoc(x) for x in (module, module.get_config)]
    names = _variants(module.get_config)
    if names is not None:
        texts.append(f"Variants: {', '.join(names) or 'none'}")
    return "\n\n".join(text for text in texts if text)


def _variants(get_config: Callable) -> tuple[str, ...] | None:
    """Those that `config.variants` is given; None if it is not asked."""
    if not inspect.signature(get_config).parameters:
        return ()
    try:
        get_config("?")
    except config_lib.VariantError as error:
        return error.names
    except Exception:  # the file reads its argument in a way of its own
        return None
    return None


def module_of(source: str) -> ModuleType:
    """The module with get_config() that a name, a file or a path of a module means.

    Raises:
      ConfigFlagError: naming those like it, if there is none.
    """
    if source.endswith(".py") or "/" in source:
        module = _of_file(pathlib.Path(source))
    elif "." in source:
        module = _imported(source, source)
    elif source in modules():
        module = _imported(modules()[source], source)
    else:
        raise ConfigFlagError(
            f"there is no config {source!r} (a file is named with .py); "
            f"{suggestion(source, names())}"
        )
    if not hasattr(module, "get_config"):
        raise ConfigFlagError(f"{source} has no function get_config()")
    return module


def _of_file(path: pathlib.Path) -> ModuleType:
    if not path.is_file():
        files = [p.name for p in path.parent.glob("*.py")]
        raise ConfigFlagError(
            f"there is no file {path} (configs of the package go by name, such as "
            f"quickstart); {suggestion(path.name, files)}"
        )
    # A name that nothing else has: dataclasses look their module up.
    name = f"config_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    _guarded(lambda: spec.loader.exec_module(module), path)
    return module


def _imported(module: str, source: str) -> ModuleType:
    try:
        return _guarded(lambda: importlib.import_module(module), None)
    except ConfigFlagError as error:
        missing = error.__cause__
        if isinstance(missing, ModuleNotFoundError) and f"{module}.".startswith(
            f"{missing.name}."
        ):
            raise ConfigFlagError(
                f"there is no module {source}; a file is named with .py"
            ) from missing
        raise


def _called(module: ModuleType, arguments: list[str]) -> ml_collections.ConfigDict:
    """What get_config() gives.

    Raises:
      ConfigFlagError: if it raises, or gives something else.
    """
    path = pathlib.Path(module.__file__)
    config = _guarded(lambda: module.get_config(*arguments), path)
    if not isinstance(config, ml_collections.ConfigDict):
        raise ConfigFlagError(
            f"get_config() of {path.name} gave {config!r:.40}; expected a ConfigDict, "
            "as etc_jax.config.default_config() gives"
        )
    for old in RENAMED.keys() & config.get("data", {}).keys():
        config.data[RENAMED[old]] = config.data[old]
        del config.data[old]
    return config


def _guarded(call: Callable[[], Any], path: pathlib.Path | None) -> Any:
    """The result of code of a config, which may raise anything.

    Raises:
      ConfigFlagError: with the line of the file at fault.
    """
    try:
        return call()
    except config_lib.VariantError as error:
        raise ConfigFlagError(str(error)) from error
    except SyntaxError as error:
        where = f"{error.filename}:{error.lineno}"
        raise ConfigFlagError(f"{where}: {error.msg}") from error
    except Exception as error:
        kind, frames = type(error).__name__, traceback.extract_tb(error.__traceback__)
        of_file = [f for f in frames if path and pathlib.Path(f.filename) == path]
        frame = (of_file or frames)[-1]
        where = f"{frame.filename}:{frame.lineno}: {kind}"
        lines = "; ".join(str(error).split("\n"))
        raise ConfigFlagError(f"{where}: {lines}") from error


def _of_record(path: pathlib.Path) -> ml_collections.ConfigDict:
    try:
        values = strict_json.loads(path.read_text(encoding="utf-8"))
        if isinstance(values, dict):
            # The record of a run has more than its config.
            values = values.get("config", values)
        return config_lib.dict_of_record(values)
    except (OSError, ValueError) as error:
        raise ConfigFlagError(f"{path} cannot be read: {error}") from error


def _changed(
    config: ml_collections.ConfigDict, changes: Sequence[str]
) -> ml_collections.ConfigDict:
    """The config with changes, which ml_collections reads by the kind of their field.

    Raises:
      ConfigFlagError: if there is no such field, or its value is of another kind.
    """
    for change in changes:
        _check_field(config, change.partition("=")[0].removeprefix(f"{_FLAG}."))
    argv = ["", *changes]
    # Flags of its own, which leave those of the process alone.
    values = flags.FlagValues()
    try:
        config_flags.DEFINE_config_dict(
            "config", config, flag_values=values, sys_argv=argv, lock_config=True
        )
        values(argv)
    except (flags.Error, ValueError, TypeError, KeyError, AttributeError) as error:
        lines = (line.strip() for line in str(error).splitlines())
        raise ConfigFlagError("; ".join(filter(None, lines))) from error
    return config


def _check_field(config: ml_collections.ConfigDict, path: str) -> None:
    section = config
    for name in path.split("."):
        fields = section if isinstance(section, ml_collections.ConfigDict) else {}
        if name not in fields:
            raise ConfigFlagError(f"no field {path!r}; {suggestion(name, fields)}")
        section = section[name]


def set_by_variants(
    get_config: Callable[[str], ml_collections.ConfigDict], arg: str
) -> set[str]:
    """Dotted paths of the values that the variants of a config file set.

    A variant sets what the config would not have without it. If that is another
    family, the other fields of the model are no more than its defaults. What a config
    has by the model that it begins with, `from=FOLDER`, that model says itself.

    Args:
      get_config: of the file.
      arg: what stands after the colon, variants joined by commas.
    """
    names = arg.split(",") if arg else []
    values = config_lib.flat_items(get_config(arg).to_dict()) if names else {}
    paths: set[str] = set()
    for i, name in enumerate(names):
        if name.startswith("from="):
            continue
        try:
            without = get_config(",".join(names[:i] + names[i + 1 :]))
        except ValueError:
            continue  # the others do not go without it
        others = config_lib.flat_items(without.to_dict())
        changed = {path for path in values if others.get(path) != values[path]}
        paths |= {_FAMILY} if _FAMILY in changed else changed
    return paths
