"""SLED: an encoder of short texts reads a long one by overlapping windows.

Ivgi et al. 2022, section 3: the document is cut (`ops.context_windows`), each window is
encoded by itself behind the prefix, and the rows that the windows keep are put together
for the decoder. Nothing here knows what the encoder is.
"""

from typing import Any, Protocol

import jax
import jax.numpy as jnp
from flax import linen as nn

from etc_jax import sharding
from etc_jax.layers.self_attention import Memory
from etc_jax.models.sled.config import SledConfig
from etc_jax.ops import blocking
from etc_jax.ops.context_windows import CollectedRows, picked

Array = jax.Array
# The number of the window that has the prefix alone.
_PREFIX = -1


class Reader(Protocol):
    """A module, with the parameters of an encoder.

    Attributes:
      config: with `sled`, `embed_dim` and `compute_dtype`.
    """

    config: Any

    def read(self, tokens: Array, example_ids: Array) -> Array:
        """int `[b, n]`, twice -> `[b, n, e]`; example id 0 is padding."""


def encode(model: Reader, tokens: Array, ids: Array) -> Memory:
    """What a decoder reads of long inputs.

    Args:
      model: a Linen module.
      tokens: int `[b, n]`, the prefix in the first places; see `SledConfig`.
      ids: int `[b, n]`, 0 in padding, 1 elsewhere.

    Raises:
      ValueError: if there is no place for a document.
    """
    config = model.config.sled
    p, n = config.prefix_length, tokens.shape[1] - config.prefix_length
    if n < 1:
        raise ValueError(
            f"input_tokens has {tokens.shape[1]} places, expected more than the {p} of "
            "sled.prefix_length"
        )
    (prefix, document), (prefix_ids, document_ids) = (
        (x[:, :p], x[:, p:]) for x in (tokens, ids)
    )
    lengths = _lengths(document_ids, config.last_window)
    windows = config.windows
    first_window = _PREFIX if p else 0
    total = windows.count(n) - first_window
    steps, at_once = _steps(total, config.windows_at_once)
    b, width, dtype = len(tokens), model.config.embed_dim, model.config.compute_dtype

    def body(model, carry, step):
        collected, prefix_rows = carry
        number = first_window + step * at_once + jnp.arange(at_once, dtype=jnp.int32)
        parts = (prefix, document), (prefix_ids, document_ids)
        cut = [_windows(config, *part, lengths, number) for part in parts]
        # [b, k, m] -> [b * k, m] -> [b * k, m, e] -> [b, k, m, e].
        rows = model.read(*(x.reshape(-1, x.shape[-1]) for x in cut))
        rows = rows.reshape(b, at_once, *rows.shape[1:]).astype(dtype)
        behind = p if config.prefix_in_windows else 0
        document_rows = rows[:, :, behind : behind + windows.size]
        collected, inner = collected.with_rows(windows, lengths, number, document_rows)
        wanted = jnp.full((b,), _PREFIX)
        prefix_rows = picked(number, wanted, rows[:, :, :p], prefix_rows)
        return (collected, prefix_rows), inner

    collected = CollectedRows.none(windows, b, width, dtype)
    carry = collected, jnp.zeros((b, p, width), dtype)
    with sharding.sequences_as_rows():
        if steps == 1:
            (collected, prefix_rows), inner = body(model, carry, 0)
        else:
            (collected, prefix_rows), inner = _each_step(body, model, carry, steps)
    # [b, windows, stride, e] -> [b, windows * stride, e], without that of the prefix.
    inner = blocking.unblock(inner[:, -first_window:], 1)
    rows = collected.joined(windows, lengths, inner, n)
    if not config.prefix_in_memory:
        return Memory(rows, document_ids)
    return Memory(jnp.concatenate([prefix_rows, rows], axis=1), ids)


def marks_of_windows(config: SledConfig, ids: Array) -> Array:
    """Of all that the encoder is given of inputs: int `[b * windows, m]`, 0 in padding.

    Args:
      config: of the windows.
      ids: int `[b, n]` of inputs, see `encode`.
    """
    p = config.prefix_length
    prefix, document = ids[:, :p], ids[:, p:]
    first_window = _PREFIX if p else 0
    number = jnp.arange(first_window, config.windows.count(document.shape[1]))
    lengths = _lengths(document, config.last_window)
    marks = _windows(config, prefix, document, lengths, number)
    return marks.reshape(-1, marks.shape[-1])


def _lengths(ids: Array, ends: str) -> Array:
    """int32 `[b]`: tokens of each document, to which the last window is aligned."""
    b, n = ids.shape
    if ends == "row":
        return jnp.full((b,), n, jnp.int32)
    position = jnp.arange(1, n + 1, dtype=jnp.int32)[None]
    return jnp.max(jnp.where(ids > 0, position, 0), axis=1)


def _steps(total: int, at_once: int) -> tuple[int, int]:
    """(steps, windows of each): all at once, or as many as are wanted, evenly.

    Each device of a split sequence encodes so many: the sums of gradients over devices,
    one for each step, are as few as they can be.
    """
    ways = sharding.ways("length")
    steps = -(-total // min((at_once or total) * ways, total))
    # Those in excess are empty.
    return steps, -(-total // (steps * ways)) * ways


def _windows(config: SledConfig, prefix, document, lengths, number) -> Array:
    """What the encoder is given of tokens, or of their marks: `[b, k, m]`."""
    document_windows = config.windows.cut(document, lengths, number)
    b, k = document_windows.shape[:2]
    prefix = jnp.broadcast_to(prefix[:, None], (b, k, prefix.shape[1]))
    if config.prefix_in_windows:
        return jnp.concatenate([prefix, document_windows], axis=-1)
    # The window of the prefix has it in place of the document.
    m = config.encoded_length
    prefix, document_windows = (
        blocking.pad_axis(x, 2, 0, m - x.shape[2]) for x in (prefix, document_windows)
    )
    return jnp.where(number[None, :, None] == _PREFIX, prefix, document_windows)


def _each_step(body, model, carry, steps: int):
    """The windows of all steps; the backward pass encodes those of a step again."""
    scanned = nn.scan(
        nn.remat(body, prevent_cse=False),
        variable_broadcast="params",
        variable_axes={"intermediates": 0},
        split_rngs={"params": False, "dropout": True, "lsh": False},
        length=steps,
    )
    carry, inner = scanned(model, carry, jnp.arange(steps, dtype=jnp.int32))
    # [steps, b, k, stride, e] -> [b, steps * k, stride, e].
    return carry, blocking.unblock(jnp.moveaxis(inner, 0, 1), 1)
