"""The config of a run: frozen dataclasses, their defaults, and every error at once.

A config file starts from `default_config()` (an `ml_collections.ConfigDict` made of
the dataclasses' defaults), and `from_config_dict` turns it into a `Config`. A section
(config_sections.py) says what is wrong with its own values in `problems()`; rules
between sections are in `_CROSS_CHECKS`.
"""

import dataclasses
import difflib
import hashlib
import json
import math
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import ml_collections

from etc_jax import config_kinds, local_paths, registry
from etc_jax.config_fields import Problem, build, default_dict, suggestion
from etc_jax.config_sections import (
    LENGTHS,
    CheckpointConfig,
    DataConfig,
    ObjectiveConfig,
    OptimizerConfig,
    ScheduleConfig,
    TrainConfig,
    registered,
)
from etc_jax.config_upgrades import upgraded
from etc_jax.sharding import DEFAULT_RULES, MeshConfig, nearest_multiples

# Tokens of a batch over all devices: 100 times what the largest of models are trained
# with. More is a slip, and would end in memory running out after minutes.
MAX_BATCH_TOKENS = 1 << 28


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
    those that are meant.

    Args:
      family: whose model section it is.
      objective: or data set, by name or by the path of a module.
      source: of the data, by name or by the path of a module.

    Raises:
      ConfigError: if there is no such family, objective or source.
    """
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
        problems += _cross_problems(config, {path for path, _ in problems})
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
        cls = config_kinds.section_of(name, format or _first_format(name, model))
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
    return from_record(json.loads(text))


def from_record(values: Mapping[str, Any]) -> Config:
    """The config that `to_dict` gave, of this version or an earlier one.

    Earlier ones took values that nothing used: these are left out.

    Raises:
      ConfigError: listing every error there is.
    """
    if not isinstance(values, Mapping):
        raise ConfigError([("config", f"is {values!r}; expected sections")])
    values = upgraded(values)
    for kind, cls in _named_sections(values):
        if isinstance(values.get(kind), Mapping):
            own = default_dict(cls)
            # What no section has is an error, as elsewhere.
            others = config_kinds.shown(kind, cls, "").keys() - own.keys()
            kept = {k: x for k, x in values[kind].items() if k not in others}
            values = {**values, kind: kept}
    return from_config_dict(values)


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
    """The names in the argument of a config file: `configs/NAME.py:4096,shared`.

    Args:
      arg: names joined by commas; "" for none.
      *groups: of each group one name may be given at most.
      flags: names that go with everything.

    Raises:
      ValueError: naming what there is, if a name is not known, given twice, or at odds
        with another.
    """
    given = arg.split(",") if arg else []
    known = [*(name for group in groups for name in group), *flags]
    for name in given:
        if name not in known:
            raise ValueError(
                f"no variant {name!r} of this config; {_near(name, known)}there are: "
                f"{', '.join(known) or 'none'}"
            )
    if len(set(given)) < len(given):
        raise ValueError(f"a variant is given twice in {arg!r}")
    for group in groups:
        if len(both := [name for name in given if name in group]) > 1:
            raise ValueError(f"the variants {', '.join(both)} exclude each other")
    return set(given)


def _near(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}? " if near else ""


def identity(config: Config) -> dict[str, Any]:
    """{dotted path: value} of the fields that decide what a run computes."""
    return {
        path: value
        for path, value in flat_items(to_dict(config)).items()
        if not any(path == f or path.startswith(f"{f}.") for f in _RUNTIME_FIELDS)
    }


def config_hash(config: Config) -> str:
    """Sixteen hex digits that two configs share if they compute the same run."""
    text = json.dumps(identity(config), sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _warmup_fits(config: Config) -> Iterator[Problem]:
    warmup, total = config.schedule.warmup_steps, config.train.num_steps
    if warmup > total:
        yield (
            "schedule.warmup_steps",
            f"is {warmup}, more than train.num_steps = {total}; make it no larger",
        )


def batch_problem(rows: int, *lengths: int | None) -> str | None:
    """Why a batch is too large to be meant; None if it is not.

    Args:
      rows: of the batch, over all devices.
      lengths: tokens of each input of a row.
    """
    tokens = rows * sum(filter(None, lengths))
    if tokens <= MAX_BATCH_TOKENS:
        return None
    return (
        f"is {rows}: a batch of {tokens:,} tokens, {tokens * 4 / 1e9:,.0f} GB for each "
        f"array of them, is more than {MAX_BATCH_TOKENS:,}; lower it"
    )


def _batch_is_meant(config: Config) -> Iterator[Problem]:
    used = config_kinds.lengths_of(config) or LENGTHS
    lengths = (getattr(config.data, field) for field in used)
    problem = batch_problem(config.train.batch_size, *lengths)
    if problem is not None:
        yield "train.batch_size", problem


def _batch_divides(config: Config) -> Iterator[Problem]:
    ways = max(config.mesh.data, 1) * config.mesh.fsdp
    micro = config.train.accumulation_steps
    size = config.train.batch_size
    if ways > 0 and size % (ways * micro):
        steps = " x train.accumulation_steps" if micro > 1 else ""
        yield (
            "train.batch_size",
            f"is {size}, not divisible by {ways * micro} "
            f"(mesh.data x mesh.fsdp{steps}); {nearest_multiples(size, ways * micro)}",
        )


def _lengths_divide(config: Config) -> Iterator[Problem]:
    ways = config.mesh.sequence
    used = config_kinds.lengths_of(config) or LENGTHS
    along = (field for field in used if field != "global_length")
    for field in (*along, "cpc_long_length"):
        size = getattr(config.data, field, None)
        if size is not None and ways > 1 and size % ways:
            yield (
                f"data.{field}",
                f"is {size}, not divisible by mesh.sequence = {ways}; "
                f"{nearest_multiples(size, ways)}",
            )


def _end_is_below_the_peak(config: Config) -> Iterator[Problem]:
    end, peak = config.schedule.end_value, config.optimizer.learning_rate
    if end > peak:
        yield (
            "schedule.end_value",
            f"is {end}, more than the peak, optimizer.learning_rate = {peak}; make it "
            "no larger",
        )


def _profile_comes(config: Config) -> Iterator[Problem]:
    start, total = config.train.profile_start_step, config.train.num_steps
    if start is not None and start >= total:
        yield (
            "train.profile_start_step",
            f"is {start}, but the run ends at train.num_steps = {total}; make it "
            "smaller",
        )


def _best_are_evaluated(config: Config) -> Iterator[Problem]:
    saves, evaluations = config.checkpoint.every_steps, config.train.eval_every_steps
    if config.checkpoint.keep_best and saves % evaluations:
        yield (
            "checkpoint.every_steps",
            f"is {saves}, not a multiple of train.eval_every_steps = {evaluations}, "
            "but checkpoint.keep_best ranks by an evaluation at the same step; "
            f"{nearest_multiples(saves, evaluations)}",
        )


def _model_divides(config: Config) -> Iterator[Problem]:
    dims = {
        "num_heads": "heads",
        "mlp_dim": "mlp",
        "vocab_size": "vocab",
        "embed_dim": "embed",
    }
    for field, logical in dims.items():
        size = getattr(config.model, field, None)
        axes = DEFAULT_RULES[logical]
        axes = (axes,) if isinstance(axes, str) else axes
        ways = math.prod(getattr(config.mesh, axis) for axis in axes)
        if isinstance(size, int) and ways > 0 and size % ways:
            over = " x ".join(f"mesh.{axis}" for axis in axes)
            yield (
                f"model.{field}",
                f"is {size}; the {logical} dimension of the parameters is split over "
                f"{over} = {ways}, which does not divide it; "
                f"{nearest_multiples(size, ways)}",
            )


def _vocabulary_fits(config: Config) -> Iterator[Problem]:
    rows = getattr(config.model, "vocab_size", None)
    if isinstance(rows, int) and rows < config.data.vocab_size:
        yield (
            "model.vocab_size",
            f"is {rows}, less than data.vocab_size = {config.data.vocab_size}; token "
            "ids would point outside the table, so make it at least as large",
        )


def _positions_suffice(config: Config) -> Iterator[Problem]:
    rows = getattr(config.model, "max_positions", 0)
    for field in ("long_length", "global_length"):
        length = getattr(config.data, field)
        if isinstance(rows, int) and 0 < rows < length:
            yield (
                f"data.{field}",
                f"is {length}, but the model has positions for {rows} tokens; lower it "
                f"to {rows}, or raise model.max_positions to {length} (0: none)",
            )


def _sequence_fits(config: Config) -> Iterator[Problem]:
    longest, read = getattr(config.model, "max_length", None), None
    if longest is not None:
        read = config_kinds.read_at_once(config)
    if read is not None and read[1] > longest:
        field, length = read
        yield (
            f"data.{field}",
            f"is {length}, more than model.max_length = {longest}; lower it, or raise "
            "that (and axial_shape)",
        )


def _lengths_are_used(config: Config) -> Iterator[Problem]:
    used = config_kinds.lengths_of(config)
    for field in LENGTHS if used else ():
        length, usual = getattr(config.data, field), getattr(DataConfig, field)
        if field not in used and length != usual:
            known = " and ".join(f"data.{name}" for name in used)
            yield (
                f"data.{field}",
                f"is {length}, but inputs of this run have another length: {known}; "
                "set that, and leave this one out",
            )


def _objective_has_its_data(config: Config) -> Iterator[Problem]:
    name, source = config.objective.name, config.data.source
    reads = config.objective.reads
    if not reads or config.data.gives in reads:
        return
    known = config_kinds.known_sections("data").items()
    can = [other for other, section in known if section.gives in reads]
    hints = {section.hint for other, section in known if other in can}
    hint = "".join(f", {hint}" for hint in sorted(hints) if hint)
    yield (
        "data.source",
        f"is {source!r}, but objective.name={name!r} learns from one of "
        f"{', '.join(can)}; set it to that{hint}",
    )


_LENGTHS = tuple(f"data.{field}" for field in LENGTHS)
# (what it reads, the check): left out where one of the fields is in error already.
_CROSS_CHECKS = (
    (("schedule.warmup_steps", "train.num_steps"), _warmup_fits),
    (
        ("train.batch_size", "train.accumulation_steps", "mesh.data", "mesh.fsdp"),
        _batch_divides,
    ),
    (
        ("train.batch_size", *_LENGTHS),
        _batch_is_meant,
    ),
    (("schedule.end_value", "optimizer.learning_rate"), _end_is_below_the_peak),
    (("train.profile_start_step", "train.num_steps"), _profile_comes),
    (
        ("checkpoint.every_steps", "checkpoint.keep_best", "train.eval_every_steps"),
        _best_are_evaluated,
    ),
    (("model", "mesh.fsdp", "mesh.tensor"), _model_divides),
    (
        (*_LENGTHS, "data.cpc_long_length", "mesh.sequence"),
        _lengths_divide,
    ),
    (("model.vocab_size", "data.vocab_size"), _vocabulary_fits),
    (
        ("model.max_positions", "data.long_length", "data.global_length"),
        _positions_suffice,
    ),
    ((*_LENGTHS, "model.max_length"), _sequence_fits),
    (_LENGTHS, _lengths_are_used),
    (("data.source", "objective.name"), _objective_has_its_data),
)


def _cross_problems(config: Config, bad: set[str]) -> Iterator[Problem]:
    for fields, check in _CROSS_CHECKS:
        if not bad.intersection(fields):
            yield from (p for p in check(config) if p[0] not in bad)
    if not any(path.startswith(("objective.", "data.")) for path in bad):
        yield from config.objective.problems_with(config.data)
