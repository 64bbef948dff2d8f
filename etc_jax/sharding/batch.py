"""How a batch lies on a mesh, and which of its rows a process builds."""

import math
import re
from typing import Any

import jax
import numpy as np

from etc_jax.sharding import BATCH_AXES, indivisible, path_of


def replicated(mesh: jax.sharding.Mesh) -> jax.NamedSharding:
    """The same whole array on every device."""
    return jax.NamedSharding(mesh, jax.P())


def batch_shards(mesh: jax.sharding.Mesh) -> int:
    """Into how many pieces the rows of a batch are split."""
    return math.prod(mesh.shape[name] for name in BATCH_AXES)


# Entries of a batch that have the long sequence along an axis, by the end of the path.
_LONG_ENTRIES = (
    (r"(cpc_)?long_\w+|links|exempt_l2g|l2[lg]_(mask|labels)", 1),
    (r"g2l_(mask|labels)", 2),
)


def _batch_spec(path: str, ndim: int) -> jax.P:
    """Rows over ("data", "fsdp"), the long sequence over "sequence"."""
    if not ndim:
        return jax.P()
    for pattern, axis in _LONG_ENTRIES:
        if axis < ndim and re.search(f"(^|/)({pattern})$", path):
            return jax.P(BATCH_AXES, *[None] * (axis - 1), "sequence")
    return jax.P(BATCH_AXES)


def batch_shardings(batch: Any, mesh: jax.sharding.Mesh) -> Any:
    """How each entry of a batch is split: rows, and the long sequence; scalars are not.

    Raises:
      ValueError: naming every entry that does not divide.
    """
    wrong: list[str] = []

    def one(key_path, leaf):
        shape, path = np.shape(leaf), path_of(key_path)
        spec = _batch_spec(path, len(shape))
        wrong.extend(indivisible(f"batch entry {path!r}", shape, spec, mesh.shape))
        return jax.NamedSharding(mesh, spec)

    shardings = jax.tree_util.tree_map_with_path(one, batch)
    if wrong:
        raise ValueError("\n".join(wrong))
    return shardings


def local_rows(batch_size: int, mesh: jax.sharding.Mesh) -> np.ndarray:
    """int `[rows]`, ascending: rows of the global batch that this process builds."""
    sharding = jax.NamedSharding(mesh, jax.P(BATCH_AXES))
    owned = sharding.addressable_devices_indices_map((batch_size,)).values()
    rows = [np.arange(batch_size)[index] for index in owned]
    return np.unique(np.concatenate(rows))


def to_global(batch: Any, mesh: jax.sharding.Mesh, batch_size: int) -> Any:
    """Puts this process's rows (`local_rows`) of a numpy batch on its devices.

    Each device is given what its place in the sharding says: several processes may own
    the same rows, or parts of them.

    Raises:
      ValueError: naming every entry that does not divide.
    """
    rows = local_rows(batch_size, mesh)

    def whole(leaf):
        shape = np.shape(leaf)
        shape = (batch_size, *shape[1:]) if shape else ()
        return jax.ShapeDtypeStruct(shape, np.asarray(leaf).dtype)

    def one(leaf, shape, sharding):
        leaf = np.asarray(leaf)

        def part(index):
            if not index:
                return leaf
            wanted = np.arange(batch_size)[index[0]]
            return leaf[(np.searchsorted(rows, wanted), *index[1:])]

        return jax.make_array_from_callback(shape.shape, sharding, part)

    shapes = jax.tree.map(whole, batch)
    return jax.tree.map(one, batch, shapes, batch_shardings(shapes, mesh))
