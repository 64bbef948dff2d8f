"""Useful FLOPs of a batch: what model FLOPs utilisation (MFU) is a share of.

Matrix products that the definition of a model asks for, 2 FLOPs a multiplication:
each matrix of parameters times the real tokens that it is applied to, and 2 products
of the head's size a pair of tokens that see each other. Padding, what is computed
again in the backward pass, and keys that are computed only to be masked count
nothing, so that no choice of an implementation changes the metric (Chowdhery et al.
2022, appendix B). The backward pass is twice the forward pass.

Each `Family` has its `Flops`.
"""

from collections.abc import Callable
from typing import Any, Protocol

from etc_jax.base import registry

# Forward and backward pass.
PASSES = 3


class Flops(Protocol):
    """FLOPs of a family's forward pass; the functions are static.

    Attributes:
      body: (config, inputs) -> of the encoder on a batch. Inputs are `SequenceInputs`
        in numpy, or ETC's `Structure`s, one for each input. Those of an encoder-decoder
        are a pair, of what the encoder and what the decoder reads, and both count.
      masked_logits: config -> of the vocabulary's logits of one masked token.
      causal_logits: config -> of the logits of the token after another one; families
        without language models have none.
    """

    body: Callable[[Any, Any], float]
    masked_logits: Callable[[Any], float]
    causal_logits: Callable[[Any], float]


def of_step(
    config: Any, family: str, inputs: Any, *, reads: int = 1, **predicted: float
) -> float | None:
    """Of a training step; None if the family registers nothing.

    Args:
      config: of the model.
      family: its name.
      inputs: of `Flops.body`.
      reads: how often the loss asks for the model's outputs.
      **predicted: tokens whose logits over the vocabulary the loss needs, by
        `masked_logits` or `causal_logits`.
    """
    if family not in registry.names("useful_flops"):
        return None
    flops = registry.lookup("useful_flops", family)
    heads = (n * getattr(flops, name)(config) for name, n in predicted.items())
    return PASSES * reads * (flops.body(config, inputs) + sum(heads))
