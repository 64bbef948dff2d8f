"""Attention over one sequence as attention of an ETC layer."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from etc_jax import structure as st
from etc_jax.base.types import Rows
from etc_jax.layers.chunked_attention import Sequence


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
          layer: see `Sequence`.
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
        y, state = flat(rows, Sequence(ids, layer=layer), None, state)
        # [b, g + n, e] -> [b, n, e], [b, g, e]
        return Rows(y[:, count:], y[:, :count]), state
