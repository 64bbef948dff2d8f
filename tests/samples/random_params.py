"""Parameters that are drawn, in place of compiling what would initialise them."""

import jax
import numpy as np


def random_params(init, *args, **options):
    """`drawn` in the shapes that `init` gives: quicker than compiling it.

    Args:
      init: a module's, which gives {"params": ...}, or a task's, which gives params.
      *args: of `init`, after its key.
      **options: of `drawn`.
    """
    shapes = jax.eval_shape(init, jax.random.key(0), *args)
    return drawn(shapes.get("params", shapes), **options)


def drawn(shapes, *, spread=0.3, center=0.0, scale=1.0, seed=0):
    """Normal numbers for parameters.

    Args:
      shapes: a tree of what has a shape and a dtype.
      spread: standard deviation.
      center: mean of all but the scales of norms.
      scale: mean of the scales of norms.
      seed: of numpy.
    """
    rng = np.random.default_rng(seed)

    def draw(path, leaf):
        mean = scale if path[-1].key == "scale" else center
        return rng.normal(mean, spread, leaf.shape).astype(leaf.dtype)

    return jax.tree_util.tree_map_with_path(draw, shapes)


def assert_equal(got, want):
    """Trees of one form, with equal arrays."""
    assert jax.tree.structure(got) == jax.tree.structure(want)
    jax.tree.map(np.testing.assert_array_equal, got, want)
