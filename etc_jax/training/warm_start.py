"""A run that begins with the parameters of another: `checkpoint.init_from`."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import jax
from etils import epath

from etc_jax.config import Config, flat_items, to_dict
from etc_jax.sharding import path_of
from etc_jax.training import distributed, manifest
from etc_jax.training.checkpoint import from_first
from etc_jax.training.checkpoint_folder import FOLDER, CheckpointFolder, read_data
from etc_jax.training.checkpoint_layout import Leaves, differences, leaves_of
from etc_jax.training.checkpoint_orbax import read_state, saved_leaves
from etc_jax.training.errors import CorruptCheckpointError, UserError
from etc_jax.training.plan import Plan
from etc_jax.training.state import TrainState

_LOG = logging.getLogger(__name__)


def find(init_from: epath.PathLike) -> epath.Path:
    """The folder of the checkpoint that is meant: quick, its files are not read.

    Args:
      init_from: a run's folder, whose newest finished checkpoint is meant, or the
        folder of one checkpoint.

    Raises:
      UserError: if there is none.
    """
    path = epath.Path(init_from).expanduser().resolve()
    if manifest.exists(path):
        return path
    there = CheckpointFolder(path)
    for step in there.steps():
        if manifest.exists(there.path(step)):
            return there.path(step)
    raise UserError(
        f"checkpoint.init_from is {init_from!s}, but there is no finished checkpoint: "
        f"neither {path / manifest.NAME} nor {path / FOLDER}/STEP/{manifest.NAME}; "
        "name the folder of a run, or of one of its checkpoints"
    )


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
        find(init_from)


def start_from(plan: Plan, state: TrainState) -> TrainState:
    """A fresh state with the parameters that `checkpoint.init_from` names.

    Args:
      plan: of the run, with its config.
      state: fresh; what `checkpoint.init_from_partial` names stays as it is here.

    Returns:
      The state at step 0, with an optimizer that was started from these parameters.

    Raises:
      UserError: if there is no checkpoint, or not exactly the parameters in it.
      CorruptCheckpointError: if it is damaged. It is left where it is, and no other
        one is used: which one decides what the run computes.
    """
    section = plan.config.checkpoint
    folder = epath.Path(from_first(lambda: str(_verified(section.init_from))))

    def load() -> Mapping[str, Any]:
        saved = {
            path.removeprefix("params/"): leaf
            for path, leaf in saved_leaves(folder).items()
            if path.startswith("params/")
        }
        fresh = _left_out(saved, leaves_of(state.params), section.init_from_partial)
        _check(plan.config, folder, saved, leaves_of(state.params), fresh)
        return _read(folder, plan.state.params, fresh)

    loaded = distributed.together(load)
    params = jax.tree_util.tree_map_with_path(
        lambda path, leaf: loaded.get(path_of(path), leaf), state.params
    )
    _LOG.info(
        "%d of %d parameter arrays are those of %s",
        len(loaded),
        len(jax.tree.leaves(params)),
        folder,
    )
    layout = jax.tree.map(lambda a: a.sharding, plan.state.opt_state)
    opt_state = jax.jit(plan.tx.init, out_shardings=layout)(params)
    return TrainState(step=state.step, params=params, opt_state=opt_state)


def _verified(init_from: str) -> epath.Path:
    folder = find(init_from)
    if fault := manifest.verify(folder):
        raise CorruptCheckpointError(
            f"checkpoint.init_from: the checkpoint {folder} is damaged: {fault}; name "
            "another one"
        )
    return folder


def _left_out(saved: Leaves, wanted: Leaves, partial: Iterable[str]) -> set[str]:
    """The paths, of either side, that the names in `partial` stand for."""
    paths, out = saved.keys() | wanted.keys(), set()
    for name in partial:
        beginning = f"{name.strip('/')}/"
        matched = {path for path in paths if f"{path}/".startswith(beginning)}
        if not matched:
            tops = ", ".join(sorted({path.partition("/")[0] for path in paths}))
            raise UserError(
                f"checkpoint.init_from_partial has {name!r}, but no parameter is named "
                f"so or lies below it, here or in the checkpoint; there are: {tops}"
            )
        out |= matched
    return out


def _check(
    config: Config, folder: epath.Path, saved: Leaves, wanted: Leaves, fresh: set[str]
) -> None:
    """Raises UserError with every parameter that is not the same on both sides."""

    def rest(leaves: Leaves) -> dict[str, Any]:
        return {path: leaf for path, leaf in leaves.items() if path not in fresh}

    wrong = differences(rest(saved), rest(wanted))
    if not wrong:
        return
    listed = "\n  ".join(wrong)
    raise UserError(
        f"checkpoint.init_from: {folder} has not exactly the parameters of this "
        f"model; {len(wrong)} differences:\n  {listed}\n{_decided_by(config, folder)}\n"
        "Change these, or name what shall start fresh in checkpoint.init_from_partial"
    )


def _decided_by(config: Config, folder: epath.Path) -> str:
    """The fields of the model that differ from those the checkpoint was made with."""
    there = flat_items({"model": read_data(folder).get("config", {}).get("model", {})})
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


def _read(folder: epath.Path, params: Any, fresh: set[str]) -> dict[str, jax.Array]:
    """{path: array} of the abstract `params` that are not to be fresh."""
    wanted: dict[str, Any] = {}
    for key_path, leaf in jax.tree_util.tree_flatten_with_path(params)[0]:
        path = path_of(key_path)
        if path in fresh:
            continue
        *above, name = path.split("/")
        at = wanted
        for part in above:
            at = at.setdefault(part, {})
        at[name] = leaf
    if not wanted:
        return {}
    loaded = read_state(folder, {"params": wanted}, part=True)["params"]
    flat, _ = jax.tree_util.tree_flatten_with_path(loaded)
    return {path_of(key_path): leaf for key_path, leaf in flat}
