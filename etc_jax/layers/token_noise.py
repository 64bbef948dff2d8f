"""Noise on the rows of tokens, of which models know nothing."""

import contextlib
from collections.abc import Iterator

import jax
import jax.numpy as jnp
from flax import linen as nn

# What every model calls the table of the tokens that it reads.
TABLE = "token_embedder"
# Numbers of size 1 by (key, shape, dtype).
_DRAWN = {
    "uniform": lambda *args: jax.random.uniform(*args, minval=-1.0, maxval=1.0),
    "normal": jax.random.normal,
}


@contextlib.contextmanager
def added(size: float, kind: str) -> Iterator[None]:
    """Inside it, rows that models read from their token table have noise.

    It is added to rows as they stand in the table, before a model scales them and
    before positions and types. Each use of the table draws anew, from the stream
    "dropout". Logits by the same table have none.

    It is added in float32, before rows are rounded to the model's dtype. In bfloat16,
    where numbers near 0.02 are 1.2e-4 apart, noise of 1e-5 then moves about one number
    in twenty, by a whole step, and the others not at all: on average as much as without
    the rounding, but with the mean square of noise of 4e-5. Added after the rounding,
    all of it would be lost.

    Args:
      size: the bound of uniform noise, the standard deviation of normal noise.
      kind: "uniform" or "normal".

    Raises:
      ValueError: if a table is of a dtype in which the noise would be lost, or if no
        table was read.
    """
    reads = []

    def intercept(next_fun, args, kwargs, context):
        module = context.module
        if module.name != TABLE or context.method_name != "__call__":
            return next_fun(*args, **kwargs)
        reads.append(module.path)
        return _with_noise(module, *args, size=size, kind=kind)

    with nn.intercept_methods(intercept):
        yield
    if not reads:
        raise ValueError(
            f"no token table was read, so that none had noise: a model's nn.Embed of "
            f"the tokens that it reads has to be named {TABLE!r}"
        )


def _with_noise(
    table: nn.Embed, tokens: jax.Array, *, size: float, kind: str
) -> jax.Array:
    """int `[...]` -> `[..., e]` in the dtype of the model."""
    stored = table.embedding.dtype
    if jnp.finfo(stored).bits < 32:
        raise ValueError(
            f"the token table is stored in {stored}, in which noise of {size} is lost; "
            "store it in float32"
        )
    rows = jnp.take(table.embedding, tokens, axis=0)
    noise = _DRAWN[kind](table.make_rng("dropout"), rows.shape, stored)
    return (rows + size * noise).astype(table.dtype or stored)
