"""The folder of a run: whose it is, and what stands in it.

run.json               the config and its hash
owner.json             which process writes here now; see owner.py
tokenizer.json         of the data
metrics.jsonl          one line for each report; metrics_unreadable.txt: damaged lines
checkpoints/           see checkpoints/folder.py; last_checkpoint.json, bad_checkpoints/
data/                  token caches, unless data.cache_dir says where
final_report.json      metrics of the finished run; curves.png
profile/               the profiler's, if asked for
tensorboard/, wandb/   events, if asked for; wandb_id.txt

All of them are plain files and folders. A folder that was received may hold links and
pipes of these names: nothing is written, or waited for, where they lead. In an object
store they are objects; data, profile, tensorboard and wandb cannot lie there.
"""

import contextlib
import json
import math
import os
import pathlib
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from etils import epath

from etc_jax.base import stores, strict_json
from etc_jax.base.local_paths import ADDED_TO, INPUT, MODEL, Given, collision, paths_in
from etc_jax.base.terminal import listing
from etc_jax.base.whole_files import unfinished_target, write_whole
from etc_jax.config import (
    CheckpointConfig,
    Config,
    ConfigError,
    config_hash,
    flat_items,
    from_record,
    identity,
    to_dict,
)
from etc_jax.training import claim as claim_lib, owner as owner_lib
from etc_jax.training.checkpoints.folder import is_step
from etc_jax.training.errors import UserError
from etc_jax.training.hosts import distributed
from etc_jax.training.local_folder import run_folder

_RECORD = "run.json"
# Fields of a config that name what a run reads.
_READ = re.compile(r".*\.(?:\w+_)?(init_from|tokenizer|paths|files)")
_SHOWN = 5
_FILES = {
    _RECORD,
    owner_lib.FILE,
    *("tokenizer.json", "metrics.jsonl", "metrics_unreadable.txt"),
    *("last_checkpoint.json", "final_report.json", "curves.png", "wandb_id.txt"),
}
_FOLDERS = {"checkpoints", "bad_checkpoints", "data", "profile", "tensorboard", "wandb"}
# Inside of it Weights & Biases makes links of its own.
_NOT_OURS = "wandb"
_FILE, _FOLDER = "a file", "a folder"


def check(config: Config, workdir: epath.PathLike) -> epath.Path:
    """The absolute path of the folder, if the run may use it; leaves nothing there.

    Raises:
      UserError: if it cannot be written, or holds a run with another config.
    """
    folder = run_folder(workdir)
    if stores.is_address(folder):
        _check_remote(config, folder)
    try:
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError("it is a file")
        _check_plain(folder)
        record = folder / _RECORD
        if record.exists():
            _check_same_run(_read_record(record), config, folder)
        else:
            _check_apart(config, folder)
        # A bucket that is not there is seen at a name in it.
        _write_something(folder if stores.is_address(folder) else _nearest(folder))
    except stores.errors() as error:
        raise UserError(
            f"workdir {folder} cannot be used: {error}; choose another --workdir"
        ) from error
    except ValueError as error:
        raise UserError(
            f"{folder / _RECORD} is not the record of a run ({error}); "
            "choose another --workdir"
        ) from error
    return folder


# Fields of what is written to a folder of the file system only.
_LOCAL = ("train.tensorboard", "train.wandb_project", "train.profile_start_step")


def _check_remote(config: Config, folder: epath.Path) -> None:
    """Refuses what cannot be written to an object store.

    Raises:
      UserError: naming the field.
    """
    fields = flat_items(to_dict(config))
    for name in _LOCAL:
        if fields[name] not in (None, False):
            raise UserError(
                f"{name} is {fields[name]!r}, but --workdir is {folder}: that is "
                "written to folders of a file system only. Leave it out, or give a "
                "--workdir here"
            )


def _check_apart(config: Config, folder: epath.Path) -> None:
    """Refuses a folder that is, or lies in, something that the run begins with.

    Raises:
      UserError: naming both.
    """
    if stores.is_address(folder):  # inputs are files here
        return
    paths = [Given("--workdir", ADDED_TO, os.fspath(folder))]
    for field, value in flat_items(to_dict(config)).items():
        if (kind := _READ.fullmatch(field)) is None:
            continue
        argument = INPUT if kind[1] in ("paths", "files") else MODEL
        paths += [Given(field, argument, argument(x)) for x in paths_in(value)]
    if wrong := collision(paths):
        raise UserError(wrong)


def recorded(workdir: epath.PathLike) -> Mapping[str, Any]:
    """The sections of the config of a run that has begun; {} if none has.

    Raises:
      UserError: if its record cannot be read.
    """
    path = run_folder(workdir) / _RECORD
    try:
        _check_plain(path.parent)
        return _read_record(path).get("config", {}) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} is not the record of a run ({error}); choose another --workdir"
        ) from error


def _check_plain(folder: epath.Path) -> None:
    """Refuses a workdir in which something else has the name of a run's file.

    Raises:
      UserError: naming what is a link, a pipe or the like.
      OSError: if it cannot be read.
    """
    if stores.is_address(folder) or not folder.is_dir():
        return
    odd = [
        f"{path.relative_to(folder)} is {kind}"
        for path, wanted in _written_paths(pathlib.Path(folder))
        if (kind := _kind(path)) not in (wanted, None)
    ]
    if odd:
        more = f" and {len(odd) - _SHOWN} more" if len(odd) > _SHOWN else ""
        raise UserError(
            f"workdir {folder} cannot be used: {', '.join(odd[:_SHOWN])}{more}, but a "
            "run has plain files and folders there. Nothing was written; delete what "
            "is none, or choose another --workdir"
        )


def _written_paths(folder: pathlib.Path) -> Iterator[tuple[pathlib.Path, str]]:
    """(path, kind that it has in a run) of all that has the name of a run's file."""
    for path in sorted(folder.iterdir()):
        if (unfinished_target(path.name) or path.name) in _FILES:
            yield path, _FILE
        elif path.name in _FOLDERS:
            yield path, _FOLDER
            if path.name != _NOT_OURS and _kind(path) == _FOLDER:
                yield from _inside(path)


def _inside(folder: pathlib.Path) -> Iterator[tuple[pathlib.Path, str]]:
    try:
        paths = sorted(folder.iterdir())
    except FileNotFoundError:  # a checkpoint that its run has let go meanwhile
        return
    for path in paths:
        is_folder = _kind(path) == _FOLDER
        yield path, _FOLDER if is_folder else _FILE
        if is_folder:
            yield from _inside(path)


def _kind(path: pathlib.Path) -> str | None:
    """What a path is itself; None if its run has deleted it meanwhile."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return None
    kinds = {
        stat.S_IFREG: _FILE,
        stat.S_IFDIR: _FOLDER,
        stat.S_IFLNK: "a link",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
    }
    return kinds.get(stat.S_IFMT(mode), "a device")


def _read_record(path: epath.Path) -> dict[str, Any]:
    """What `record` wrote, so far as its kind goes.

    Raises:
      ValueError: if it is something else.
    """
    values = strict_json.loads(path.read_text())
    if not isinstance(values, dict):
        raise ValueError(f"it holds a {type(values).__name__}, expected an object")
    for name in ("config", "identity"):
        if not isinstance(values.get(name, {}), dict):
            kind = type(values[name]).__name__
            raise ValueError(f"{name} is a {kind}, expected an object")
    return values


@contextlib.contextmanager
def claim(config: Config, folder: epath.Path) -> Iterator[Callable[[], None]]:
    """Makes the folder of a run, or enters the one of the same run, as its owner.

    Process 0 owns it for all processes of the run; see `owner`.

    Args:
      config: of the run.
      folder: of `check`.

    Yields:
      A function that raises UserError once the folder belongs to another run, or is not
      the one of this run any longer.

    Raises:
      UserError: if it cannot be made, or another run has it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"workdir {folder} cannot be made: {error}") from error
    if not distributed.is_first():
        yield lambda: None
        return
    with owner_lib.owned(folder) as owner:
        check(config, folder)  # another run may have begun and ended meanwhile
        begun_in = None if stores.is_address(folder) else os.stat(folder)

        looked = -math.inf

        def check_still() -> None:
            nonlocal looked
            owner.check()
            # A store is not asked at each step: that takes longer than many a step.
            pause = claim_lib.REFRESH_SECS if begun_in is None else 0.0
            if time.monotonic() >= looked + pause:
                _check_there(folder, begun_in)
                looked = time.monotonic()

        yield check_still


def _check_there(folder: epath.Path, begun_in: os.stat_result | None) -> None:
    """Refuses to go on without the folder in which a run has begun, and its record.

    What is saved in one that was made anew has no record: nothing could read it.

    Raises:
      UserError: if it is gone.
    """
    try:
        (folder / _RECORD).stat()
        if begun_in is None or os.path.samestat(os.stat(folder), begun_in):
            return
    except (FileNotFoundError, NotADirectoryError):
        pass
    except stores.errors():
        return  # a storage that does not answer: who writes there sees it
    raise UserError(
        f"workdir {folder} was deleted, renamed or emptied while the run was going on; "
        "nothing more is written. Put it back, or give its new path as --workdir: the "
        "same command continues from the newest checkpoint that is there"
    )


def check_shared(folder: epath.Path) -> None:
    """Refuses a folder that is not the same one for all processes.

    Raises:
      UserError: if a file that process 0 writes there is not seen.
      PeerError: if another process does not see it.
    """
    if not distributed.several():
        return
    token = next(distributed.exchange(f".shared_{os.getpid()}_{time.time_ns()}"))
    if distributed.is_first():
        (folder / token).write_text("")

    def look() -> None:
        if not (folder / token).exists():
            raise UserError(
                f"workdir {folder} is another folder here than on process 0; choose a "
                "--workdir on a file system that all processes share"
            )

    try:
        distributed.in_turn(look)
    finally:
        if distributed.is_first():
            (folder / token).unlink()


def _nearest(folder: epath.Path) -> epath.Path:
    """The folder, or the nearest one above it that exists."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder


def _write_something(folder: epath.Path) -> None:
    probe = folder / f".writable_{os.getpid()}_{time.time_ns()}"
    probe.write_text("")
    probe.unlink()


@contextlib.contextmanager
def needed(folder: epath.Path) -> Iterator[None]:
    """What a run cannot begin without: its checkpoints and its record.

    Raises:
      UserError: if the storage refuses to read or write them.
    """
    try:
        yield
    except stores.errors() as error:
        raise UserError(
            f"workdir {folder} cannot be read or written: {error}; make space, look "
            "at the storage, or choose another --workdir. What is saved there is kept: "
            "the same command continues from it"
        ) from error


def data_folder(cache_dir: str | None, folder: epath.PathLike) -> epath.Path:
    """Where a run keeps its data in tokens: `data.cache_dir`, or in its folder."""
    return epath.Path(cache_dir or epath.Path(folder) / "data")


def is_recorded(folder: epath.Path) -> bool:
    """Whether a run has passed all checks and begun here."""
    return (folder / _RECORD).exists()


def record(config: Config, folder: epath.Path) -> None:
    """Makes the folder the one of this run.

    To be called after all checks: a config that was refused can then be corrected and
    tried again in the same folder.
    """
    values = {
        "config_hash": config_hash(config),
        "config": to_dict(config),
        "identity": identity(config),
    }
    write_whole(folder / _RECORD, json.dumps(values, indent=1))


def changes(saved: Mapping[str, Any], config: Config) -> str:
    """How the config differs from a recorded one: a count and the first five.

    Args:
      saved: has `config` and its `identity`.
      config: of the run.
    """
    try:
        old = json.loads(json.dumps(identity(from_record(saved["config"]))))
    except (KeyError, ConfigError):  # of a version whose configs are not read
        old = saved.get("identity", {})
    new = json.loads(json.dumps(identity(config)))
    absent = "(absent)"
    changed = [
        f"{path}: {old.get(path, absent)!r} there, {new.get(path, absent)!r} now"
        for path in sorted(old.keys() | new.keys())
        if old.get(path, absent) != new.get(path, absent)
    ]
    return f"{len(changed)} changes:{listing(changed, _SHOWN)}"


def is_same_run(saved: Mapping[str, Any], config: Config) -> bool:
    """Whether what was saved is of this run.

    A field that there was not yet has had its default.

    Args:
      saved: has `config_hash` and `config`.
      config: of the run.
    """
    if saved.get("config_hash") == config_hash(config):
        return True
    try:
        return identity(from_record(saved.get("config", {}))) == identity(config)
    except ConfigError:
        return False


def _check_same_run(record: dict[str, Any], config: Config, folder) -> None:
    if is_same_run(record, config):
        return
    raise UserError(
        f"workdir {folder} holds a run with another config; choose another --workdir, "
        f"or undo the {changes(record, config)}"
    )


def check_space(
    folder: epath.Path,
    *,
    checkpoint_bytes: int,
    section: CheckpointConfig,
    num_steps: int,
) -> None:
    """Refuses a disk that the checkpoints of the run would fill.

    While a new one is written, all that are kept are still there, so one more must
    fit, less those that stand there already.

    Raises:
      UserError: if there is less space.
    """
    if stores.is_address(folder):  # no end of it is known
        return
    root = folder / "checkpoints"
    names = [path.name for path in root.iterdir()] if root.exists() else []
    keep = section.most_kept(num_steps)
    present = min(keep, sum(map(is_step, names)))
    needed = (keep + 1 - present) * checkpoint_bytes
    free = shutil.disk_usage(_nearest(folder)).free
    if free < needed:
        raise UserError(
            f"the disk of {folder} has {free / 1e9:.2f} GB left, but "
            f"{keep + 1 - present} checkpoints of {checkpoint_bytes / 1e9:.2f} GB will "
            f"be written; make space, choose another --workdir, or lower "
            f"{section.kept_by()}"
        )
