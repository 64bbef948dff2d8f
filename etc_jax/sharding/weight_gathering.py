"""Weights that lie over fsdp: whole on each device where they are read, once."""

import functools
from typing import Any

import jax
import jax.numpy as jnp

from etc_jax.sharding import active_rules, axes_for, path_of, spec_for


def _groups(spec: jax.P) -> list[tuple[str, ...]]:
    """The mesh axes of each dimension."""
    return [(a,) if isinstance(a, str) else a or () for a in spec]


def _collected_spec(spec: jax.P) -> jax.P:
    """The same without fsdp."""
    remaining = [[name for name in group if name != "fsdp"] for group in _groups(spec)]
    return jax.P(*(tuple(group) or None for group in remaining))


def _split_specs(params: Any) -> Any:
    """The partition of each parameter that lies over fsdp here, by path; else None."""
    rules, sizes = active_rules(), jax.sharding.get_abstract_mesh().shape
    active = rules is not None and sizes.get("fsdp", 1) > 1

    def one(key_path, leaf):
        if not active:
            return None
        spec = spec_for(path_of(key_path), leaf.ndim, rules)
        return spec if any("fsdp" in group for group in _groups(spec)) else None

    return jax.tree_util.tree_map_with_path(one, params)


def collected(params: Any, dtype: Any, *, layers_only: bool = False) -> Any:
    """Parameters that lie over fsdp, whole on each of its devices; others as they are.

    A weight that is read several times then travels once. Its gradient goes back to
    the devices that keep it, in one reduce-scatter. Returns `params` themselves where
    no rules are set or nothing is split over fsdp.

    Args:
      params: their paths may begin anywhere above the part that `PARAM_AXES` names.
      dtype: of what is collected: that of the products that read it, as half as many
        bytes travel and are held in bfloat16.
      layers_only: parameters that are not stacked over layers keep their own dtype.
    """

    def one(key_path, x, spec):
        if spec is None:
            return x
        layered = axes_for(path_of(key_path), x.ndim)[0] == "layers"
        keep_dtype = layers_only and not layered
        return _collect(x, x.dtype if keep_dtype else jnp.dtype(dtype), spec)

    specs = _split_specs(params)
    return jax.tree_util.tree_map_with_path(one, params, specs)


def as_split(params: Any) -> Any:
    """Pins parameters, or their gradients, to the layout of `PARAM_AXES`."""
    return jax.tree.map(
        lambda x, spec: (
            x if spec is None else jax.lax.with_sharding_constraint(x, spec)
        ),
        params,
        _split_specs(params),
    )


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _collect(x: jax.Array, dtype: jnp.dtype, spec: jax.P) -> jax.Array:
    return jax.lax.with_sharding_constraint(x.astype(dtype), _collected_spec(spec))


def _collect_fwd(x, dtype, spec):
    return _collect(x, dtype, spec), jnp.zeros((0,), x.dtype)


def _collect_bwd(dtype, spec, like, grad):
    del dtype
    return (jax.lax.with_sharding_constraint(grad, spec).astype(like.dtype),)


_collect.defvjp(_collect_fwd, _collect_bwd)
