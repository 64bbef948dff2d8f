"""One ETC layer: attention and feed-forward with residuals and norms."""

from collections.abc import Callable

import jax
from flax import linen as nn

from etc_jax.layers.attention import GlobalLocalAttention
from etc_jax.layers.common import LayerNorm, Mlp
from etc_jax.sharding import constrain
from etc_jax.types import Rows


def _constrain(x: Rows) -> Rows:
    # Global rows are few: every device of a split sequence has them all.
    return Rows(
        constrain(x.long, "batch", "length", "activation_embed"),
        constrain(x.global_, "batch", None, "activation_embed"),
    )


class EtcLayer(nn.Module):
    """Attention, then feed-forward, each with residual and norm (paper, section 3.2).

    The two attention norms are always separate; feed-forward and its norm are one for
    both sequences unless `share_mlp` is off.

    Attributes:
      attention: makes the attention module, given its name.
      mlp: makes a feed-forward module, given its name.
      norm: makes a norm, given its name.
      dropout_rate: of each residual branch.
      share_mlp: one feed-forward for long and global rows.
      pre_norm: x + f(norm(x)) instead of norm(x + f(x)).
    """

    attention: Callable[[str], GlobalLocalAttention]
    mlp: Callable[[str], Mlp]
    norm: Callable[[str], LayerNorm]
    dropout_rate: float
    share_mlp: bool = True
    pre_norm: bool = False
    deterministic: bool = True

    def _residual(self, x: Rows, norms: Rows, branch) -> Rows:
        """One residual block over both sequences."""

        def normed(y: Rows) -> Rows:
            return jax.tree.map(lambda norm, a: norm(a), norms, y)

        def drop(y):
            dropout = nn.Dropout(self.dropout_rate)
            return dropout(y, deterministic=self.deterministic)

        y = branch(normed(x) if self.pre_norm else x)
        x = jax.tree.map(lambda a, b: a + drop(b), x, y)
        return _constrain(x if self.pre_norm else normed(x))

    @nn.compact
    def __call__(self, x: Rows, structure) -> Rows:
        """`Rows` of `[b, n, e]` and `[b, g, e]` -> the same shapes."""
        norms = Rows(
            self.norm("long_attention_norm"), self.norm("global_attention_norm")
        )
        attention = self.attention("attention")
        x = self._residual(_constrain(x), norms, lambda y: attention(y, structure))
        if self.share_mlp:
            norms, mlps = self.norm("mlp_norm"), self.mlp("mlp")
            norms, mlps = Rows(norms, norms), Rows(mlps, mlps)
        else:
            norms = Rows(self.norm("long_mlp_norm"), self.norm("global_mlp_norm"))
            mlps = Rows(self.mlp("long_mlp"), self.mlp("global_mlp"))
        return self._residual(
            x, norms, lambda y: jax.tree.map(lambda mlp, a: mlp(a), mlps, y)
        )
