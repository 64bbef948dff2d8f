"""A run that begins with the parameters of another: `checkpoint.init_from`."""

import logging
from collections.abc import Iterable, Mapping, Set
from typing import Any

import jax
from etils import epath

from etc_jax.config import Config, flat_items, to_dict
from etc_jax.conversion.engine import flatten, unflatten
from etc_jax.sharding import path_of
from etc_jax.training import distributed, parameter_source
from etc_jax.training.checkpoint import from_first
from etc_jax.training.checkpoint_folder import CheckpointFolder
from etc_jax.training.checkpoint_layout import Leaves, differences, leaves_of
from etc_jax.training.errors import UserError
from etc_jax.training.parameter_source import ParameterSource
from etc_jax.training.plan import Plan
from etc_jax.training.state import TrainState

_LOG = logging.getLogger(__name__)

_FIELD = "checkpoint.init_from"


def check(config: Config, workdir: epath.PathLike) -> None:
    """Refuses an `init_from` that is not there, unless the run has already begun.

    Raises:
      UserError: if there is no finished checkpoint.
    """
    init_from = config.checkpoint.init_from
    if init_from is None:
        return
    own = CheckpointFolder(epath.Path(workdir).expanduser().resolve())
    if own.last_step is None:
        parameter_source.find(init_from, named=_FIELD)


def start_from(plan: Plan, state: TrainState) -> TrainState:
    """A fresh state with the parameters that `checkpoint.init_from` names.

    Args:
      plan: of the run, with its config.
      state: fresh; what `init_from_only` and `init_from_partial` do not take from
        there stays as it is here.

    Returns:
      The state at step 0, with an optimizer that was started from these parameters.

    Raises:
      UserError: if there is no checkpoint, or not exactly the parameters in it.
      CorruptCheckpointError: if it is damaged. It is left where it is, and no other
        one is used: which one decides what the run computes.
    """
    section = plan.config.checkpoint
    # Process 0 decides: a run that goes on may save another one meanwhile.
    place = from_first(lambda: str(_verified(section.init_from)))
    source = parameter_source.find(place, named=_FIELD)

    def load() -> Mapping[str, Any]:
        saved, wanted = source.leaves(), leaves_of(state.params)
        fresh = _left_out(
            saved.keys() | wanted.keys(),
            section.init_from_only,
            section.init_from_partial,
        )
        _check(plan.config, source, saved, wanted, fresh)
        taken = {k: v for k, v in flatten(plan.state.params).items() if k not in fresh}
        return source.read(unflatten(taken))

    loaded = distributed.together(load)
    params = jax.tree_util.tree_map_with_path(
        lambda path, leaf: loaded.get(path_of(path), leaf), state.params
    )
    _LOG.info(
        "%d of %d parameter arrays are those of %s",
        len(loaded),
        len(jax.tree.leaves(params)),
        source.folder,
    )
    layout = jax.tree.map(lambda a: a.sharding, plan.state.opt_state)
    opt_state = jax.jit(plan.tx.init, out_shardings=layout)(params)
    return TrainState(step=state.step, params=params, opt_state=opt_state)


def _verified(init_from: str) -> epath.Path:
    source = parameter_source.find(init_from, named=_FIELD)
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
    config: Config,
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
    raise UserError(
        f"{_FIELD}: {source.folder} has not exactly the parameters of this "
        f"model; {len(wrong)} differences:\n  {listed}\n{_decided_by(config, source)}\n"
        "Change these, or name what shall start fresh in checkpoint.init_from_partial"
    )


def _decided_by(config: Config, source: ParameterSource) -> str:
    """The fields of the model that differ from those the checkpoint was made with."""
    there = flat_items({"model": source.model()})
    here = flat_items({"model": to_dict(config)["model"]})
    absent = "(absent)"
    fields = [
        f"{path}: {there.get(path, absent)!r} there, {here.get(path, absent)!r} here"
        for path in sorted(there.keys() | here.keys())
        if there.get(path, absent) != here.get(path, absent)
    ]
    if not fields:
        return "The section model of the config is the same: the code has changed."
    return "\n  ".join(["Fields of the config that decide this:", *fields])
