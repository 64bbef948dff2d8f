"""Attention of all tokens to all, or to all before them."""

import dataclasses
from typing import Any, ClassVar

import jax
import numpy as np

from etc_jax import sharding
from etc_jax.layers.self_attention import Pattern, Projected, SequenceInputs
from etc_jax.ops.attention import full
from etc_jax.ops.flops import pairs_between, pairs_within


@dataclasses.dataclass(frozen=True)
class Full(Pattern):
    """Tokens see each other (Devlin et al. 2018)."""

    full_attention_length: ClassVar[None] = None
    kernel_problem: ClassVar[None] = None
    # As transformers: what counts sees no padding, but a loss over all places, as of
    # spans there, depends on its rows.
    options: ClassVar[dict[str, bool]] = {"padding_sees": True}

    def attend(
        self, layer, projected: Projected, inputs: SequenceInputs, per_layer=None
    ) -> jax.Array:
        """See `Pattern.attend`."""
        del per_layer
        return full.attend(
            *projected.rows,
            bias=inputs.bias,
            mesh_axes=sharding.mesh_axes(),
            **self.options,
            **layer.options(),
            example_ids=inputs.example_ids,
        )

    def visible_pairs(self, config: Any, inputs: SequenceInputs) -> float:
        """See `Pattern.visible_pairs`."""
        ids = np.asarray(inputs.example_ids)
        return pairs_between(ids, ids)


@dataclasses.dataclass(frozen=True)
class Causal(Full):
    """Tokens see all before them and themselves (a decoder's)."""

    options: ClassVar[dict[str, bool]] = {"causal": True}
    # A cache of all tokens.
    reach: ClassVar[dict[str, Any]] = {}

    def visible_pairs(self, config: Any, inputs: SequenceInputs) -> float:
        """See `Pattern.visible_pairs`."""
        ids = np.asarray(inputs.example_ids)
        index = np.arange(ids.shape[1])
        return pairs_within(ids, 0 * index, index)
