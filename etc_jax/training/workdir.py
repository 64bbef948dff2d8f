"""The folder of a run: whose it is, and what stands in it.

run.json               the config and its hash
metrics.jsonl          one line for each report
checkpoints/           see checkpoint.py
final_report.json      figures of the finished run
compile_cache/         XLA's
"""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import jax
from etils import epath
from jax.experimental.compilation_cache import compilation_cache

from etc_jax.config import Config, config_hash, identity, to_dict
from etc_jax.training.errors import UserError
from etc_jax.training.manifest import write_atomically

_RECORD = "run.json"


def claim(config: Config, workdir: epath.PathLike) -> epath.Path:
    """Makes the folder of a run, or enters the one of the same run.

    Raises:
      UserError: if it cannot be written, or holds a run with another config.
    """
    # Orbax takes absolute paths only, and says so late, from a thread.
    folder = epath.Path(workdir).expanduser().resolve()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        record = folder / _RECORD
        if record.exists():
            _check_same_run(json.loads(record.read_text()), config, folder)
    except OSError as error:
        raise UserError(f"workdir {folder} cannot be used: {error}") from error
    except ValueError as error:
        raise UserError(
            f"{folder / _RECORD} is not the record of a run ({error}); "
            "choose another --workdir"
        ) from error
    return folder


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
    write_atomically(folder / _RECORD, json.dumps(values, indent=1))


def _check_same_run(record: dict[str, Any], config: Config, folder) -> None:
    if record.get("config_hash") == config_hash(config):
        return
    old, new = record.get("identity", {}), identity(config)
    new = json.loads(json.dumps(new))
    absent = "(absent)"
    changed = [
        f"{path}: {old.get(path, absent)!r} there, {new.get(path, absent)!r} now"
        for path in sorted(old.keys() | new.keys())
        if old.get(path, absent) != new.get(path, absent)
    ]
    more = f"\n  ... and {len(changed) - 5} more" if len(changed) > 5 else ""
    raise UserError(
        f"workdir {folder} holds a run with another config; choose another --workdir, "
        f"or undo the {len(changed)} changes:\n  " + "\n  ".join(changed[:5]) + more
    )


@contextlib.contextmanager
def compile_cache(folder: epath.PathLike) -> Iterator[None]:
    """Keeps compiled programs in `folder`, unless the user has chosen a cache already.

    A restarted run then starts in seconds. The setting of the process is put back.
    """
    if jax.config.jax_compilation_cache_dir is not None:
        yield
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    compilation_cache.reset_cache()  # a cache that is in use ignores the new folder
    try:
        yield
    finally:
        jax.config.update("jax_compilation_cache_dir", None)
        compilation_cache.reset_cache()
