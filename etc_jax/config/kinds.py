"""Sections of a config that go by a name: model, objective and source.

Each name has a frozen dataclass of its own, in the registry. A `ConfigDict` shows, for
one section, the fields of all names that are known, so that another name and its fields
can be given on a command line; of these, a `Config` keeps those of the name alone.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ml_collections import config_dict

from etc_jax.base import registry
from etc_jax.base.rules import Problem
from etc_jax.base.suggestions import suggestion
from etc_jax.config.fields import build, default_dict, field_names
from etc_jax.config.sections import ObjectiveConfig
from etc_jax.config.upgrades import FORMERLY, MOVED

# {field that is a name: the kinds of which it is one}
NAMES = {
    "model.family": ("model_config",),
    "objective.name": ("objective_config", "data_set"),
    "data.source": ("source_config",),
    "optimizer.name": ("optimizer",),
    "schedule.name": ("schedule",),
}

# {section that goes by a name: the field with the name}
KEYS = {"model": "family", "data": "source", "objective": "name"}
# What a config that names none learns, and from where.
DEFAULT_NAMES = {"data": "builtin", "objective": "mlm_cpc"}

# Under which "objective" has the job of all data sets; no config names it.
ANY_DATA_SET = "data_set"


def section_of(name: str, format: str | None = None, model: type | None = None) -> type:
    """The dataclass of an objective's options.

    Args:
      name: of an objective or a data set.
      format: of the data set's inputs; None: the first that it has.
      model: class of the model's config; None: see `learner_of`.

    Raises:
      KeyError: if there is neither.
      ValueError: if the data set has no such format, or nothing learns it.
    """
    if is_objective(name):
        if name in registry.names("objective_config"):
            return registry.lookup("objective_config", name)
        return ObjectiveConfig
    task = registry.lookup("data_set", name).in_format(format)
    return learner_of(task, model).section


def learner_of(task: Any, model: type | None = None) -> type:
    """What learns a data set in one format with a model.

    It is registered as "learner" under NAME/FORMAT. Where models of several kinds take
    a format, the learners of further kinds are registered under NAME/FORMAT/KIND.

    Args:
      task: with the name of its `learner` and its `format`.
      model: class of the model's config; None, or one that no learner takes: the first
        learner.

    Raises:
      KeyError: if there is none.
    """
    name = f"{task.learner}/{task.format}"
    first = registry.lookup("learner", name)
    others = (x for x in registry.names("learner") if x.startswith(f"{name}/"))
    for learner in (first, *(registry.lookup("learner", x) for x in others)):
        if model is not None and issubclass(model, learner.takes()):
            return learner
    return first


def is_objective(name: str) -> bool:
    """Whether a name is that of an objective, and not of a data set."""
    if name == ANY_DATA_SET:
        return False
    try:
        registry.lookup("objective", name)
    except KeyError:
        return False
    return True


def known_sections(kind: str) -> dict[str, type]:
    """{name: dataclass} of the objectives ("objective") or sources ("data")."""
    if kind == "data":
        names = registry.names("source_config")
        return {name: registry.lookup("source_config", name) for name in names}
    names = registry.names("objective_config")
    sections = {name: registry.lookup("objective_config", name) for name in names}
    for name in registry.names("learner"):
        sections[name] = registry.lookup("learner", name).section
    return sections


def shown(kind: str, first: type, name: str) -> dict[str, Any]:
    """The fields of all sections of a kind with their defaults, those of one first."""
    fields = {**default_dict(first), KEYS[kind]: name}
    for section in known_sections(kind).values():
        fields = {**default_dict(section), **fields}
    return fields


def objective_problem(name: Any) -> str | None:
    """Why a name is of no objective and no data set; None if it is."""
    if isinstance(name, str) and is_objective(name):
        return None
    if isinstance(name, str) and name in FORMERLY:
        return f"is {name!r}, which is a format of inputs now; set {FORMERLY[name]!r}"
    problem = registry.problem("data_set", name)
    if problem is None or not isinstance(name, str):
        return problem
    names = {*registry.names("objective"), *registry.names("data_set")}
    return registry.unknown("objective", name, names - {ANY_DATA_SET})


def name_in(values: Mapping[str, Any], section: str) -> Any:
    """The name that a section of `KEYS` goes by, its default where none is named."""
    fields = values.get(section, {})
    named = fields if isinstance(fields, Mapping) else {}
    return named.get(KEYS[section], DEFAULT_NAMES.get(section))


def foreign_fields(kind: str, cls: type) -> set[str]:
    """Names of the fields that only other sections of a kind than one have."""
    every = {x for other in known_sections(kind).values() for x in field_names(other)}
    return every - {*field_names(cls)}


def build_section(
    section: str, cls: type | None, values: Mapping[str, Any], problems: list[Problem]
) -> Any:
    """A section, whose mapping may show the fields of other names.

    Args:
      section: of `Config`.
      cls: its dataclass; None: nothing says which it is.
      values: of all sections.
      problems: where errors are added.

    Returns:
      The section, or None where it cannot be made.
    """
    fields = values.get(section, {})
    if not isinstance(fields, Mapping):
        problems.append((section, f"is {fields!r}; expected a section with fields"))
        return None
    if cls is None:
        return None
    if section == "model":
        fields = {name: value for name, value in fields.items() if name != "family"}
    elif section in KEYS:
        name = name_in(values, section)
        unused = {x: value for x, value in fields.items() if x not in field_names(cls)}
        problems += _unused(section, cls, name, unused) if unused else ()
        fields = {x: value for x, value in fields.items() if x not in unused}
        fields[KEYS[section]] = name
    return build(cls, fields, section, problems)


def _unused(
    kind: str, cls: type, name: str, values: Mapping[str, Any]
) -> Iterator[Problem]:
    """Values that would be left out in silence, and fields that nothing has."""
    owners: dict[str, dict[str, Any]] = {}
    for section_name, section in known_sections(kind).items():
        # A learner is known as "openkp/structured": the data set is meant, unless it
        # is this one, whose field is of another format.
        owner, _, format = section_name.partition("/")
        owner = f"{owner} in format {format}" if owner == name else owner
        for field, default in default_dict(section).items():
            owners.setdefault(field, {})[owner] = plain(default)
    for field, value in values.items():
        if (moved := MOVED.get(f"{kind}.{field}")) is not None:
            yield f"{kind}.{field}", f"has moved: set {moved.format(value)}"
        elif field not in owners:
            hint = suggestion(field, field_names(cls))
            yield f"{kind}.{field}", f"unknown key; {hint}"
        elif plain(value) not in owners[field].values():
            yield (
                f"{kind}.{field}",
                f"is {value!r}, but {kind}.{KEYS[kind]}={name!r} does not use it "
                f"({', '.join(sorted(owners[field]))} does); leave it out",
            )


def plain(value: Any) -> Any:
    """Tuples for lists, which JSON has in their place, and None for a placeholder."""
    if isinstance(value, Mapping):
        return {name: plain(x) for name, x in value.items()}
    if isinstance(value, list | tuple):
        return tuple(map(plain, value))
    return value.get() if isinstance(value, config_dict.FieldReference) else value


def lengths_of(config: Any) -> tuple[str, ...]:
    """The fields of the section `data` that are lengths of the run's batches.

    The first one is that of the text; () if nothing says which they are.
    """
    if is_objective(config.objective.name):
        return config.objective.lengths
    try:
        schema = registry.lookup("format", _format_of(config))
    except (AttributeError, KeyError):  # is said elsewhere
        return ()
    return tuple(schema.lengths.values())


def read_at_once(config: Any) -> tuple[str, int] | None:
    """(field of `data`, tokens) of what an encoder reads together.

    Of an input in parts, it is one of these. None if nothing says what it is.
    """
    name, data, lengths = config.objective.name, config.data, lengths_of(config)
    if not lengths:
        return None
    field, length = lengths[0], getattr(data, lengths[0])
    if is_objective(name):
        return field, length
    try:
        task = registry.lookup("data_set", name)
        task = task.in_format(_format_of(config))
        options = task.with_texts(data.input_options).options
    except (AttributeError, KeyError, ValueError):  # is said elsewhere
        return field, length
    return field, options.read_at_once(length)


def _format_of(config: Any) -> str:
    return config.data.format or config.model.formats[0]
