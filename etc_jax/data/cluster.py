"""Parts made by the workers of a dask cluster.

    dask scheduler --port 8786
    dask worker tcp://HOST:8786 --nworkers 8 --nthreads 1     # on each machine

Items go to the workers and parts come back: a cluster needs no disk that all see, and
no file of this machine. A worker that dies is replaced by another one, which makes its
part anew. Needs the extra `cluster`, here and there.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import pathlib
import pickle
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from typing import Any, NamedTuple

from etc_jax.base import extras, registry
from etc_jax.data.parts import (
    Executor,
    Item,
    MakeFn,
    Part,
    Recipe,
    WorkerDiedError,
    write_part,
)

_LOG = logging.getLogger(__name__)

_CONNECT_SECS = 10.0
_WAIT_SECS = 30.0
# Other versions of these may give other tokens.
_PACKAGES = ("etc_jax", "numpy", "tokenizers", "sentencepiece", "nupunkt")


class _File(NamedTuple):
    """A file of the machine that asks, which others do not see."""

    name: str
    content: bytes

    @classmethod
    def of(cls, value: Any) -> Any:
        """The file that a value is the path of; another value as it is."""
        is_path = isinstance(value, pathlib.Path)
        return cls(value.name, value.read_bytes()) if is_path else value


class _Setup(NamedTuple):
    """All that another process needs to make parts."""

    versions: dict[str, str | None]
    plugins: list[str]
    open_fn: Callable[..., MakeFn]
    open_args: tuple[Any, ...]


def _versions() -> dict[str, str | None]:
    return {name: extras.version(name) for name in _PACKAGES}


class _Cluster(Executor):
    """A connection to a scheduler."""

    def __init__(self, client: Any, address: str, recipe: Recipe):
        self._client, self._address = client, address
        args = tuple(map(_File.of, recipe.open_args))
        setup = _Setup(_versions(), registry.named_modules(), recipe.open_fn, args)
        # Once a worker, not with each part.
        self._setup = client.submit(bytes, pickle.dumps(setup), pure=False)

    @property
    def ahead(self) -> int:
        return 2 * max(1, sum(self._client.nthreads().values()))

    def submit(
        self, file: pathlib.Path, digest: str, items: list[Item]
    ) -> Callable[[], None]:
        # As bytes: dask would look into them.
        future = self._client.submit(
            _made, self._setup, pickle.dumps(items), pure=False
        )
        return lambda: write_part(file, digest, self._result(future, file.stem))

    def _result(self, future: Any, number: str) -> Part:
        while True:
            try:
                return future.result(timeout=_WAIT_SECS)
            except TimeoutError:
                if not self._client.nthreads():
                    _LOG.warning(
                        "part %s waits: no worker is connected to %s; start one: dask "
                        "worker %s",
                        *(number, self._address, self._address),
                    )


@contextlib.contextmanager
def opened(address: str, recipe: Recipe) -> Iterator[Executor]:
    """The workers that are connected to a scheduler, now or later.

    Args:
      address: of the scheduler, such as tcp://HOST:8786.
      recipe: how parts are made.

    Raises:
      MissingExtraError: if dask is not installed.
      ValueError: if no scheduler answers there.
      WorkerDiedError: if it ends, or workers die of one part again and again.
    """
    distributed = extras.needed(
        "distributed", extra="cluster", to="have a cluster make parts"
    )
    try:
        # A client of an unknown scheme is hard to close.
        distributed.comm.get_address_host(address)
        client = distributed.Client(
            address, timeout=_CONNECT_SECS, set_as_default=False
        )
    except (OSError, ValueError) as e:
        raise ValueError(
            f"no scheduler of dask answers at {address} ({e}); start one: dask "
            "scheduler --port 8786, and its workers: dask worker tcp://HOST:8786"
        ) from e
    try:
        with client:
            yield _Cluster(client, address, recipe)
    except distributed.KilledWorker as e:
        raise WorkerDiedError(
            f"workers of {address} died of one part again and again (did they run out "
            "of memory?); finished parts are kept: correct it, and run again"
        ) from e
    except (CancelledError, distributed.comm.CommClosedError) as e:
        raise WorkerDiedError(
            f"the scheduler at {address} ended; finished parts are kept: start it, and "
            "run again"
        ) from e


# --- on a worker ----------------------------------------------------------------------

_LOCK = threading.Lock()  # a worker may have several threads; what makes parts has one


def _made(setup: bytes, items: bytes) -> Part:
    with _LOCK:
        return _opened(setup)(pickle.loads(items))


@functools.lru_cache(maxsize=1)
def _opened(pickled: bytes) -> MakeFn:
    setup: _Setup = pickle.loads(pickled)
    for name, version in _versions().items():
        if version != setup.versions[name]:
            raise ValueError(
                f"a worker has {name} {version}, and {setup.versions[name]} is what "
                "asks it: its parts could be others; install the same version there"
            )
    registry.import_plugins(setup.plugins)
    with tempfile.TemporaryDirectory(prefix="etc_jax_") as folder:
        return setup.open_fn(*(_put(value, folder) for value in setup.open_args))


def _put(value: Any, folder: str) -> Any:
    """The path of a file that came along; another value as it is."""
    if not isinstance(value, _File):
        return value
    path = pathlib.Path(folder, value.name)
    path.write_bytes(value.content)
    return path
