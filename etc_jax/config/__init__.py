"""The config of a run: frozen dataclasses, their defaults, and every error at once.

A config file starts from `default_config()` (an `ml_collections.ConfigDict` made of
the dataclasses' defaults), and `from_config_dict` turns it into a `Config`. A section
(sections.py) says what is wrong with its own values in `problems()`; rules between
sections are in checks.py.
"""

import dataclasses
import hashlib
import itertools
import json
import typing
from collections.abc import Mapping, Sequence
from typing import Any

import ml_collections

from etc_jax.base import local_paths, registry, strict_json
from etc_jax.base.rules import Problem
from etc_jax.base.suggestions import suggestion
from etc_jax.config import kinds as config_kinds
from etc_jax.config.checks import cross_problems
from etc_jax.config.fields import default_dict, field_names
from etc_jax.config.kinds import DEFAULT_NAMES
from etc_jax.config.sections import (
    CheckpointConfig,
    DataConfig,
    ObjectiveConfig,
    OptimizerConfig,
    ScheduleConfig,
    TrainConfig,
)
from etc_jax.config.upgrades import upgraded
from etc_jax.sharding import MeshConfig


class VariantError(ValueError):
    """The argument of a config names no variant, or some that do not go together.

    Attributes:
      names: the variants that there are.
    """

    def __init__(self, message: str, names: Sequence[str]):
        self.names = tuple(names)
        super().__init__(message)


class ConfigError(ValueError):
    """Everything that is wrong with a config.

    Attributes:
      problems: (dotted path, message) of each error.
      exit_code: of a command line that got it.
    """

    exit_code = 2

    def __init__(self, problems: list[Problem]):
        self.problems = tuple(problems)
        lines = [f"  {path}: {message}" for path, message in problems]
        count = "1 error" if len(lines) == 1 else f"{len(lines)} errors"
        super().__init__(f"{count} in the config:\n" + "\n".join(lines))


@dataclasses.dataclass(frozen=True)
class Config:
    """One run.

    `model`, `objective` and `data` are the registered dataclasses of the family, of the
    objective or data set, and of the source that are named.
    """

    family: str
    model: Any
    objective: ObjectiveConfig = ObjectiveConfig()
    data: DataConfig = DataConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    train: TrainConfig = TrainConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    mesh: MeshConfig = MeshConfig()


_SECTIONS = {
    name: section
    for name, section in typing.get_type_hints(Config).items()
    if name not in ("family", "model", "objective", "data")
}

# Fields that may change between a run and its continuation: they decide how it is
# run and watched, not what it computes (other meshes differ in rounding alone).
_RUNTIME_FIELDS = (
    "mesh",
    "checkpoint.every_steps",
    "checkpoint.keep",
    "checkpoint.keep_every_steps",
    "checkpoint.keep_best",
    "checkpoint.best_metric",
    "checkpoint.best_is",
    "checkpoint.init_from_changes",
    "optimizer.shard_state",
    "data.validation_files",
    "objective.generation",
    "data.cache_dir",
    "data.export_cluster",
    "data.export_workers",
    "data.read_workers",
    "train.log_every_steps",
    "train.eval_every_steps",
    "train.eval_steps",
    "train.max_nonfinite_steps",
    "train.prefetch_batches",
    "train.compile_cache_dir",
    "train.check_batches",
    "train.tensorboard",
    "train.wandb_project",
    "train.profile_start_step",
    "train.profile_steps",
)


def default_config(
    family: str = "etc",
    objective: str = DEFAULT_NAMES["objective"],
    source: str = DEFAULT_NAMES["data"],
) -> ml_collections.ConfigDict:
    """The defaults of every section.

    The sections "objective" and "data" show the fields of all names that this project
    has, so that one can be changed for another; of names by the path of a module give
    those that are meant: these modules are imported.

    Args:
      family: whose model section it is.
      objective: or data set, by name or by the path of a module.
      source: of the data, by name or by the path of a module.

    Raises:
      ConfigError: if there is no such family, objective or source.
      registry.PluginError: if a module cannot be imported.
    """
    for name in (family, objective, source):
        registry.import_named(name)
    return _defaults(family, objective, source)


def _defaults(
    family: Any = "etc",
    objective: Any = DEFAULT_NAMES["objective"],
    source: Any = DEFAULT_NAMES["data"],
) -> ml_collections.ConfigDict:
    """The defaults for names that data may give: none of them is imported."""
    problems: list[Problem] = []
    classes = {
        "model": _model_class(family, problems),
        "objective": _objective_class(objective, None, None, problems),
        "data": _data_class(source, problems),
    }
    if problems:
        raise ConfigError(problems)
    sections = {
        "model": {"family": family, **default_dict(classes["model"])},
        "objective": config_kinds.shown("objective", classes["objective"], objective),
        "data": config_kinds.shown("data", classes["data"], source),
        **{name: default_dict(cls) for name, cls in _SECTIONS.items()},
    }
    return ml_collections.ConfigDict(sections)


def from_config_dict(values: Mapping[str, Any]) -> Config:
    """The checked `Config`; a section or field that is left out has its default.

    Args:
      values: a `ConfigDict` or nested mappings, as `to_dict` gives.

    Raises:
      ConfigError: listing every error there is.
    """
    if isinstance(values, ml_collections.ConfigDict):
        values = values.to_dict()
    problems: list[Problem] = []
    valid = [*config_kinds.KEYS, *_SECTIONS]
    for name in values:
        if name not in valid:
            problems.append((name, f"unknown section; {suggestion(name, valid)}"))
    classes = _classes(values, problems)
    # Of a name that is none nobody knows the fields.
    unknown = {path.partition(".")[0] for path, _ in problems}
    sections = {
        section: config_kinds.build_section(
            section, cls, values, [] if section in unknown else problems
        )
        for section, cls in classes.items()
    }
    if None not in sections.values():
        config = Config(family=values["model"]["family"], **sections)
        problems += local_paths.problems_in(flat_items(to_dict(config)))
        problems += cross_problems(config, {path for path, _ in problems})
    if problems:
        raise ConfigError(problems)
    return config


def _classes(
    values: Mapping[str, Any], problems: list[Problem]
) -> dict[str, type | None]:
    """{section: its dataclass} by the names in the values.

    Those of model and objective are None where nothing says which they are; why is
    added to `problems`.
    """
    family, source, name = (config_kinds.name_in(values, x) for x in config_kinds.KEYS)
    has_fields = isinstance(values.get("model", {}), Mapping)
    model = _model_class(family, problems) if has_fields else None
    data, format = _data_class(source, problems), None
    if "format" in field_names(data) and isinstance(values.get("data"), Mapping):
        format = values["data"].get("format")
    # One that is no text is an error of its field.
    format = format if isinstance(format, str) else None
    objective = _objective_class(name, format, model, problems)
    return {"model": model, "data": data, "objective": objective, **_SECTIONS}


def _model_class(family: Any, problems: list[Problem]) -> type | None:
    if family is None:
        families = ", ".join(registry.names("model_config"))
        problems.append(("model.family", f"is required; there are: {families}"))
        return None
    if problem := registry.problem("model_config", family):
        problems.append(("model.family", problem))
        return None
    return registry.lookup("model_config", family)


def _data_class(source: Any, problems: list[Problem]) -> type:
    if problem := registry.problem("source_config", source):
        problems.append(("data.source", problem))
        return DataConfig
    return registry.lookup("source_config", source)


def _objective_class(
    name: Any, format: str | None, model: type | None, problems: list[Problem]
) -> type | None:
    if problem := config_kinds.objective_problem(name):
        problems.append(("objective.name", problem))
        return ObjectiveConfig
    first = next(iter(getattr(model, "formats", ())), None)
    try:
        return config_kinds.section_of(name, format or first, model)
    except ValueError as error:
        cure = "data.format" if format else "model.family to one that takes them"
        message = f"{error}; set {cure}"
    except KeyError as error:
        message = str(error.args[0])
    problems.append(("objective.name", message))
    return None


def to_dict(config: Config) -> dict[str, Any]:
    """Nested dicts that `from_config_dict` reads back."""
    sections = dataclasses.asdict(config)
    family, model = sections.pop("family"), sections.pop("model")
    return {"model": {"family": family, **model}, **sections}


def to_json(config: Config) -> str:
    """The config as JSON, for the record of a run."""
    return json.dumps(to_dict(config), indent=2, allow_nan=False)


def from_json(text: str) -> Config:
    """Reads what `to_json` wrote; see `from_config_dict` for errors."""
    return from_record(strict_json.loads(text))


def from_record(values: Mapping[str, Any]) -> Config:
    """The config that `to_dict` gave, of this version or an earlier one.

    Earlier ones took values that nothing used: these are left out.

    Raises:
      ConfigError: listing every error there is.
    """
    return from_config_dict(used(_upgraded(values)))


def dict_of_record(values: Mapping[str, Any]) -> ml_collections.ConfigDict:
    """What `to_dict` gave, to be changed: it has the fields of all names.

    Args:
      values: of this version or an earlier one; not checked yet.

    Raises:
      ConfigError: if there is no such family, objective or source.
    """
    values = _upgraded(values)
    names = {
        argument: config_kinds.name_in(values, section)
        for argument, section in (
            ("family", "model"),
            ("objective", "objective"),
            ("source", "data"),
        )
    }
    config = _defaults(**{x: name for x, name in names.items() if name is not None})
    config.update(config_kinds.plain(values))
    return config


def _upgraded(values: Any) -> dict[str, Any]:
    if not isinstance(values, Mapping):
        raise ConfigError([("config", f"is {values!r}; expected sections")])
    return upgraded(values)


def used(values: Mapping[str, Any]) -> dict[str, Any]:
    """Nested dicts of a config without the fields that only other names have."""
    if isinstance(values, ml_collections.ConfigDict):
        values = values.to_dict()
    values, classes = dict(values), _classes(values, [])
    for kind in ("objective", "data"):
        cls, section = classes[kind], values.get(kind)
        if cls is not None and isinstance(section, Mapping):
            # What no section has is an error, as elsewhere.
            foreign = config_kinds.foreign_fields(kind, cls)
            values[kind] = {k: x for k, x in section.items() if k not in foreign}
    return values


def section_classes(values: Mapping[str, Any]) -> dict[str, type]:
    """{section: its dataclass}, as the values name model, objective and data.

    Raises:
      ConfigError: if a name is none.
    """
    problems: list[Problem] = []
    classes = _classes(values, problems)
    if problems:
        raise ConfigError(problems)
    return classes


def flat_items(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dicts as {dotted path: value}."""
    out: dict[str, Any] = {}
    for name, value in values.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping):
            out.update(flat_items(value, f"{path}."))
        else:
            out[path] = _listed(value)
    return out


def _listed(value: Any) -> Any:
    """Tuples as lists, as JSON has them."""
    return [_listed(x) for x in value] if isinstance(value, tuple | list) else value


def variants(arg: str, *groups: Sequence[str], flags: Sequence[str] = ()) -> set[str]:
    """The names in the argument of a config: `--config=NAME:4096,shared`.

    Args:
      arg: names joined by commas; "" for none.
      *groups: of each group one name may be given at most; a name may be in several.
      flags: names that go with everything.

    Raises:
      VariantError: naming what there is, if a name is not known, given twice, or at
        odds with another.
    """
    chosen = arg.split(",") if arg else []
    # A name may be in several groups.
    names = list(dict.fromkeys([*itertools.chain(*groups), *flags]))
    for name in chosen:
        if name not in names:
            raise VariantError(
                f"no variant {name!r} of this config; {suggestion(name, names)}",
                names,
            )
    if len(set(chosen)) < len(chosen):
        raise VariantError(f"a variant is given twice in {arg!r}", names)
    for group in groups:
        if len(both := [name for name in chosen if name in group]) > 1:
            raise VariantError(
                f"the variants {', '.join(both)} exclude each other", names
            )
    return set(chosen)


def identity(config: Config) -> dict[str, Any]:
    """{dotted path: value} of the fields that decide what a run computes."""
    values = to_dict(config)
    # A share and the steps that it comes to are the same run.
    values["schedule"]["warmup_steps"] = config.schedule.warmup(config.train.num_steps)
    return {
        path: value
        for path, value in flat_items(values).items()
        if not any(path == f or path.startswith(f"{f}.") for f in _RUNTIME_FIELDS)
    }


def config_hash(config: Config) -> str:
    """Sixteen hex digits that two configs share if they compute the same run."""
    text = json.dumps(identity(config), sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
