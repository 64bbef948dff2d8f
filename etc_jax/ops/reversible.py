"""Reversible residual stacks (Gomez et al. 2017; Kitaev et al. 2020, section 3).

Two streams, x1 and x2, and layers of halves, each of which adds to the stream that it
does not read, and then they change places:

    x1, x2 = x2, x1 + half(x2)

A layer of two halves, f and g, is y1 = x1 + f(x2), y2 = x2 + g(y1) of the papers.

The inputs of a half follow from its outputs, so that the backward pass needs the last
ones alone, and memory does not grow with depth. Each half is computed three times: in
the forward pass, and in the backward pass once more with its gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# (params, x, rng, shared, state) -> (y, state): a stream of arrays to one of the same
# shapes, and integers that it must find again when it is computed anew, such as buckets
# that a rounding error might change. `state` is None at first; then it is given back.
Half = Callable[[Any, Any, jax.Array, Any, Any], tuple[Any, Any]]


def _add(x: Any, y: Any) -> Any:
    return jax.tree.map(lambda a, b: a + b.astype(a.dtype), x, y)


def _subtract(x: Any, y: Any) -> Any:
    return jax.tree.map(lambda a, b: a - b.astype(a.dtype), x, y)


def layer(halves: Sequence[Half], params, rngs, shared, x1, x2, saved=None):
    """One layer, by plain arithmetic.

    Args:
      halves: one after the other.
      params: of each half.
      rngs: key of each half.
      shared: arrays that every half reads beside its stream.
      x1: a stream: arrays, which are float.
      x2: of the same shapes; what the first half reads.
      saved: of each half, or None for each; None: for all.

    Returns:
      (y1, y2, the state of each half).
    """
    states = []
    for i, half in enumerate(halves):
        before = None if saved is None else saved[i]
        change, after = half(params[i], x2, rngs[i], shared, before)
        x1, x2 = x2, _add(x1, change)
        states.append(after)
    return x1, x2, tuple(states)


def _floats(shared) -> list:
    """The leaves that gradients flow to."""
    return [x for x in jax.tree.leaves(shared) if jnp.issubdtype(x.dtype, jnp.inexact)]


def _with_floats(shared, floats, other=lambda x: x):
    """`shared` with other floats; its other leaves, such as integers, as `other`s."""
    floats = iter(floats)

    def leaf(x):
        return next(floats) if jnp.issubdtype(x.dtype, jnp.inexact) else other(x)

    return jax.tree.map(leaf, shared)


def _no_gradient(x) -> np.ndarray:
    """What stands for the gradient of integers, bools and keys."""
    return np.zeros(x.shape, jax.dtypes.float0)


def _undo(halves, params, rngs, shared, saved, outputs, gradients):
    """A layer backward, from its outputs.

    Returns:
      (inputs, their gradients, gradients of params, gradients of the floats of `shared`
      by each half).
    """
    (y1, y2), (d1, d2) = outputs, gradients
    floats = _floats(shared)

    def again(i):
        """Half i, as a function of params, stream and what is shared, replayed."""

        def half(params, x, floats):
            inputs = _with_floats(shared, floats)
            return halves[i](params, x, rngs[i], inputs, saved[i])[0]

        return half

    d_params, d_floats = [], []
    for i in reversed(range(len(halves))):
        # y1 was read, and y2 = x1 + half(y1): one vjp gives half(y1) anew, to subtract,
        # and its gradients. A cotangent has the dtype of what the half gave, not that
        # of the stream.
        change, back = jax.vjp(again(i), params[i], y1, floats)
        of_params, extra, of_floats = back(_like(d2, change))
        y1, y2 = _subtract(y2, change), y1
        # y1 is an output too.
        d1, d2 = d2, _add(d1, extra)
        d_params.insert(0, of_params)
        d_floats.append(of_floats)
    return (y1, y2), (d1, d2), tuple(d_params), d_floats


def _like(x: Any, y: Any) -> Any:
    return jax.tree.map(lambda a, b: a.astype(b.dtype), x, y)


def layers_apart(layers, params, rngs, shared, x1, x2):
    """The stack by plain arithmetic, with what is in between.

    Args:
      layers: see `stack`.
      params: see `stack`.
      rngs: see `stack`.
      shared: see `stack`.
      x1: see `stack`.
      x2: see `stack`.

    Returns:
      (y1, y2), the second stream after each layer and the states of its halves: for
      each layer of a repeat, with a leading axis of repeats.
    """

    def body(streams, inputs):
        params, rngs = inputs
        hidden, saved = [], []
        for i, halves in enumerate(layers):
            *streams, states = layer(halves, params[i], rngs[i], shared, *streams)
            hidden.append(streams[1])
            saved.append(states)
        return tuple(streams), (tuple(hidden), tuple(saved))

    # Over repeats; leaves of hidden and saved get a leading axis of repeats.
    outputs, (hidden, saved) = jax.lax.scan(body, (x1, x2), (params, rngs))
    return outputs, hidden, saved


def plain_stack(layers, params, rngs, shared, x1, x2):
    """`stack`, but all activations are kept for the backward pass."""
    return layers_apart(layers, params, rngs, shared, x1, x2)[0]


def stack(layers: Sequence[Sequence[Half]], params, rngs, shared, x1, x2):
    """Repeats of some layers, of which the backward pass keeps the outputs alone.

    Args:
      layers: halves of each layer of a repeat; functions, not arrays in disguise: what
        they read beside their arguments must not be traced, and jax refuses to
        differentiate by it.
      params: for each layer those of its halves, with a leading axis of repeats.
      rngs: keys for each layer, with a leading axis of repeats.
      shared: see `layer`; its gradient is summed over all halves.
      x1: the first stream; its dtype is that of the sums, whatever the halves compute
        in. In bfloat16 the inputs found again are not those that were given.
      x2: the second.

    Returns:
      (y1, y2).
    """
    params, rngs = (tuple(map(tuple, x)) for x in (params, rngs))
    shared = jax.tree.map(jnp.asarray, shared)
    return _stack_function(layers)(params, rngs, shared, x1, x2)


def _stack_function(layers):
    @jax.custom_vjp
    def run(params, rngs, shared, x1, x2):
        return plain_stack(layers, params, rngs, shared, x1, x2)

    def forward(params, rngs, shared, x1, x2):
        outputs, _, states = layers_apart(layers, params, rngs, shared, x1, x2)
        # Of activations the last outputs alone; `states` is integers.
        return outputs, (params, rngs, shared, outputs, states)

    def backward(saved, gradients):
        params, rngs, shared, outputs, states = saved

        floats = _floats(shared)

        def body(carry, inputs):
            outputs, gradients, d_floats = carry
            params, rngs, states = inputs
            d_layers = []
            # The last layer first: its inputs are the outputs of the one before.
            for i in reversed(range(len(layers))):
                outputs, gradients, of_params, by_half = _undo(
                    layers[i], params[i], rngs[i], shared, states[i], outputs, gradients
                )
                d_layers.insert(0, of_params)
                for more in by_half:
                    d_floats = _add(d_floats, more)
            return (outputs, gradients, d_floats), tuple(d_layers)

        # Sums over all layers have the digits of float32 at least.
        zeros = [
            jnp.zeros(x.shape, jnp.promote_types(x.dtype, jnp.float32)) for x in floats
        ]
        (_, gradients, d_floats), d_params = jax.lax.scan(
            body, (outputs, gradients, zeros), (params, rngs, states), reverse=True
        )
        d_shared = _with_floats(shared, _like(d_floats, floats), _no_gradient)
        # In the order of the arguments; keys have float0, as all that is not a float.
        return d_params, jax.tree.map(_no_gradient, rngs), d_shared, *gradients

    run.defvjp(forward, backward)
    return run
