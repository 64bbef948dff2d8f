"""Patterns of one sequence in the layers of an ETC."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from etc_jax import structure as st
from etc_jax.base.types import Rows
from etc_jax.layers.self_attention import Pattern, SequenceInputs


@dataclasses.dataclass(frozen=True)
class Flat(Pattern):
    """Both inputs of an ETC layer as one sequence; see `FlatAttention`.

    Attributes:
      pattern: what its tokens see.
    """

    full_attention_length: ClassVar[int] = 1

    pattern: Pattern

    @property
    def packing_problem(self) -> str | None:
        """See `Pattern`."""
        return self.pattern.packing_problem

    def module(self, *, name: str, **options: Any) -> nn.Module:
        """See `Pattern.module`; its maps have no bias, as those of trax."""
        options |= {"projection_bias": False, "out_bias": False}
        return FlatAttention(
            lambda name: self.pattern.module(name=name, **options), name=name
        )

    def draw(
        self, length: int, num_layers: int, num_heads: int, deterministic: bool
    ) -> np.ndarray:
        """See `Pattern.draw`: the number of each layer.

        LSH draws rotations by it in evaluation, where there are no streams of keys.
        """
        del length, num_heads, deterministic
        return np.arange(num_layers, dtype=np.int32)

    def flops(self, config: Any, inputs: st.Structure) -> float:
        """See `Pattern.flops`."""
        ids = inputs.global_example_ids, inputs.long_example_ids
        flat = np.concatenate([np.asarray(x) for x in ids], axis=1)
        return self.pattern.flops(config, SequenceInputs(flat))


class FlatAttention(nn.Module):
    """Both inputs of an ETC layer as one sequence, global tokens first.

    Of their structure such attention knows examples and padding alone: no links, no
    segments, no labels, no hard masks. It complements what these let through; the paper
    names LSH in this place as future work (section 5).

    Attributes:
      attention: makes it, given its name; see `block.Branches`.
    """

    attention: Callable[[str], nn.Module]

    @nn.compact
    def __call__(
        self,
        x: Rows,
        structure: st.Structure,
        layer: jax.Array | None = None,
        state: Any = None,
    ) -> tuple[Rows, Any]:
        """`Rows` of `[b, n, e]` and `[b, g, e]` -> (the same shapes, state).

        Args:
          x: the layer's input.
          structure: of the batch.
          layer: its number, see `Flat.draw`.
          state: what an earlier call on the same input gave, or None.

        Raises:
          ValueError: if the structure is given as masks.
        """
        if not isinstance(structure, st.Structure):
            raise ValueError(
                "a layer that sees both inputs as one sequence needs a Structure, got "
                f"{type(structure).__name__}; take 'global_local' layers alone"
            )
        count = x.global_.shape[1]
        # [b, g, e], [b, n, e] -> [b, g + n, e]
        rows = jnp.concatenate([x.global_, x.long], axis=1)
        ids = [structure.global_example_ids, structure.long_example_ids]
        # [b, g + n]; 0 is padding in both.
        ids = jnp.concatenate([i.astype(jnp.int32) for i in ids], axis=1)
        flat = self.attention("flat")
        y, state = flat(rows, SequenceInputs(ids), layer, state)
        # [b, g + n, e] -> [b, n, e], [b, g, e]
        return Rows(y[:, count:], y[:, :count]), state
