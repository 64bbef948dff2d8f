"""A run that begins with the parameters of another: `checkpoint.init_from`.

So do helper models (`config.sections.Helper`), each with a folder of its own.
"""

import dataclasses
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, NamedTuple

import jax
from etils import epath

from etc_jax.base.suggestions import suggestion
from etc_jax.config import Config, flat_items
from etc_jax.config.model_fields import must_agree
from etc_jax.conversion.engine import flatten, unflatten
from etc_jax.sharding import path_of
from etc_jax.training.checkpoints import parameter_source
from etc_jax.training.checkpoints.checkpointer import from_first
from etc_jax.training.checkpoints.folder import CheckpointFolder
from etc_jax.training.checkpoints.layout import Leaves, differences, leaves_of
from etc_jax.training.checkpoints.parameter_source import ParameterSource
from etc_jax.training.errors import UserError
from etc_jax.training.hosts import distributed
from etc_jax.training.job import HELPERS
from etc_jax.training.local_folder import run_folder
from etc_jax.training.preflight.plan import Plan
from etc_jax.training.state import TrainState

_LOG = logging.getLogger(__name__)

_ABSENT = "(absent)"


class _Start(NamedTuple):
    """A model whose parameters are read from a folder.

    Attributes:
      field: of the config, that names the folder.
      folder: of a run, a checkpoint or a converted model.
      section: of the config, that the model is.
      family: of the model.
      model: its config.
      below: what the paths of its parameters begin with in the run.
      only, partial, changes: see `checkpoint.init_from_only` and so on.
      unread: see `config.sections.Helper`.
    """

    field: str
    folder: str
    section: str
    family: str
    model: Any
    below: str = ""
    only: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    def recorded(self) -> dict[str, Any]:
        """The model as the section of a record shows it."""
        return {"family": self.family, **dataclasses.asdict(self.model)}

    def named(self, field: str) -> str:
        """The path in the config of a field of the model, or of its "family"."""
        is_beside = self.below and field == "family"
        return f"{self.section}{'_' if is_beside else '.'}{field}"

    def part_of(self, flat: Mapping[str, Any]) -> dict[str, Any]:
        """What is of this model among {path in the run: value}, by paths in it."""
        if self.below:
            paths = [path for path in flat if path.startswith(self.below)]
        else:
            paths = [path for path in flat if not path.startswith(f"{HELPERS}/")]
        return {path.removeprefix(self.below): flat[path] for path in paths}


def _starts(config: Config) -> Iterator[_Start]:
    asked = config.checkpoint
    if asked.init_from is not None:
        yield _Start(
            "checkpoint.init_from",
            asked.init_from,
            "model",
            config.family,
            config.model,
            only=asked.init_from_only,
            partial=asked.init_from_partial,
            changes=asked.init_from_changes,
        )
    for helper in config.objective.helpers:
        if helper.init_from is not None:
            section = f"objective.{helper.name}"
            yield _Start(
                f"{section}_init_from",
                helper.init_from,
                section,
                helper.family,
                helper.model,
                below=f"{HELPERS}/{helper.name}/",
                unread=helper.unread,
            )


def check(config: Config, workdir: epath.PathLike) -> None:
    """Refuses a folder that is not there, unless the run has already begun.

    And one of a model that computes something else with parameters of equal shapes:
    these are compared later (`start_from`).

    Raises:
      UserError: if there is no finished checkpoint, or a field of the model differs.
    """
    if not (starts := list(_starts(config))):
        return
    checkpoints = CheckpointFolder(run_folder(workdir))
    if checkpoints.last_step is None:
        for start in starts:
            source = parameter_source.find(start.folder, named=start.field)
            _check_model(start, source)


def _check_model(start: _Start, source: ParameterSource) -> None:
    """Raises UserError if the models differ in a field that no shape shows."""
    try:
        source_fields, own_fields = _json(source.model()), _json(start.recorded())
    except ValueError as error:
        raise UserError(f"{start.field}: {error}") from error
    if not source_fields:
        _LOG.warning("%s does not say of which model it is", source.folder)
        return
    if unknown := sorted(set(start.changes) - {*own_fields, *source_fields}):
        raise UserError(
            f"checkpoint.init_from_changes has {unknown[0]!r}, no field of the model; "
            f"{suggestion(unknown[0], own_fields)}"
        )
    wrong = [
        f"{start.named(name)}: {then!r} there, {now!r} here"
        for name, then, now in _unseen(type(start.model), source_fields, own_fields)
        if then != now and name not in start.changes
    ]
    if wrong:
        names = ", ".join(line.partition(":")[0] for line in wrong)
        meant = (
            "; or, where the change is meant, name the fields in "
            "checkpoint.init_from_changes"
        )
        raise UserError(
            f"{start.field}: the parameters in {source.folder} are of a model that "
            "computes something else with them:\n  "
            + "\n  ".join(wrong)
            + f"\nSet {names} as there"
            + ("" if start.below else meant)
        )


def _unseen(model: type, source: Mapping, target: Mapping) -> Iterator[tuple]:
    """(field, value there, value here) of what no shape shows."""
    yield "family", source.get("family"), target["family"]
    if source.get("family") == target["family"]:
        # A field that there was not yet has had its default; one that is no more is of
        # another version.
        defaults = _json({f.name: f.default for f in dataclasses.fields(model)})
        source = defaults | dict(source)
        names = [*must_agree(model), *sorted(source.keys() - target.keys())]
    else:
        names = [name for name in must_agree(model) if name in source]
    yield from ((n, source.get(n, _ABSENT), target.get(n, _ABSENT)) for n in names)


def _json(values: Mapping[str, Any]) -> dict[str, Any]:
    """With tuples as the lists that they become in a file."""
    return json.loads(json.dumps({**values}, default=str))


def start_from(plan: Plan, state: TrainState) -> TrainState:
    """A fresh state with the parameters of `checkpoint.init_from` and of helpers.

    Args:
      plan: of the run, with its config.
      state: fresh; what is not taken from a folder stays as it is here.

    Returns:
      The state at step 0, with an optimizer that was started from these parameters; the
      state itself if no folder is named.

    Raises:
      UserError: if there is no checkpoint, or not exactly the parameters in it.
      CorruptCheckpointError: if it is damaged. It is left where it is, and no other
        one is used: which one decides what the run computes.
    """
    if not (starts := list(_starts(plan.config))):
        return state
    loaded: dict[str, jax.Array] = {}
    for start in starts:
        loaded |= _loaded(start, plan)
    params = jax.tree_util.tree_map_with_path(
        lambda path, leaf: loaded.get(path_of(path), leaf), state.params
    )
    layout = jax.tree.map(lambda a: a.sharding, plan.state.opt_state)
    opt_state = jax.jit(plan.tx.init, out_shardings=layout)(params)
    return TrainState(step=state.step, params=params, opt_state=opt_state)


def _loaded(start: _Start, plan: Plan) -> dict[str, jax.Array]:
    """{path in the run: array} of what is taken from a folder."""
    # Process 0 decides: a run that goes on may save another one meanwhile.
    checkpoint = from_first(lambda: str(_verified(start)))
    source = parameter_source.find(checkpoint, named=start.field)
    abstract = start.part_of(flatten(plan.state.params))

    def load() -> Mapping[str, Any]:
        saved, wanted = source.leaves(), leaves_of(abstract)
        fresh = _left_out(saved.keys() | wanted.keys(), start.only, start.partial)
        unread = tuple(f"{name}/" for name in start.unread)
        fresh |= {x for x in saved.keys() - wanted.keys() if x.startswith(unread)}
        _check(start, source, saved, wanted, fresh)
        taken = {k: v for k, v in abstract.items() if k not in fresh}
        return source.read(unflatten(taken))

    loaded = distributed.together(load)
    _LOG.info(
        "%d of %d parameter arrays of %s are those of %s",
        len(loaded),
        len(abstract),
        start.section,
        source.folder,
    )
    return {f"{start.below}{path}": array for path, array in loaded.items()}


def _verified(start: _Start) -> epath.Path:
    source = parameter_source.find(start.folder, named=start.field)
    source.verify()
    return source.folder


def _left_out(paths: Set[str], only: Iterable[str], partial: Iterable[str]) -> Set[str]:
    """The paths, of either side, that are not taken from there."""
    if only:
        return paths - _below(paths, only, "init_from_only")
    return _below(paths, partial, "init_from_partial")


def _below(paths: Set[str], names: Iterable[str], field: str) -> set[str]:
    """The paths that are one of the names or begin with one."""
    out = set()
    for name in names:
        beginning = f"{name.strip('/')}/"
        matched = {path for path in paths if f"{path}/".startswith(beginning)}
        if not matched:
            tops = ", ".join(sorted({path.partition("/")[0] for path in paths}))
            raise UserError(
                f"checkpoint.{field} has {name!r}, but no parameter is named "
                f"so or lies below it, here or in the checkpoint; there are: {tops}"
            )
        out |= matched
    return out


def _check(
    start: _Start,
    source: ParameterSource,
    saved: Leaves,
    wanted: Leaves,
    fresh: Set[str],
) -> None:
    """Raises UserError with every parameter that is not the same on both sides."""

    def rest(leaves: Leaves) -> dict[str, Any]:
        return {path: leaf for path, leaf in leaves.items() if path not in fresh}

    wrong = differences(rest(saved), rest(wanted))
    if not wrong:
        return
    listed = "\n  ".join(wrong)
    partial = ", or name what shall start fresh in checkpoint.init_from_partial"
    raise UserError(
        f"{start.field}: {source.folder} has not exactly the parameters of this "
        f"model; {len(wrong)} differences:\n  {listed}\n{_decided_by(start, source)}\n"
        f"Change these{'' if start.below else partial}"
    )


def _decided_by(start: _Start, source: ParameterSource) -> str:
    """The fields of the model that differ from those the checkpoint was made with."""
    old, new = flat_items(source.model()), flat_items(start.recorded())
    both = {
        name: (old.get(name, _ABSENT), new.get(name, _ABSENT))
        for name in sorted(old.keys() | new.keys())
    }
    fields = [
        f"{start.named(name)}: {then!r} there, {now!r} here"
        for name, (then, now) in both.items()
        if then != now
    ]
    if not fields:
        same = f"The section {start.section} of the config is the same"
        return f"{same}: the code has changed."
    return "\n  ".join(["Fields of the config that decide this:", *fields])
