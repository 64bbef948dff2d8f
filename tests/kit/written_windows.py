"""Caches of windows that are at hand, for tests."""

import itertools

import numpy as np

from etc_jax.data.windows.writing import LeftOut, build_windows, part_of


def write_windows(windows, tokenizer, path, source, sizes=None, **more):
    """The cache of some windows, one record each.

    Args:
      windows: of one schema.
      tokenizer: of their ids.
      path: folder of the cache.
      source: what they are made of.
      sizes: of the parts that they are written in; None: one has them all.
      **more: of `build_windows`.
    """
    windows = list(windows)
    borders = np.cumsum([0, *(sizes or [len(windows)])])

    def parts(*_):
        for start, stop in itertools.pairwise(borders):
            part = windows[start:stop]
            yield part_of(part, tokenizer.vocab_size, len(part), LeftOut())

    return build_windows(parts, tokenizer, path, source, **more)
