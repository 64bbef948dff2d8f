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
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import ml_collections

from etc_jax.base import local_paths, registry, strict_json
from etc_jax.base.rules import Problem
from etc_jax.base.suggestions import suggestion
from etc_jax.config import kinds as config_kinds
from etc_jax.config.checks import cross_problems
from etc_jax.config.fields import build, default_dict
from etc_jax.config.sections import (
    CheckpointConfig,
    DataConfig,
    ObjectiveConfig,
    OptimizerConfig,
    ScheduleConfig,
    TrainConfig,
    registered,
)
from etc_jax.config.upgrades import upgraded
from etc_jax.sharding import MeshConfig


class VariantError(ValueError):
    """The argument of a config names no variant, or some that do not go together.

    Attributes:
      known: the variants that there are.
    """

    def __init__(self, message: str, known: Sequence[str]):
        self.known = tuple(known)
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
# What a config that names none learns, and from where.
DEFAULT_OBJECTIVE, DEFAULT_SOURCE = "mlm_cpc", "builtin"

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
    "data.held_back_files",
    "objective.generation",
    "data.cache_dir",
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


def _model_class(family: Any) -> type:
    if not isinstance(family, str):
        raise ConfigError([("model.family", f"is {family!r}; expected a string")])
    if wrong := [m for _, m in registered("model_config", family)]:
        raise ConfigError([("model.family", wrong[0])])
    return registry.lookup("model_config", family)


def default_config(
    family: str = "etc",
    objective: str = DEFAULT_OBJECTIVE,
    source: str = DEFAULT_SOURCE,
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
    objective: Any = DEFAULT_OBJECTIVE,
    source: Any = DEFAULT_SOURCE,
) -> ml_collections.ConfigDict:
    """The defaults for names that data may give: none of them is imported."""
    model = {"family": family, **default_dict(_model_class(family))}
    if problem := config_kinds.objective_problem(objective):
        raise ConfigError([("objective.name", problem)])
    if (data := config_kinds.data_section(source)) is None:
        raise ConfigError([("data.source", config_kinds.source_problem(source))])
    learnt = config_kinds.section_of(objective)
    sections = {
        "objective": config_kinds.shown("objective", learnt, objective),
        "data": config_kinds.shown("data", data, source),
        **{name: default_dict(cls) for name, cls in _SECTIONS.items()},
    }
    return ml_collections.ConfigDict({"model": model, **sections})


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
    valid = ("model", "objective", "data", *_SECTIONS)
    for name in values:
        if name not in valid:
            problems.append((name, f"unknown section; {suggestion(name, valid)}"))
    family, model = _build_model(values.get("model", {}), problems)
    data = _build_data(values.get("data", {}), problems)
    sections = {
        "objective": _build_objective(
            values.get("objective", {}), model, data, problems
        ),
        "data": data,
        **{
            name: build(cls, values.get(name, {}), name, problems)
            for name, cls in _SECTIONS.items()
        },
    }
    if model is not None and None not in sections.values():
        config = Config(family=family, model=model, **sections)
        problems += local_paths.problems_in(flat_items(to_dict(config)))
        problems += cross_problems(config, {path for path, _ in problems})
    if problems:
        raise ConfigError(problems)
    return config


def _build_model(values: Any, problems: list[Problem]) -> tuple[str, Any]:
    if not isinstance(values, Mapping):
        problems.append(("model", f"is {values!r}; expected a section with fields"))
        return "", None
    if "family" not in values:
        known = ", ".join(registry.names("model_config"))
        problems.append(("model.family", f"is required; there are: {known}"))
        return "", None
    try:
        cls = _model_class(values["family"])
    except ConfigError as error:
        problems += error.problems
        return "", None
    fields = {name: value for name, value in values.items() if name != "family"}
    return values["family"], build(cls, fields, "model", problems)


def _build_data(values: Any, problems: list[Problem]) -> Any:
    source = DEFAULT_SOURCE
    if isinstance(values, Mapping):
        source = values.get("source", source)
    if (cls := config_kinds.data_section(source)) is None:
        problems.append(("data.source", config_kinds.source_problem(source)))
        # What all sources have is checked still.
        cls, problems = DataConfig, []
    return config_kinds.build_section("data", cls, values, source, problems)


def _build_objective(
    values: Any, model: Any, data: Any, problems: list[Problem]
) -> Any:
    name = DEFAULT_OBJECTIVE
    if isinstance(values, Mapping):
        name = values.get("name", name)
    if problem := config_kinds.objective_problem(name):
        problems.append(("objective.name", problem))
        return ObjectiveConfig(name) if isinstance(name, str) else None
    format = getattr(data, "format", None)
    try:
        taken = format or _first_format(name, model)
        cls = config_kinds.section_of(name, taken, model)
    except ValueError as error:
        cure = "data.format" if format else "model.family to one that takes them"
        problems.append(("objective.name", f"{error}; set {cure}"))
        return None
    except KeyError as error:
        problems.append(("objective.name", str(error.args[0])))
        return None
    return config_kinds.build_section("objective", cls, values, name, problems)


def _first_format(name: str, model: Any) -> str | None:
    """The first format that a model takes; None if it is no data set, or no model."""
    if config_kinds.is_objective(name):
        return None
    return next(iter(getattr(model, "formats", ())), None)


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
    given = {}
    for argument, section, key in (
        ("family", "model", "family"),
        ("objective", "objective", "name"),
        ("source", "data", "source"),
    ):
        found = values.get(section, {})
        if isinstance(found, Mapping) and key in found:
            given[argument] = found[key]
    config = _defaults(**given)
    config.update(_tupled(values))
    return config


def _upgraded(values: Any) -> dict[str, Any]:
    if not isinstance(values, Mapping):
        raise ConfigError([("config", f"is {values!r}; expected sections")])
    return upgraded(values)


def _tupled(value: Any) -> Any:
    """Lists as tuples, as configs have them."""
    if isinstance(value, Mapping):
        return {name: _tupled(x) for name, x in value.items()}
    return tuple(map(_tupled, value)) if isinstance(value, list | tuple) else value


def used(values: Mapping[str, Any]) -> dict[str, Any]:
    """Nested dicts of a config without the fields that only other names have."""
    if isinstance(values, ml_collections.ConfigDict):
        values = values.to_dict()
    values = dict(values)
    for kind, cls in _named_sections(values):
        if isinstance(values.get(kind), Mapping):
            own = default_dict(cls)
            # What no section has is an error, as elsewhere.
            others = config_kinds.shown(kind, cls, "").keys() - own.keys()
            kept = {k: x for k, x in values[kind].items() if k not in others}
            values[kind] = kept
    return values


def section_classes(values: Mapping[str, Any]) -> dict[str, type]:
    """{section: its dataclass}, as the values name model, objective and data.

    Raises:
      ConfigError: if a name is none.
    """
    problems: list[Problem] = []
    family, _ = _build_model(values.get("model", {}), problems)
    found = {
        "model": _model_class(family),
        **dict(_named_sections(values)),
        **_SECTIONS,
    }
    if not {"objective", "data"} <= found.keys():
        from_config_dict(values)  # says why one of them is none
    return found


def _named_sections(values: Mapping[str, Any]) -> Iterator[tuple[str, type]]:
    """The dataclasses of a recorded config's data and objective, if they are known."""
    data, problems = _build_data(values.get("data", {}), []), []
    if data is None:
        return
    yield "data", type(data)
    _, model = _build_model(values.get("model", {}), problems)
    objective = _build_objective(values.get("objective", {}), model, data, problems)
    if objective is not None:
        yield "objective", type(objective)


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
    given = arg.split(",") if arg else []
    # A name may be in several groups.
    known = list(dict.fromkeys([*itertools.chain(*groups), *flags]))
    for name in given:
        if name not in known:
            raise VariantError(
                f"no variant {name!r} of this config; {suggestion(name, known)}",
                known,
            )
    if len(set(given)) < len(given):
        raise VariantError(f"a variant is given twice in {arg!r}", known)
    for group in groups:
        if len(both := [name for name in given if name in group]) > 1:
            raise VariantError(
                f"the variants {', '.join(both)} exclude each other", known
            )
    return set(given)


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
