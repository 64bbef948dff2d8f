"""A causal Longformer as a language model (Beltagy et al. 2020, section 4)."""

import jax
from flax import linen as nn

from etc_jax.layers.common import Dense
from etc_jax.models.family import make_body
from etc_jax.models.longformer.config import LongformerConfig
from etc_jax.ops.chunked_loss import FactoredLogits


class EncoderForCausalLm(nn.Module):
    """The encoder with logits of the token after each.

    Windows may grow from one stage of training to the next: no parameter depends on
    them, nor on the length unless positions are learnt.

    Attributes:
      config: of the encoder, causal.
      deterministic: no dropout.
    """

    config: LongformerConfig
    deterministic: bool = True

    def setup(self):
        c = self.config
        if not c.causal:
            raise ValueError(
                "LongformerConfig: causal is False, so that tokens see those after "
                "them, which a language model predicts; set model.causal=True"
            )
        self.encoder = make_body(c, self.deterministic)
        sizes = (c.vocab_size,), c.initializer_range, c.compute_dtype
        # A matrix of its own, not the token table.
        self.logits = Dense(*sizes, wide=True)

    def __call__(self, tokens, example_ids=None, **inputs) -> jax.Array:
        """float32 logits `[b, n, vocabulary]`; arguments as of `Encoder`."""
        x = self.encoder(tokens, example_ids, **inputs)
        # [b, n, e] -> float32 [b, n, vocabulary]
        return self.logits(x)

    def losses(self, tokens, targets, example_ids=None):
        """Cross entropy of each target, of `logits_chunk_length` tokens at once.

        Args:
          tokens: int `[b, n]`.
          targets: int `[b, n]`, what follows each token.
          example_ids: see `Encoder`.

        Returns:
          (float32 `[b, n]` in nats, bool `[b, n]`: whether a target is the likeliest).
        """
        return self.factored_logits(tokens, example_ids).cross_entropy(targets)

    def factored_logits(self, tokens, example_ids=None) -> FactoredLogits:
        """The logits of `__call__`, not yet computed; arguments as of `losses`."""
        x = self.encoder(tokens, example_ids)
        # The parameters, not the module: logits exist inside the loss alone, in chunks.
        head = self.logits.variables["params"]
        size = self.config.logits_chunk_length
        return FactoredLogits(x, head["kernel"], head["bias"], size)
