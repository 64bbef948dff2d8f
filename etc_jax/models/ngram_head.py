"""The head of OpenKP: logits of all runs of words, from the rows of their pieces."""

import jax
import jax.numpy as jnp
from flax import linen as nn

from etc_jax.layers.common import ACTIVATIONS, LayerNorm, truncated_normal
from etc_jax.models.encoder.config import EncoderConfig
from etc_jax.models.etc.config import EtcConfig
from etc_jax.ops import ngrams

_gelu = ACTIVATIONS["gelu"]


class NgramHead(nn.Module):
    """A logit for every run of one to five words (paper, appendix C).

    The pieces of a word are summed, and a convolution as wide as the run looks at its
    words. Runs may reach over the border of an element, as in the official code.

    Attributes:
      config: of the encoder.
    """

    config: EtcConfig | EncoderConfig

    @nn.compact
    def __call__(self, x: jax.Array, words: jax.Array) -> jax.Array:
        """Logits of all runs.

        Args:
          x: `[b, n, e]`, the encoder's output: of ETC, that of the long tokens.
          words: int `[b, n]`, the word that each token is a piece of, in ascending
            order; -1 for special tokens and padding. The largest is the last word.

        Returns:
          float32 `[b, 5, n]`: [_, k - 1, i] is that of words i to i + k - 1; -10000
          for runs that reach beyond the last word.
        """
        # [b, n, e], a row for each token -> [b, n, e], a row for each word.
        x = self._norm("word_norm")(ngrams.sum_words(x, words))
        lengths = range(1, ngrams.MAX_WORDS + 1)
        # 5 times [b, n] -> [b, 5, n]
        logits = jnp.stack([self._logits(x, k) for k in lengths], axis=1)
        # bool [b, 5, n]
        mask = ngrams.ngram_mask(ngrams.num_words(words), x.shape[1])
        return jnp.where(mask, logits, ngrams.NO_NGRAM)

    def _norm(self, name: str) -> LayerNorm:
        c = self.config
        return LayerNorm(c.layer_norm_epsilon, c.compute_dtype, name=name)

    def _logits(self, x: jax.Array, k: int) -> jax.Array:
        """float32 `[b, n]` of the runs of k words."""
        c = self.config
        # [b, n, e] -> [b, n, e]: row i is of words i to i + k - 1.
        y = nn.Conv(
            c.embed_dim,
            (k,),
            # Zeros stand after the last word, where no run is read.
            padding=[(0, k - 1)],
            kernel_init=truncated_normal(c.initializer_range / k**0.5),
            dtype=c.compute_dtype,
            name=f"ngram_{k}",
        )(x)
        # Activation before the norm: it belongs to the official convolution.
        y = self._norm(f"ngram_{k}_norm")(_gelu(y))
        # [b, n, e] -> [b, n, 1] -> [b, n]
        return nn.Dense(
            1,
            use_bias=False,
            kernel_init=truncated_normal(c.initializer_range),
            dtype=jnp.float32,
            name=f"ngram_{k}_logit",
        )(y)[..., 0]
