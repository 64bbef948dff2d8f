"""TPUs that need not be there: the devices of a topology, to compile for.

The libtpu package compiles for a real topology on any x86 machine. Its devices can
stand in meshes and shardings of abstract arrays; nothing can be put on them.
"""

import contextlib
import fcntl
import functools
import logging
import math
import os
import pathlib
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
from jax.experimental import topologies

from etc_jax.base.suggestions import did_you_mean
from etc_jax.sharding import MeshConfig, make_mesh
from etc_jax.training.errors import UserError

_LOG = logging.getLogger(__name__)

# The sizes that Google Cloud lends (cloud.google.com/tpu), up to 256 chips; libtpu is
# asked about others of these kinds. v4 is left out: libtpu describes each of its chips
# as two devices, where jax on a v4 has one.
KNOWN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "v5e": ("1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16"),
        "v5p": ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8"),
        "v6e": ("1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16"),
        "tpu7x": ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8"),
    }
)
_CHIPS_PER_HOST = 4
_NAME = re.compile(r"([a-z0-9]+):(\d+(?:x\d+)+)(?:\*([1-9]\d*))?")

# libtpu takes a lock on this file, whether it is to use a TPU or only to compile.
LOCK_FILE = pathlib.Path("/tmp/libtpu_lockfile")
_ALLOW_MANY = "ALLOW_MULTIPLE_LIBTPU_LOAD"  # libtpu's own word for doing without
WAIT_SECS = 300.0
_POLL_SECS = 1.0

# What libtpu would ask the cloud's metadata server about the machine it is on.
_ENVIRONMENT = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
}


def check_name(name: str) -> None:
    """Refuses what cannot be the name of a topology, before libtpu is loaded.

    Raises:
      UserError: naming the nearest names there are.
    """
    match = _NAME.fullmatch(name)
    if match and match[1] in KNOWN and all(int(x) for x in match[2].split("x")):
        return
    raise UserError(f"--topology={name} is not known; {_known_names(name)}")


def _known_names(name: str) -> str:
    names = [f"{kind}:{size}" for kind, sizes in KNOWN.items() for size in sizes]
    kind = name.lower().partition(":")[0]
    shown = {kind: KNOWN[kind]} if kind in KNOWN else KNOWN
    lists = "; ".join(f"{k}:{{{','.join(sizes)}}}" for k, sizes in shown.items())
    return f"{did_you_mean(name, names)} Sizes in chips: {lists}".strip()


def stand_in(count: int) -> str:
    """The name of a topology of as many devices, for kinds that are not in `KNOWN`.

    How near the memory of a step comes: docs/results/2026-11-28_preflight.md. These
    chips have more of it than v3, v4 and GPUs of 80 GB.

    Args:
      count: of devices.

    Raises:
      UserError: if there is no such topology.
    """
    if count % _CHIPS_PER_HOST == 0:
        return f"v5p:2x2x{count // _CHIPS_PER_HOST}"
    if count < _CHIPS_PER_HOST:
        return f"v5p:{count}x1x1"
    raise UserError(
        f"{count} devices cannot be compiled for; expected 1, 2, 3 or a multiple of 4"
    )


def devices(name: str) -> list[jax.Device]:
    """The devices of a topology, as libtpu describes them.

    From here on jax itself stays on the CPU in this process. Another process that uses
    libtpu is waited for, up to `WAIT_SECS`.

    Args:
      name: kind and size in chips, such as v5e:4x4 or v5p:2x2x2; v5e:4x4*2 are two
        such slices.

    Raises:
      UserError: if there is no such topology, libtpu is not installed, or another
        process still uses it.
    """
    check_name(name)
    _require_libtpu()
    jax.config.update("jax_platforms", "cpu")
    kind, size, slices = _NAME.fullmatch(name).groups(default="1")
    options: dict[str, Any] = {"num_slices": int(slices)}
    chips = tuple(map(int, size.split("x")))
    if math.prod(chips) < _CHIPS_PER_HOST:
        # libtpu takes hosts for whole ones, but for these.
        options["chips_per_host_bounds"] = (*chips, 1)[:3]
    with _environment():
        _wait_for_lock()
        try:
            topology = topologies.get_topology_desc(
                f"{kind}:{size}", platform="tpu", **options
            )
        except jax.errors.JaxRuntimeError as error:
            raise UserError(_refused(name, str(error))) from error
    return list(topology.devices)


def _refused(name: str, message: str) -> str:
    if "lockfile" in message:  # another process was faster than this one
        return f"{_lock_holder()}; run this again when that has ended"
    return f"libtpu knows no topology {name} ({message}); {_known_names(name)}"


def _require_libtpu() -> None:
    try:
        import libtpu  # noqa: F401
    except ImportError as error:
        raise UserError(
            "--topology compiles with the package libtpu, which is not installed; "
            "pip install -e '.[tpu_aot]'"
        ) from error


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    """What libtpu reads as it is loaded; what was set by hand is left as it is."""
    added = {k: v for k, v in _ENVIRONMENT.items() if k not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


@functools.cache  # closing the file would give up the lock that libtpu then holds
def _wait_for_lock() -> None:
    """libtpu itself does not wait, but fails, and advises to delete the file.

    Raises:
      UserError: if the lock is held for all of `WAIT_SECS`.
    """
    if os.environ.get(_ALLOW_MANY, "").lower() in ("1", "true"):
        return
    deadline = time.monotonic() + WAIT_SECS
    warned = False
    while _is_held():
        if time.monotonic() >= deadline:
            raise UserError(
                f"{_lock_holder()}, still after {WAIT_SECS:.0f} s. Wait until it has "
                "ended; deleting the file would disturb it. Where it compiles only, "
                f"{_ALLOW_MANY}=1 in the environment lets both run"
            )
        if not warned:
            _LOG.warning("%s; waiting up to %.0f s", _lock_holder(), WAIT_SECS)
            warned = True
        time.sleep(_POLL_SECS)


def _lock_holder() -> str:
    return f"another process uses libtpu (it holds {LOCK_FILE})"


def _is_held() -> bool:
    try:
        with LOCK_FILE.open("r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:  # held, or another user's
        return True
    return False


def mesh_over(config: MeshConfig, chips: Sequence[jax.Device]) -> jax.sharding.Mesh:
    """The config's mesh over all devices of a topology.

    Raises:
      ValueError: if the axes do not multiply to the devices, with meshes that do.
    """
    try:
        return make_mesh(config, chips)
    except ValueError as error:
        fits = ", ".join(_meshes(config, len(chips)))
        raise ValueError(f"{error}. Meshes over {len(chips)} devices: {fits}") from None


def _meshes(config: MeshConfig, count: int) -> Iterator[str]:
    """Meshes of data x fsdp that keep what they can of the other axes."""
    tensor, sequence = config.tensor, config.sequence
    if count % max(1, tensor * sequence):
        tensor = sequence = 1
    others = "".join(
        f" x {name}={size}"
        for name, size in (("tensor", tensor), ("sequence", sequence))
        if size > 1
    )
    ways = count // (tensor * sequence)
    for fsdp in range(1, ways + 1):
        if ways % fsdp == 0:
            yield f"data={ways // fsdp} x fsdp={fsdp}{others}"
