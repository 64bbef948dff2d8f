"""ETC layers: attention and feed-forward with residuals and norms, whole or halved."""

from collections.abc import Callable

import jax
from flax import linen as nn

from etc_jax.layers.common import LayerNorm, Mlp
from etc_jax.sharding import constrain
from etc_jax.types import Rows


def _constrain(x: Rows) -> Rows:
    # Global rows are few: every device of a split sequence has them all.
    return Rows(
        constrain(x.long, "batch", "length", "activation_embed"),
        constrain(x.global_, "batch", None, "activation_embed"),
    )


def _normed(norms: Rows, x: Rows) -> Rows:
    return jax.tree.map(lambda norm, a: norm(a), norms, x)


class _Parts(nn.Module):
    """What a layer, or a half of one, is made of.

    Attributes:
      attention: makes the attention module, given its name; called with (rows,
        structure, number of the layer or None).
      mlp: makes a feed-forward module, given its name.
      norm: makes a norm, given its name.
      dropout_rate: of each residual branch.
      share_mlp: one feed-forward for long and global rows.
    """

    attention: Callable[[str], nn.Module]
    mlp: Callable[[str], Mlp]
    norm: Callable[[str], LayerNorm]
    dropout_rate: float
    share_mlp: bool = True
    deterministic: bool = True

    def attention_parts(self) -> tuple[Rows, nn.Module]:
        """(norms, attention)."""
        names = Rows("long_attention_norm", "global_attention_norm")
        return jax.tree.map(self.norm, names), self.attention("attention")

    def mlp_parts(self) -> tuple[Rows, Rows]:
        """(norms, feed-forward modules); both are one for all unless `share_mlp`."""
        if self.share_mlp:
            norm, mlp = self.norm("mlp_norm"), self.mlp("mlp")
            return Rows(norm, norm), Rows(mlp, mlp)
        norms = Rows(self.norm("long_mlp_norm"), self.norm("global_mlp_norm"))
        return norms, Rows(self.mlp("long_mlp"), self.mlp("global_mlp"))

    def dropped(self, y: Rows) -> Rows:
        """With dropout, drawn for both rows apart."""

        def drop(a):
            dropout = nn.Dropout(self.dropout_rate)
            return dropout(a, deterministic=self.deterministic)

        return jax.tree.map(drop, y)


class EtcLayer(_Parts):
    """Attention, then feed-forward, each with residual and norm (paper, section 3.2).

    The two attention norms are always separate; feed-forward and its norm are one for
    both sequences unless `share_mlp` is off.

    Attributes:
      pre_norm: x + f(norm(x)) instead of norm(x + f(x)).
    """

    pre_norm: bool = False

    def _residual(self, x: Rows, norms: Rows, branch) -> Rows:
        """One residual block over both sequences."""
        y = self.dropped(branch(_normed(norms, x) if self.pre_norm else x))
        x = jax.tree.map(lambda a, b: a + b, x, y)
        return _constrain(x if self.pre_norm else _normed(norms, x))

    @nn.compact
    def __call__(self, x: Rows, structure, layer: jax.Array | None = None) -> Rows:
        """`Rows` of `[b, n, e]` and `[b, g, e]` -> the same shapes.

        Args:
          x: the layer's input.
          structure: of the batch.
          layer: number of the layer, for attention that draws by it, or None.
        """
        norms, attention = self.attention_parts()
        x = self._residual(
            _constrain(x), norms, lambda y: attention(y, structure, layer)
        )
        norms, mlps = self.mlp_parts()
        return self._residual(x, norms, lambda y: _normed(mlps, y))


class EtcAttentionHalf(_Parts):
    """f of a reversible layer: attention of the norm; the residual is the stack's.

    Attention that has a method `replayed` is given what it kept when it is computed
    anew; see `layers.flat_attention`.
    """

    @nn.compact
    def __call__(self, x: Rows, structure, kept=None):
        """(rows, structure, what was kept) -> (rows, what is to be kept)."""
        norms, attention = self.attention_parts()
        x = _constrain(_normed(norms, x))
        if hasattr(attention, "replayed"):
            y, kept = attention.replayed(x, structure, kept)
        else:
            y = attention(x, structure, None)
        return self.dropped(y), kept


class EtcMlpHalf(_Parts):
    """g of a reversible layer: feed-forward of the norm."""

    @nn.compact
    def __call__(self, x: Rows, structure, kept=None):
        """(rows, not read, not read) -> (rows, nothing to keep)."""
        del structure, kept
        norms, mlps = self.mlp_parts()
        return self.dropped(_normed(mlps, _constrain(_normed(norms, x)))), None
