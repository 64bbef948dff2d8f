"""Says what is compiled before the silence, and how long it takes.

How long a program took is kept in the folder of compiled programs, under a digest of
the program, the devices and jax's version: a time is only given again for the same.
"""

import contextlib
import hashlib
import json
import logging
import pathlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax

from etc_jax.base import strict_json
from etc_jax.base.whole_files import write_whole
from etc_jax.training.hosts import distributed

_LOG = logging.getLogger(__name__)

FILE = "compile_times.json"
MOST_KEPT = 500
_SHORT_SECS = 1.0  # is not worth a word beforehand


def compiled(what: str, lowered: jax.stages.Lowered) -> jax.stages.Compiled:
    """Compiles a program, which is announced as "compiling WHAT"."""
    with announced(what, lowered.as_text()):
        return lowered.compile()


class Announced:
    """A jitted function of (parameters, batch), announced for each shape of a batch.

    It is compiled on all processes before any of them waits in a collective.
    """

    def __init__(self, what: str, jitted: Callable[[Any, Any], Any]):
        """See the class; `what` as for `compiled`."""
        self._what, self._jitted = what, jitted
        self._compiled: dict[tuple, Callable[[Any, Any], Any]] = {}

    def __call__(self, params: Any, batch: Any) -> Any:
        """What the function gives."""
        shapes = tuple((x.shape, x.dtype) for x in jax.tree.leaves(batch))
        if shapes not in self._compiled:
            lowered = self._jitted.lower(params, batch)
            self._compiled[shapes] = distributed.together(
                lambda: compiled(self._what, lowered)
            )
        return self._compiled[shapes](params, batch)


@contextlib.contextmanager
def announced(what: str, *program: object, done: str = "compiled in") -> Iterator[None]:
    """Logs a line before and after some seconds in which nothing else is seen.

    Args:
      what: is compiled, such as "the training step".
      *program: all that the time depends on, but devices and versions; by its `repr`.
      done: stands before the seconds it took.
    """
    key = _digest(program)
    last = _saved_times().get(key, 0)
    estimate = f", {_seconds(last)} last time" if last >= _SHORT_SECS else ""
    _LOG.info("compiling %s%s ...", what, estimate)
    began = time.perf_counter()
    yield
    secs = time.perf_counter() - began
    _LOG.info("%s %s", done, _seconds(secs))
    if jax.process_index() == 0:
        _keep(key, secs)


def _seconds(secs: float) -> str:
    return f"{secs:.1f} s" if secs < 10 else f"{secs:.0f} s"


def _digest(program: tuple[object, ...]) -> str:
    devices = [(d.device_kind, d.process_index) for d in jax.devices()]
    all_of_it = (jax.__version__, devices, *program)
    return hashlib.sha256(repr(all_of_it).encode()).hexdigest()[:32]


def _file() -> pathlib.Path | None:
    folder = jax.config.jax_compilation_cache_dir
    # jax also takes the address of an object store.
    if folder is None or "://" in folder:
        return None
    return pathlib.Path(folder, FILE)


def _saved_times() -> dict[str, float]:
    """{digest: seconds}, the newest ones last; {} if there is no such file."""
    path = _file()
    try:
        times = {} if path is None else strict_json.loads(path.read_text())
        return {str(key): float(secs) for key, secs in times.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        _LOG.warning("%s has no times of compilations (%r)", path, error)
        return {}


def _keep(key: str, secs: float) -> None:
    path = _file()
    if path is None:
        return
    times = _saved_times()
    times.pop(key, None)
    times[key] = round(secs, 2)
    newest = dict(list(times.items())[-MOST_KEPT:])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)  # as jax makes it
        write_whole(path, json.dumps(newest))
    except OSError as error:
        _LOG.warning("%s is not written: %s", path, error)
