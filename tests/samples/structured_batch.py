"""Batches of structured windows, part by part."""

import numpy as np

from etc_jax.base.types import Rows
from etc_jax.data.schema import stacked


def stacked_labels(windows):
    """The labels of some windows by name, with a first axis for them."""
    names = windows[0].labels
    return {name: np.stack([w.labels[name] for w in windows]) for name in names}


def batch(windows):
    """(tokens, types, structure, labels) of windows, with a first axis for them."""
    made = stacked(windows)
    tokens = Rows(made["long_tokens"], made["global_tokens"])
    types = Rows(made["long_types"], made["global_types"])
    return tokens, types, made["structure"], stacked_labels(windows)
