"""Statistics of a text and of the batches made of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from etc_jax.base.rules import at_least
from etc_jax.data.schema import Schema, at
from etc_jax.data.text.reader import Batch, TextReader

_CHUNK_TOKENS = 1 << 22


def unigram_entropy(tokens: np.ndarray) -> float:
    """Entropy in nats of the ids of a text: `-sum p log p`, p relative frequencies.

    The lowest cross entropy that any model reaches on this text without looking at
    the context: an MLM loss on validation text is worth something only below it.

    Args:
      tokens: int `[tokens]`, such as `TokenCache.tokens`.

    Raises:
      ValueError: if there are no tokens.
    """
    if not len(tokens):
        raise ValueError("the unigram entropy of no tokens is not defined")
    counts = np.zeros(0, np.int64)
    for start in range(0, len(tokens), _CHUNK_TOKENS):
        # In chunks: the tokens of a cache are a mapped file.
        chunk = tokens[start : start + _CHUNK_TOKENS]
        chunk_counts = np.bincount(chunk, minlength=len(counts))
        chunk_counts[: len(counts)] += counts
        counts = chunk_counts
    # 0 log 0 is 0.
    p = counts[counts > 0] / len(tokens)
    return float(-(p * np.log(p)).sum())


def log_frequencies(tokens: np.ndarray, vocab_size: int) -> np.ndarray:
    """log of each id's share of a text, every id counted once more than it occurs.

    Args:
      tokens: integer ids, any shape.
      vocab_size: number of ids.

    Returns:
      float32 `[vocab_size]`, in nats.
    """
    counts = np.bincount(np.ravel(tokens), minlength=vocab_size) + 1.0
    return np.log(counts / counts.sum()).astype(np.float32)


def unmasked_tokens(batch: Batch, schema: Schema) -> np.ndarray:
    """The tokens of a text's batch before masking, without padding: int32 `[tokens]`.

    Of corrupted text they are what is read. The sentences masked for CPC come last, out
    of their places.
    """
    # Of a pair of texts the one that is read.
    axis, *_ = schema.text
    name = next(k for k in schema.tables if schema.fields[k].axis == axis)
    tokens, shown = batch[name].copy(), at(batch, schema.marks[axis]) > 0
    if "mlm_weights" in batch:
        rows, entries = np.nonzero(batch["mlm_weights"])
        targets = batch["mlm_targets"][rows, entries]
        tokens[rows, batch["mlm_positions"][rows, entries]] = targets
    if "cpc_weights" not in batch:
        return tokens[shown]
    rows, entries = np.nonzero(batch["cpc_weights"])
    masked = np.zeros(batch["global_tokens"].shape, bool)
    masked[rows, batch["cpc_positions"][rows, entries]] = True
    # Padding is tied to no global token; its entry, -1, is not looked at.
    shown &= ~np.take_along_axis(masked, batch["structure"].links[..., 0], axis=1)
    # Without the padding of the masked sentences.
    apart = batch["cpc_structure"].long_example_ids > 0
    return np.concatenate([tokens[shown], batch["cpc_long_tokens"][apart]])


def describe_batches(reader: TextReader, count: int) -> dict[str, Any]:
    """What a report says about the data: shares lost and padded, and ids.

    Args:
      reader: its first batches are built; they count as built in its counts.
      count: how many batches.

    Returns:
      Ready for JSON. Of the whole text: `documents`, `documents_dropped_share` and
      `tokens_dropped_share` (too short), `sentences_cut_share` (too long). Of the
      batches: `examples` (rows with text), `windows_left_out_share` (of which nothing
      can be missing), the share of padding along each axis, such as
      `long_padded_share` (over all rows), `mlm_overflow_share` (of the tokens that were
      chosen) and `cpc_overflow_share` (of the sentences) where these are, `lowest_id`
      and `highest_id` (of the text before masking, where there is any).

    Raises:
      ValueError: if `count` is below 1.
    """
    at_least(1).check(count=count)
    # The reader may have built batches before.
    left_out = -_left_out(reader)
    rows = reader.described_rows
    batches = [reader.batch_at(step, rows) for step in range(count)]
    left_out += _left_out(reader)
    tokens = np.concatenate(
        [unmasked_tokens(batch, reader.schema) for batch in batches]
    )
    metrics = _of_the_text(reader) | _of_the_batches(batches, reader.schema)
    examples = metrics["examples"]
    metrics["windows_left_out_share"] = _share(left_out, left_out + examples)
    if len(tokens):
        metrics["lowest_id"] = int(tokens.min())
        metrics["highest_id"] = int(tokens.max())
    return metrics


def _left_out(reader: TextReader) -> int:
    return sum(counts.windows_left_out for counts in reader.source_counts)


def _share(part: Any, whole: Any) -> float:
    return float(part / max(whole, 1))


def _of_the_text(reader) -> dict[str, Any]:
    counts = reader.source_counts

    def total(name: str) -> int:
        return sum(getattr(c, name) for c in counts)

    def lost(name: str) -> float:
        dropped = total(f"{name}_dropped")
        return _share(dropped, dropped + total(name))

    return {
        "documents": total("documents"),
        "documents_dropped_share": lost("documents"),
        "tokens_dropped_share": lost("tokens"),
        "sentences_cut_share": _share(
            total("sentences_split"), total("sentences_of_text")
        ),
    }


def _of_the_batches(batches: list[Batch], schema: Schema) -> dict[str, Any]:
    def total(name: str) -> int:
        return sum(int(batch[name].sum()) for batch in batches)

    def is_padding(axis: str) -> np.ndarray:
        mark = schema.marks[axis]
        return np.stack([at(batch, mark) == 0 for batch in batches])

    text, *_ = schema.text
    metrics = {"examples": int((~is_padding(text)[..., 0]).sum())}
    for axis in schema.marks:
        metrics[f"{axis}_padded_share"] = float(np.mean(is_padding(axis)))
    for kind in ("mlm", "cpc"):
        if (name := f"{kind}_overflow") in batches[0]:
            lost = total(name)
            share = _share(lost, lost + total(f"{kind}_weights"))
            metrics[f"{name}_share"] = share
    return metrics
