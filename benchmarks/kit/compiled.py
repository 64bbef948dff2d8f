"""Functions in JAX that are compiled before they are timed, and what they are given."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from etc_jax.training.preflight import device_memory
from etc_jax.training.preflight.device_memory import Memory


@dataclasses.dataclass(frozen=True)
class Compiled:
    """A compiled function and its arguments.

    Attributes:
      memory: of a call, as XLA plans it.
      arrays: named arrays of what `run` gives, see `harness.Side`.
    """

    call: Callable
    args: tuple
    memory: Memory
    arrays: Callable[[Any], Mapping[str, np.ndarray]]

    @classmethod
    def make(cls, fn: Callable, *args, arrays: Callable = lambda _: {}) -> "Compiled":
        args = jax.block_until_ready(jax.tree.map(jnp.asarray, args))
        call = jax.jit(fn).lower(*args).compile()
        memory = device_memory.of(call)
        if memory is None:
            raise RuntimeError(
                f"the backend {jax.default_backend()!r} does not tell the memory of a "
                "compiled program; run on another, such as cpu"
            )
        return cls(call, args, memory, arrays)

    def run(self):
        """One call, waited for."""
        return jax.block_until_ready(self.call(*self.args))

    @property
    def temp_bytes(self) -> int:
        """Of what lies between arguments and outputs."""
        return self.memory.temporaries

    @property
    def peak_bytes(self) -> int:
        """Of that and of what comes out."""
        return self.memory.temporaries + self.memory.outputs

    @property
    def more(self) -> dict[str, int]:
        """What `memory.measure` says beside the peak."""
        return {"xla_temp_bytes": self.temp_bytes}


def with_gradient(forward: Callable) -> Callable:
    """`(output, (weights' gradient, inputs' gradient))` of the sum of squares."""

    def loss(weights, streams, *rest):
        output = forward(weights, streams, *rest)
        leaves = [x.astype(jnp.float32) for x in jax.tree.leaves(output)]
        total = sum(jnp.sum(jnp.square(x)) for x in leaves)
        return total, output

    def run(*args):
        (_, output), gradients = jax.value_and_grad(loss, (0, 1), has_aux=True)(*args)
        return output, gradients

    return run


def random_params(abstract: Any, seed: int = 0) -> Any:
    """Numpy arrays of such shapes: normal numbers, scales of norms around 1."""
    rng = np.random.default_rng(seed)

    def draw(path, x):
        drawn = 0.02 * rng.standard_normal(x.shape, np.float32)
        return drawn + (path[-1].key == "scale")

    return jax.tree_util.tree_map_with_path(draw, abstract)
