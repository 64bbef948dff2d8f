"""Whether an attention is done by kernels."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from etc_jax.base.types import MeshAxes
from etc_jax.ops import blocking
from etc_jax.ops.attention.parts.checks import check_implementation

# The least with products of bfloat16 (A100, RTX 30). Tried: an H100, 9.0.
_CAPABILITY = 8.0


def use_kernels(
    implementation: str,
    query: jax.Array,
    problem: str | None,
    *,
    sequence_axis: str | None,
    mesh_axes: MeshAxes,
    shards: int,
) -> bool:
    """Whether kernels do it: "pallas" asks for them, "auto" takes them where they win.

    That is for bfloat16 on an NVIDIA GPU. Elsewhere "pallas" runs the kernels as
    plain operations, which is slow.

    Args:
      implementation: "auto", "dense", "pallas" or "xla".
      query: of the attention, `[b, n, h, d]`.
      problem: why kernels cannot do it, or None.
      sequence_axis: mesh axis that the sequence is split over, or None.
      mesh_axes: that batch and heads are split over.
      shards: devices that they are split over.

    Raises:
      ValueError: if the implementation is unknown, or if it is "pallas" and there is a
        problem.
    """
    check_implementation(implementation, kernels=True)
    problem = problem or _split_problem(query, sequence_axis, mesh_axes, shards)
    if problem is None and query.dtype == jnp.float64:
        problem = "inputs are float64"
    if implementation == "pallas" and problem is not None:
        raise ValueError(
            f'implementation "pallas": {problem}, which its kernels do not know; use '
            '"auto" or "xla"'
        )
    if implementation != "auto":
        return implementation == "pallas"
    return problem is None and query.dtype == jnp.bfloat16 and on_gpu()


def _split_problem(
    query: jax.Array, sequence_axis: str | None, mesh_axes: MeshAxes, shards: int
) -> str | None:
    if sequence_axis is not None:
        return "the sequence is split over devices"
    if shards > 1 and not any(mesh_axes):
        return f"of {shards} devices the mesh axes are not given"
    sizes = jax.sharding.get_abstract_mesh().shape
    for name, axis in (("batch", 0), ("heads", 2)):
        ways = math.prod(sizes[x] for x in getattr(mesh_axes, name))
        if query.shape[axis] % ways:
            return f"{name} {query.shape[axis]} is not a multiple of {ways} devices"
    return None


def on_gpu() -> bool:
    """Whether the device compiled for is a GPU that the kernels are written for."""
    if not blocking.for_gpu():
        return False
    capability = getattr(jax.devices()[0], "compute_capability", None)
    return capability is not None and float(capability) >= _CAPABILITY
