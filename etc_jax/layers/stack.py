"""Layers on top of each other: scanned or unrolled, with a named remat policy."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from etc_jax.sharding.weight_gathering import collected

# What a layer keeps for its backward pass; everything else is computed again.
REMAT_POLICIES: dict[str, Callable | None] = {
    "none": None,
    # Nothing but what goes from layer to layer.
    "full": jax.checkpoint_policies.nothing_saveable,
    # Products with weights; those of queries and keys have batch axes and are not kept.
    "dots": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
    # Output and log-sum-exp of attention, which its own backward pass needs beside
    # queries, keys and values.
    "attention": jax.checkpoint_policies.save_only_these_names("attention"),
}


def run_of(kinds: Sequence[Any], num_layers: int) -> tuple[Any, ...]:
    """The layers of one step of a scan, where kinds of layers follow each other.

    That is the kinds themselves where they divide the layers. Otherwise a last run of
    them is cut short, and one step has all layers.

    Args:
      kinds: of the first layers; they come again in the same order.
      num_layers: how many layers there are.
    """
    rest = num_layers % len(kinds)
    if not rest:
        return tuple(kinds)
    return (*(num_layers // len(kinds) * tuple(kinds)), *kinds[:rest])


class Several(NamedTuple):
    """Inputs that go through the layers side by side, each with its own `shared`.

    Each weight is read once for all of them and, where it is split over devices,
    collected once.

    Attributes:
      inputs: one a batch; their shapes may differ.
    """

    inputs: tuple[Any, ...]


def _applied(layer: nn.Module, carry, shared, per_layer: tuple):
    """What `layer(carry, shared, *per_layer)` gives, of each of several inputs."""
    if not isinstance(carry, Several):
        return layer(carry, shared, *per_layer)[0]
    pairs = zip(carry.inputs, shared.inputs, strict=True)
    return Several(tuple(layer(x, s, *per_layer)[0] for x, s in pairs))


class Period(nn.Module):
    """Layers of different kinds, one after the other.

    Attributes:
      layers: make them, of different names.
    """

    layers: Sequence[Callable[[], nn.Module]]

    @nn.compact
    def __call__(self, carry, shared, per_layer=None):
        """Applies the layers; see `Stack`, with `[layers, ...]` for `per_layer`."""
        for i, make in enumerate(self.layers):
            # A scan has one body: layers that differ, as in windows, share one.
            carry, _ = make()(carry, shared, *_of_layer(per_layer, i))
        return carry, None


def _of_layer(per_layer, i: int) -> tuple:
    """The last argument of layer `i`, if its layers have one."""
    return () if per_layer is None else (jax.tree.map(lambda x: x[i], per_layer),)


class _Step(nn.Module):
    """The scan body: a layer as (carry, inputs) -> (carry, nothing)."""

    make_layer: Callable[[], nn.Module]

    @nn.compact
    def __call__(self, carry, shared, per_layer=None):
        per_layer = () if per_layer is None else (per_layer,)
        return _applied(self.make_layer(), carry, shared, per_layer), None


class Stack(nn.Module):
    """`num_layers` equal layers.

    Scanned layers are compiled once and keep their parameters under "layers", stacked
    on a leading axis; unrolled ones under "layers_0", "layers_1", ....

    Attributes:
      make_layer: makes one layer, named "layer", called with (carry, shared) and, if
        there is something per layer, with that; it gives (carry, state).
      num_layers: how many.
      scan: scanned or unrolled.
      remat_policy: a name of `REMAT_POLICIES`.
      dtype: of the products of the layers. For `Several` inputs, weights that lie over
        fsdp are collected in it, layer by layer, and again in the backward pass; with
        the policy "none" they are kept for it, as everything is.
    """

    make_layer: Callable[[], nn.Module]
    num_layers: int
    scan: bool = True
    remat_policy: str = "none"
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, carry, shared, per_layer=None):
        """Applies the layers.

        Args:
          carry: what the first one is given; may be `Several`.
          shared: what is handed to each of them unchanged; `Several` where `carry` is.
          per_layer: None, or arrays `[num_layers, ...]`: each layer is given its part.
        """
        step = _Step
        if isinstance(carry, Several) and not self.is_initializing():
            # A single input leaves this to the partitioner, which hides the travel in
            # the products on TPUs.
            step = nn.map_variables(
                _Step, "params", lambda params: collected(params, self.dtype)
            )
        if self.remat_policy != "none":
            step = nn.remat(
                step,
                policy=REMAT_POLICIES[self.remat_policy],
                # Inside a scan the loop itself keeps the two computations apart.
                prevent_cse=not self.scan,
            )
        if not self.scan:
            for i in range(self.num_layers):
                layer = step(self.make_layer, name=f"layers_{i}")
                carry, _ = layer(carry, shared, *_of_layer(per_layer, i))
            return carry
        per_layer = () if per_layer is None else (per_layer,)
        scanned = nn.scan(
            step,
            # Parameters, and what layers sow, with a leading axis of layers.
            variable_axes={"params": 0, "intermediates": 0},
            # Each layer is initialised, dropped and hashed by keys of its own.
            split_rngs={"params": True, "dropout": True, "lsh": True},
            # `shared` whole, `per_layer` [layers, ...] a layer at a time.
            in_axes=(nn.broadcast, *(0 for _ in per_layer)),
            length=self.num_layers,
            # Else flax traces the layer once more, to check broadcast variables, of
            # which there are none.
            check_constancy_invariants=False,
        )
        carry, _ = scanned(self.make_layer, name="layers")(carry, shared, *per_layer)
        return carry


def stack_layers(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of an unrolled stack -> those of a scanned one."""
    count = sum(name.startswith("layers_") for name in params)
    layers = [params[f"layers_{i}"] for i in range(count)]
    rest = {k: v for k, v in params.items() if not k.startswith("layers_")}
    # [...] of each layer -> [layers, ...]
    return {**rest, "layers": jax.tree.map(lambda *x: jnp.stack(x), *layers)}


def unstack_layers(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of a scanned stack -> those of an unrolled one."""
    stacked = params["layers"]
    count = jax.tree.leaves(stacked)[0].shape[0]
    rest = {k: v for k, v in params.items() if k != "layers"}
    layers = {
        f"layers_{i}": jax.tree.map(lambda x, i=i: x[i], stacked) for i in range(count)
    }
    return {**rest, **layers}
