"""R3F: predictions that small changes of the input leave alone.

Aghajanyan et al. 2021, "Better fine-tuning by reducing representational collapse": a
batch is read twice, the second time with noise on its rows of tokens
(`layers.token_noise`), and the loss gains

    weight * (KL(p || q) + KL(q || p))

with p and q the distributions that the two passes give. Both passes are those of
training and both have gradients, as in the paper's code; dropout and hashing are drawn
anew for the second one. With dropout, most of the divergence is due to that.
An evaluation has no second pass. With `train.accumulation_steps` the noise of each
microbatch is drawn by itself; the mean is over the whole batch all the same.

Here a divergence counts as the cross entropy of the same distribution does in the loss:
the term is a mean over the same examples, or over the same target tokens. For texts the
paper's code differs: to a mean over target tokens it adds the divergences of all tokens
of a row, as a mean over rows. Of targets of m tokens its weight of
0.01 is 0.01 * m here. Answers of several parts, such as a type and a span, are no part
of the paper.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple

import jax
import jax.numpy as jnp

from etc_jax.config.sections import R3fConfig
from etc_jax.layers import token_noise
from etc_jax.ops import divergence
from etc_jax.training.job import MEAN_LOSS, Sums

# What the key of the second pass is folded with. With 0 or 1 it would be one of those
# that the first pass splits it into.
_SECOND = 2
TERM = "r3f"


class Choice(NamedTuple):
    """Distributions that outputs are the logits of, `[b, ...]` of them.

    Attributes:
      logits: `[b, ..., c]` of one among c; `[b, ...]` of yes, if `binary`.
      weights: `[b, ...]`, or one number for all: what the cross entropy of each is
        multiplied with in the loss of its example.
      binary: each is between yes and no.
    """

    logits: jax.Array
    weights: jax.Array | float = 1.0
    binary: bool = False

    def divergence(self, other: Choice) -> jax.Array:
        """Of each example, float32 `[b]`, in nats; the weights are those of `self`."""
        of = divergence.of_sigmoid if self.binary else divergence.of_softmax
        apart = of(self.logits, other.logits) * self.weights
        return jnp.sum(apart, axis=range(1, apart.ndim))


def second_pass(
    options: R3fConfig, rng: jax.Array
) -> tuple[jax.Array, Callable[[], AbstractContextManager[None]]]:
    """(scalar key of the second pass, what makes the context that it reads in)."""
    noise = functools.partial(token_noise.added, options.noise, options.kind)
    return jax.random.fold_in(rng, _SECOND), noise


def divergences(clean: Iterable[Choice], noisy: Iterable[Choice]) -> jax.Array:
    """Of each example, float32 `[b]`: all its distributions together."""
    return sum(p.divergence(q) for p, q in zip(clean, noisy, strict=True))


def loss_weights(options: R3fConfig) -> Mapping[str, float]:
    """`Job.loss_weights` of a loss that may have the term."""
    return {**MEAN_LOSS, TERM: options.weight} if options.weight else MEAN_LOSS


def term(apart: jax.Array, weights: jax.Array) -> Sums:
    """{"r3f": (sum of divergences in nats, weight)}.

    Args:
      apart: divergences, of examples or of tokens.
      weights: of the same shape, what they count in the mean: as in the loss.
    """
    return {TERM: (jnp.sum(apart * weights), jnp.sum(weights))}
