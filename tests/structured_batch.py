"""Batches of structured windows, part by part."""

from etc_jax.data.schema import stacked, stacked_labels
from etc_jax.types import Rows


def batch(windows):
    """(tokens, types, structure, labels) of windows, with a first axis for them."""
    made = stacked(windows)
    tokens = Rows(made["long_tokens"], made["global_tokens"])
    types = Rows(made["long_types"], made["global_types"])
    return tokens, types, made["structure"], stacked_labels(windows)
