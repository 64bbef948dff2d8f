"""Which kernels do an attention, if any."""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Mapping
from types import ModuleType

import jax
import jax.numpy as jnp

from etc_jax.base.types import MeshAxes
from etc_jax.ops import blocking
from etc_jax.ops.attention.parts.checks import KERNELS, check_implementation

_LOG = logging.getLogger(__name__)

SPLIT = "the sequence is split over devices"

# The least with products of bfloat16 (A100, RTX 30). Tried: an H100, 9.0.
_CAPABILITY = 8.0

# What is worked on at once has to be in the memory of a TPU's core: compiled for v5p,
# whose cores have the least, with all of them at once, in float32.
_MOST_ON_TPU = {
    "keys to each side": 512,
    "global tokens": 512,
    "features of all heads": 2048,
    "queries": 32768,
    "offsets of a bias": 8192,
    "biases of all heads": 8192,
    "features of all keys beside": 2**20,
    "tokens of sparse blocks": 8192,
}


def choose_kernels(
    implementation: str,
    query: jax.Array,
    problems: Mapping[str, str | None],
    *,
    sequence_axis: str | None,
    mesh_axes: MeshAxes,
    shards: int,
) -> str | None:
    """The kernels that do it, of `KERNELS`; None: none do.

    A name of them asks for these; "auto" takes the first that can, which is for
    bfloat16 on the devices that they are written for, and logs once why others are not
    taken. On other devices kernels that are asked for run as plain operations, which is
    slow.

    Args:
      implementation: "auto", "dense", "xla" or one of `KERNELS`.
      query: of the attention, `[b, n, h, d]`.
      problems: why kernels cannot do it, or None, by name.
      sequence_axis: mesh axis that the sequence is split over, or None.
      mesh_axes: that batch and heads are split over.
      shards: devices that they are split over.

    Raises:
      ValueError: if the implementation is unknown, or if it is of kernels and there is
        a problem.
    """
    check_implementation(implementation, kernels=True)

    def problem(name: str) -> str | None:
        split = _split_problem(query, sequence_axis, mesh_axes, shards)
        wide = "inputs are float64" if query.dtype == jnp.float64 else None
        return problems[name] or split or wide

    if implementation in KERNELS:
        if reason := problem(implementation):
            raise ValueError(
                f'implementation "{implementation}": {reason}, which its kernels do '
                'not know; use "auto" or "xla"'
            )
        return implementation
    if implementation != "auto":
        return None
    reasons = {}
    for name in KERNELS:
        reasons[name] = _device_problem(name, query) or problem(name)
        if reasons[name] is None:
            break
    # The last one asked is the one taken, if it has no problem.
    taken = name if reasons[name] is None else None
    _log_once(taken or "xla", tuple((k, why) for k, why in reasons.items() if why))
    return taken


@functools.cache
def _log_once(taken: str, refused: tuple[tuple[str, str], ...]) -> None:
    reasons = "".join(f"; not {name}: {why}" for name, why in refused)
    _LOG.info("attention is done by %s%s", taken, reasons)


def _device_problem(name: str, query: jax.Array) -> str | None:
    """Why "auto" leaves kernels out whatever they are asked to do."""
    if not _ON[name]():
        return "the device compiled for is another"
    return None if query.dtype == jnp.bfloat16 else f"inputs are {query.dtype}"


def _split_problem(
    query: jax.Array, sequence_axis: str | None, mesh_axes: MeshAxes, shards: int
) -> str | None:
    if sequence_axis is not None:
        return SPLIT
    if shards > 1 and not any(mesh_axes):
        return f"of {shards} devices the mesh axes are not given"
    sizes = jax.sharding.get_abstract_mesh().shape
    for name, axis in (("batch", 0), ("heads", 2)):
        ways = math.prod(sizes[x] for x in getattr(mesh_axes, name))
        if query.shape[axis] % ways:
            return f"{name} {query.shape[axis]} is not a multiple of {ways} devices"
    return None


def on_gpu() -> bool:
    """Whether the device compiled for is a GPU that "pallas" is written for."""
    if not blocking.for_gpu():
        return False
    capability = getattr(jax.devices()[0], "compute_capability", None)
    return capability is not None and float(capability) >= _CAPABILITY


_ON: Mapping[str, Callable[[], bool]] = {"pallas": on_gpu, "mosaic": blocking.for_tpu}


def tpu_problem(sizes: Mapping[str, int], scale: float) -> str | None:
    """Why "mosaic" cannot do it; None: it can.

    Args:
      sizes: of what `_MOST_ON_TPU` bounds.
      scale: of the products.
    """
    for what, size in sizes.items():
        if size > _MOST_ON_TPU[what]:
            return f"there are {size} {what}, more than {_MOST_ON_TPU[what]}"
    # The maximum of a row is looked for before the scale.
    return None if scale > 0 else f"the scale is {scale}, not above 0"


def window_sizes(query: jax.Array, radius: int, global_tokens: int) -> dict[str, int]:
    """For `tpu_problem`, of windows of `[b, n, h, d]` and global tokens."""
    _, n, h, d = query.shape
    return {
        "keys to each side": min(radius, n),
        "global tokens": global_tokens,
        "features of all heads": h * d,
    }


def interpreted(name: str) -> bool:
    """Whether kernels run as plain operations here."""
    return not _ON[name]()


def backend(name: str) -> ModuleType:
    """The module with `Options` and `attend` of kernels."""
    # Not at the top: Pallas takes a quarter of a second that only kernels need.
    if name == "mosaic":
        from etc_jax.ops.attention.kernels.tpu import joint_rows
    else:
        from etc_jax.ops.attention.kernels.gpu import joint_rows
    return joint_rows
