"""Kernels on the devices of a mesh."""

from __future__ import annotations

import jax


def on_each_device(fn, inputs, in_specs, out_specs):
    """`fn` of each device's part of batch and heads: XLA does not split a kernel.

    Mosaic refuses a kernel beside which any axis of the mesh is left to XLA, so that
    none is, also of those that nothing here is split over.

    Args:
      fn: function of a tree of arrays.
      inputs: the tree.
      in_specs: a tree of `jax.P` that stand for its leaves, or subtrees of these.
      out_specs: the same of what `fn` returns.
    """
    mesh = jax.sharding.get_abstract_mesh()
    left = set(mesh.axis_names) - set(mesh.manual_axes)
    if not left or all(size == 1 for size in mesh.shape.values()):
        return fn(inputs)
    return jax.shard_map(
        fn,
        in_specs=(in_specs,),
        out_specs=out_specs,
        axis_names=left,
        # The check cannot follow what varies over devices into a kernel.
        check_vma=False,
    )(inputs)
