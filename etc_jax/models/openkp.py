"""ETC for OpenKP: what elements look like, and logits of all runs of words."""

import jax
import jax.numpy as jnp
from flax import linen as nn

from etc_jax.base.types import Rows
from etc_jax.layers.common import ACTIVATIONS, Dense, Embed, truncated_normal
from etc_jax.models.etc.body import NOTHING, Etc
from etc_jax.models.etc.config import EtcConfig
from etc_jax.models.ngram_head import NgramHead
from etc_jax.ops.visual import (
    NUM_CROSSES,
    NUM_FONTS,
    Visual,
    crosses,
    dense_features,
)
from etc_jax.structure import Structure

_gelu = ACTIVATIONS["gelu"]


class VisualEmbedding(nn.Module):
    """The look of elements as vectors to be added to embeddings (paper, appendix C).

    Attributes:
      config: of the encoder.
    """

    config: EtcConfig

    @nn.compact
    def __call__(self, visual: Visual) -> jax.Array:
        """`Visual` of `[b, g]` -> `[b, g, e]`."""
        c = self.config

        def table(rows: int, name: str) -> Embed:
            init = truncated_normal(c.initializer_range)
            width, dtype = c.embed_dim, c.compute_dtype
            return Embed(rows, width, embedding_init=init, dtype=dtype, name=name)

        def dense(name: str) -> Dense:
            stddev, dtype = c.initializer_range, c.compute_dtype
            return Dense((c.embed_dim,), stddev, dtype, name=name)

        # [b, g, 13] -> [b, g, e]
        looks = _gelu(dense("looks_in")(dense_features(visual)))
        return (
            # Each table: [b, g] -> [b, g, e]
            table(NUM_CROSSES, "flag_embedder")(crosses(visual.flags))
            + table(NUM_FONTS, "font_embedder")(visual.font.astype(jnp.int32))
            + table(NUM_FONTS, "parent_font_embedder")(
                visual.parent_font.astype(jnp.int32)
            )
            + _gelu(dense("looks_out")(looks))
        )


def visual_adders(of_elements: jax.Array, links: jax.Array) -> Rows:
    """Vectors of elements, for their global tokens and for their words.

    Args:
      of_elements: `[b, g, e]`.
      links: int `[b, n]`, the element that a long token is in; -1 for none.

    Returns:
      `Rows` of `[b, n, e]`, zeros for tokens in no element, and `[b, g, e]`.
    """
    # [b, n] -> [b, n, 1]
    index = jnp.maximum(links, 0).astype(jnp.int32)[..., None]
    # [b, g, e] at [b, n, 1] -> [b, n, e]
    long = jnp.take_along_axis(of_elements, index, axis=1)
    return Rows(jnp.where(links[..., None] >= 0, long, 0), of_elements)


class EtcForKeyphrases(nn.Module):
    """Encoder, look of elements and head: `encoder`, `visual`, `head`.

    Attributes:
      config: of the encoder.
      deterministic: no dropout.
      with_visual: whether the look of elements is seen (ablation of paper, table 4).
    """

    config: EtcConfig
    deterministic: bool = True
    with_visual: bool = True

    @nn.compact
    def __call__(
        self,
        tokens: Rows,
        structure: Structure,
        types: Rows,
        words: jax.Array,
        visual: Visual,
    ) -> jax.Array:
        """Logits of runs of words.

        Args:
          tokens: ids, `[b, n]` and `[b, g]`.
          structure: of which the first column of `links` has the element of each long
            token.
          types: token types, `[b, n]` and `[b, g]`.
          words: int `[b, n]`; see `NgramHead`.
          visual: what the elements look like, `[b, g]`.

        Returns:
          float32 `[b, 5, n]`; see `NgramHead`.
        """
        adders = NOTHING
        if self.with_visual:
            looks = VisualEmbedding(self.config, name="visual")(visual)
            adders = visual_adders(looks, structure.links[..., 0])
        encoder = Etc(self.config, self.deterministic, name="encoder")
        # [b, n], [b, g] -> [b, n, e], [b, g, e]
        x = encoder(*tokens, structure, types=types, adders=adders)
        # Words are of the long input: [b, n, e] -> [b, 5, n]
        return NgramHead(self.config, name="head")(x.long, words)
