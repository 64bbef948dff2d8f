"""Attention over one sequence as attention of an ETC layer."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from etc_jax import structure as st
from etc_jax.layers.chunked_attention import Sequence
from etc_jax.types import Rows


class FlatAttention(nn.Module):
    """Both inputs of an ETC layer as one sequence, global tokens first.

    Of their structure such attention knows examples and padding alone: no links, no
    segments, no labels, no hard masks. It complements what these let through; the paper
    names LSH in this place as future work (section 5).

    Attributes:
      attention: makes it, given its name; called with (`[b, n, e]`, `Sequence`, kept)
        and giving (the same shape, what it must be given when it is computed anew).
    """

    attention: Callable[[str], nn.Module]

    def __call__(
        self, x: Rows, structure: st.Structure, layer: jax.Array | None = None
    ) -> Rows:
        """`Rows` of `[b, n, e]` and `[b, g, e]` -> the same shapes; see `replayed`."""
        return self.replayed(x, structure, None, layer)[0]

    @nn.compact
    def replayed(
        self,
        x: Rows,
        structure: st.Structure,
        kept: Any,
        layer: jax.Array | None = None,
    ) -> tuple[Rows, Any]:
        """The same, with what decides who sees whom.

        Args:
          x: the layer's input.
          structure: of the batch.
          kept: what an earlier call on the same input gave, or None.
          layer: see `Sequence`.

        Returns:
          (`Rows` of the shapes of `x`, what is to be kept).

        Raises:
          ValueError: if the structure is given as masks.
        """
        if not isinstance(structure, st.Structure):
            raise ValueError(
                "a layer that sees both inputs as one sequence needs a Structure, got "
                f"{type(structure).__name__}; take 'global_local' layers alone"
            )
        count = x.global_.shape[1]
        rows = jnp.concatenate([x.global_, x.long], axis=1)
        ids = [structure.global_example_ids, structure.long_example_ids]
        ids = jnp.concatenate([i.astype(jnp.int32) for i in ids], axis=1)
        y, kept = self.attention("flat")(rows, Sequence(ids, layer=layer), kept)
        return Rows(y[:, count:], y[:, :count]), kept
