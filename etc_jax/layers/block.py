"""The transformer block: attention, cross-attention if there is one, feed-forward.

Each is a branch with a norm, dropout and a residual. A block works on one stream of
rows, or on several (`Rows` of ETC), whose norms are their own or shared, by names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from flax import linen as nn

from etc_jax.layers.dropout import Dropout
from etc_jax.sharding import constrain


def one_stream(x: jax.Array) -> jax.Array:
    """`[b, n, e]`, laid out over devices as batch and sequence are."""
    return constrain(x, "batch", "length", "activation_embed")


class Branches(nn.Module):
    """What a block, or a half of a reversible one, is made of.

    Every attention is called as (rows, shared, per_layer, state) and gives (rows,
    state): `shared` is what all layers are given of a batch, `per_layer` what this
    layer alone is given (random blocks, its number) and `state` what an earlier call
    gave (buckets of the same input; a cache). A branch over several streams takes
    them as one pytree.

    Attributes:
      attention: makes it, given its name.
      mlp: makes a feed-forward function of one stream, given its name.
      norm: makes a norm of one stream, given its name.
      dropout_rate: of each branch.
      cross_attention: makes attention to what another sequence became, given its name;
        None: there is none. It finds that in `shared`.
      attention_norm, cross_attention_norm, mlp_norm, mlp_name: names, one for each
        stream; of one name there is one module.
      laid_out: the streams with their layout over devices.
    """

    attention: Callable[[str], nn.Module]
    mlp: Callable[[str], Callable[[jax.Array], jax.Array]]
    norm: Callable[[str], nn.Module]
    dropout_rate: float = 0.0
    cross_attention: Callable[[str], nn.Module] | None = None
    attention_norm: Any = "attention_norm"
    cross_attention_norm: Any = "cross_attention_norm"
    mlp_norm: Any = "mlp_norm"
    mlp_name: Any = "mlp"
    laid_out: Callable[[Any], Any] = one_stream
    deterministic: bool = True

    def of_streams(
        self, make: Callable[[str], Any], names: Any
    ) -> Callable[[Any], Any]:
        """A function of all streams from a maker of functions of one."""
        flat = jax.tree.leaves(names)
        # A name that serves several streams is made once: they share its parameters.
        modules = {name: make(name) for name in dict.fromkeys(flat)}
        return lambda x: jax.tree.map(lambda name, a: modules[name](a), names, x)

    def dropped(self, y: Any) -> Any:
        """With dropout, drawn for each stream apart."""

        def drop(a):
            dropout = Dropout(self.dropout_rate)
            return dropout(a, deterministic=self.deterministic)

        return jax.tree.map(drop, y)


class Block(Branches):
    """norm(x + f(x)) (Vaswani et al. 2017), or x + f(norm(x)), of each branch f.

    What comes out is sown into `intermediates` as "output", where that is collected.

    Attributes:
      pre_norm: the second.
    """

    pre_norm: bool = False

    @nn.compact
    def __call__(self, x: Any, shared: Any, per_layer: Any = None, state: Any = None):
        """(streams `[b, n, e]`, see `Branches`) -> (the same shapes, state)."""

        def residual(x, norm, branch):
            # Post-norm is BERT's order and the official default of ETC; in pre-norm the
            # residual stream itself is never normalised.
            y, state = branch(norm(x) if self.pre_norm else x)
            # [b, n, e] + [b, n, e], stream by stream.
            x = jax.tree.map(lambda a, b: a + b, x, self.dropped(y))
            return self.laid_out(x if self.pre_norm else norm(x)), state

        x = self.laid_out(x)
        norm = self.of_streams(self.norm, self.attention_norm)
        attention = self.attention("attention")
        x, state = residual(x, norm, lambda y: attention(y, shared, per_layer, state))
        if self.cross_attention is not None:
            norm = self.of_streams(self.norm, self.cross_attention_norm)
            cross = self.cross_attention("cross_attention")
            # Keys are another sequence's: nothing per layer, no state.
            x, _ = residual(x, norm, lambda y: cross(y, shared))
        norm = self.of_streams(self.norm, self.mlp_norm)
        mlp = self.of_streams(self.mlp, self.mlp_name)
        x, _ = residual(x, norm, lambda y: (mlp(y), None))
        self.sow("intermediates", "output", x)
        return x, state


class AttentionHalf(Branches):
    """A half of a reversible layer: attention of the norm.

    As in the other halves, the residual is the stack's: it adds what this gives to the
    stream that this does not read.
    """

    @nn.compact
    def __call__(self, x: Any, shared: Any, state: Any = None):
        """(streams, shared, state) -> (streams, state)."""
        norm = self.of_streams(self.norm, self.attention_norm)
        attention = self.attention("attention")
        y, state = attention(self.laid_out(norm(x)), shared, None, state)
        return self.dropped(y), state


class CrossAttentionHalf(Branches):
    """A half of a reversible layer: cross-attention of the norm."""

    @nn.compact
    def __call__(self, x: Any, shared: Any, state: Any = None):
        """(streams, shared, not read) -> (streams, None)."""
        del state
        norm = self.of_streams(self.norm, self.cross_attention_norm)
        y, _ = self.cross_attention("cross_attention")(self.laid_out(norm(x)), shared)
        return self.dropped(y), None


class MlpHalf(Branches):
    """A half of a reversible layer: feed-forward of the norm."""

    @nn.compact
    def __call__(self, x: Any, shared: Any, state: Any = None):
        """(streams, not read, not read) -> (streams, None)."""
        del shared, state
        norm = self.of_streams(self.norm, self.mlp_norm)
        mlp = self.of_streams(self.mlp, self.mlp_name)
        return self.dropped(mlp(self.laid_out(norm(x)))), None
