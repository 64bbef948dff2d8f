"""Strided attention (Child et al. 2019, section 4.2, of both sides) in a BERT.

A pattern and a family that has it, in one file. `--plugin=strided_attention`, or the
entry point of this package, makes it known: `--config.model.family=strided_bert`.
"""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from etc_jax.base.rules import at_least
from etc_jax.layers.self_attention import Pattern, Projected, SequenceInputs
from etc_jax.models.bert import FAMILY
from etc_jax.models.bert.config import BertConfig
from etc_jax.models.family import register
from etc_jax.ops.attention import full
from etc_jax.ops.attention.parts.softmax import MASKED
from etc_jax.ops.flops import pairs_within


@dataclasses.dataclass(frozen=True)
class Strided(Pattern):
    """A token sees its neighbours, and every `stride`-th token from its own on.

    Attributes:
      radius: neighbours to each side.
      stride: places from one of the others to the next.
    """

    full_attention_length: ClassVar[int] = 1

    radius: int
    stride: int

    def attend(
        self, layer, projected: Projected, inputs: SequenceInputs, per_layer=None
    ) -> jax.Array:
        """See `Pattern.attend`. Pairs never exist at once, but all are computed."""
        del per_layer

        def bias(offset: jax.Array) -> jax.Array:
            seen = (jnp.abs(offset) <= self.radius) | (offset % self.stride == 0)
            return jnp.where(seen, 0.0, MASKED)[None]

        return full.attend(
            *projected.rows,
            bias=bias,
            example_ids=inputs.example_ids,
            **layer.options(),
        )

    def visible_pairs(self, config: Any, inputs: SequenceInputs) -> float:
        """See `Pattern.visible_pairs`."""
        ids = np.asarray(inputs.example_ids)
        index, far = np.arange(ids.shape[1]), ids.shape[1]
        near = pairs_within(ids, index - self.radius, index + self.radius)
        of_stride = pairs_within(ids, index - far, index + far, self.stride)
        reach = self.radius // self.stride * self.stride
        both = pairs_within(ids, index - reach, index + reach, self.stride)
        return near + of_stride - both


@dataclasses.dataclass(frozen=True)
class StridedBertConfig(BertConfig):
    """A BERT with strided attention; fields as of `Strided`."""

    max_length: int = 4096
    radius: int = 64
    stride: int = 64

    @property
    def patterns(self) -> tuple[Strided]:
        return (Strided(self.radius, self.stride),)

    def problems(self):
        yield from super().problems()
        yield from at_least(0).problems(self, "radius")
        yield from at_least(1).problems(self, "stride")


register(
    "strided_bert",
    FAMILY._replace(
        config=StridedBertConfig,
        sizes=None,
        exchange=None,
    ),
)
