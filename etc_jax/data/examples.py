"""One window of text -> one row of a pre-training batch (MLM and CPC).

Keys of a batch; B rows, n long and g global positions, p MLM targets, and m long and
s global positions for the masked sentences:

    long_tokens        int32   [B, n]  MLM applied; masked sentences are mask ids
    global_tokens      int32   [B, g]  one per sentence
    structure          Structure       pieces of documents as examples 1, 2, ...
    mlm_positions      int32   [B, p]  in the long input, ascending
    mlm_targets        int32   [B, p]  original ids
    mlm_weights        float32 [B, p]  1 real, 0 unused
    cpc_long_tokens    int32   [B, m]  the masked sentences, unmasked, side by side
    cpc_global_tokens  int32   [B, s]  one per masked sentence
    cpc_structure      Structure       each masked sentence an example of its own
    cpc_positions      int32   [B, s]  its summary token in the main global input
    cpc_weights        float32 [B, s]  1 real, 0 unused
    cpc_documents      int32   [B, s]  its document, -1 unused

"We mask all the tokens corresponding to a subset of sentences (but leave the sentence
summary tokens in the global input)" (Ainslie et al. 2020, section 3.5). The summary
token of a masked sentence is there, at its place, but its id is 2, that of other
sentences 1: so it is in the ids of the released models, whose vocabulary reserves
"CPC mask" for it. The text of the paper does not mention the second id.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from etc_jax.data import masking
from etc_jax.data.cache import TokenCache
from etc_jax.data.packing import PackingPlan
from etc_jax.data.tokenizer import TokenIds
from etc_jax.structure import LINK_DTYPE, MAX_GLOBALS, Structure

Batch = dict[str, np.ndarray | Structure]


@dataclasses.dataclass(frozen=True)
class PretrainingSizes:
    """Static lengths of a batch.

    Attributes:
      long_length, global_length: n and g, of the main input.
      mlm_capacity: p, MLM targets of an example.
      cpc_long_length, cpc_global_length: m and s, tokens and number of the sentences
        masked for CPC in an example.
    """

    long_length: int
    global_length: int
    mlm_capacity: int
    cpc_long_length: int
    cpc_global_length: int

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value < 1:
                raise ValueError(f"{field.name} is {value}, expected 1 or more")
        for name, most in (
            ("global_length", MAX_GLOBALS),
            ("mlm_capacity", self.long_length),
            ("cpc_long_length", self.long_length),
            ("cpc_global_length", self.global_length),
        ):
            if getattr(self, name) > most:
                raise ValueError(
                    f"{name} is {getattr(self, name)}, but more than {most} can never "
                    "be used; lower it"
                )

    @classmethod
    def default(
        cls,
        long_length: int,
        global_length: int,
        shares: masking.MaskingShares | None = None,
        **capacities: int,
    ) -> PretrainingSizes:
        """Capacities with room to spare: MLM 1.25 times, CPC 1.5 times the mean need.

        Args:
          long_length: n.
          global_length: g.
          shares: what is masked.
          **capacities: any of the three capacities, to set it by hand.
        """
        shares = shares or masking.MaskingShares()
        need = {
            "mlm_capacity": (1.25 * shares.mlm * long_length, long_length),
            # Short windows mask one or two sentences, whose lengths vary too much for
            # a multiple of the mean: leave room for a longest sentence.
            "cpc_long_length": (max(1.5 * shares.cpc * long_length, 128), long_length),
            "cpc_global_length": (1.5 * shares.cpc * global_length, global_length),
        }
        rounded = {k: min(_multiple_of_8(v), most) for k, (v, most) in need.items()}
        return cls(long_length, global_length, **(rounded | capacities))


def _multiple_of_8(x: float) -> int:
    return max(int(-(-x // 8)) * 8, 8)


class Window(NamedTuple):
    """The text of a window.

    Attributes:
      tokens: int32 `[t]`.
      word_starts: bool `[t]`; every sentence starts a word.
      lengths: int64 `[sentences]`, in tokens.
      piece_ids: int64 `[sentences]`: 1, 2, ... by piece of a document.
      documents: int64 `[sentences]`.
    """

    tokens: np.ndarray
    word_starts: np.ndarray
    lengths: np.ndarray
    piece_ids: np.ndarray
    documents: np.ndarray


def read_window(cache: TokenCache, plan: PackingPlan, index: int) -> Window:
    """Gathers the text of one window from the cache."""
    tokens, word_starts, lengths, counts = [], [], [], []
    pieces = plan.window(index)
    for _, first, stop in pieces.tolist():
        offsets = plan.sentence_offsets[first : stop + 1]
        start, end = int(offsets[0]), int(offsets[-1])
        words = cache.word_starts(start, end)
        words[offsets[:-1] - start] = True  # a long word may have been cut
        tokens.append(cache.tokens[start:end])
        word_starts.append(words)
        lengths.append(np.diff(offsets))
        counts.append(stop - first)
    return Window(
        tokens=np.concatenate(tokens).astype(np.int32),
        word_starts=np.concatenate(word_starts),
        lengths=np.concatenate(lengths),
        piece_ids=np.repeat(np.arange(1, len(pieces) + 1), counts),
        documents=np.repeat(pieces[:, 0], counts),
    )


def empty_batch(rows: int, sizes: PretrainingSizes, ids: TokenIds) -> Batch:
    """A batch of padding, with zero weights."""

    def full(length: int, fill: int = 0, dtype: type = np.int32) -> np.ndarray:
        return np.full((rows, length), fill, dtype)

    def no_structure(long_length: int, global_length: int) -> Structure:
        return Structure(
            long_example_ids=full(long_length),
            global_example_ids=full(global_length),
            links=np.full((rows, long_length, 1), -1, LINK_DTYPE),
        )

    n, g, p, m, s = dataclasses.astuple(sizes)
    return {
        "long_tokens": full(n, ids.pad),
        "global_tokens": full(g, ids.pad),
        "structure": no_structure(n, g),
        "mlm_positions": full(p),
        "mlm_targets": full(p),
        "mlm_weights": full(p, dtype=np.float32),
        "cpc_long_tokens": full(m, ids.pad),
        "cpc_global_tokens": full(s, ids.pad),
        "cpc_structure": no_structure(m, s),
        "cpc_positions": full(s),
        "cpc_weights": full(s, dtype=np.float32),
        "cpc_documents": full(s, -1),
    }


def fitting_sentences(
    selected: np.ndarray, lengths: np.ndarray, sizes: PretrainingSizes
) -> np.ndarray:
    """Those of the selected sentences that the CPC input holds, in ascending order.

    Earlier ones come first: with `selected` in random order, chance decides.

    Args:
      selected: int `[k]`, sentences of a window.
      lengths: int `[sentences]`, tokens of each.
      sizes: the capacities.
    """
    kept, room = [], sizes.cpc_long_length
    for sentence in selected.tolist():
        if lengths[sentence] <= room and len(kept) < sizes.cpc_global_length:
            kept.append(sentence)
            room -= int(lengths[sentence])
    return np.array(sorted(kept), np.int64)


def fill_row(
    batch: Batch,
    row: int,
    window: Window,
    cpc_sentences: np.ndarray,
    rng: np.random.Generator,
    *,
    ids: TokenIds,
    shares: masking.MaskingShares,
) -> int:
    """Writes one example into a row of an empty batch.

    Args:
      batch: of `empty_batch`.
      row: which row.
      window: the text.
      cpc_sentences: sentences to mask for CPC, ascending, such that they fit.
      rng: draws of the MLM masking.
      ids: special ids.
      shares: what is masked.

    Returns:
      Tokens chosen for MLM that had no room.
    """
    num_tokens, num_sentences = len(window.tokens), len(window.lengths)
    masked = np.zeros(num_sentences, bool)
    masked[cpc_sentences] = True
    masked_tokens = np.repeat(masked, window.lengths)

    batch["long_tokens"][row, :num_tokens] = window.tokens
    batch["long_tokens"][row, :num_tokens][masked_tokens] = ids.mask
    batch["global_tokens"][row, :num_sentences] = np.where(
        masked, ids.cpc_mask, ids.sentence
    )
    _fill_structure(batch["structure"], row, window.lengths, window.piece_ids)
    _fill_cpc(batch, row, window, cpc_sentences, window.tokens[masked_tokens], ids)
    return _fill_mlm(
        batch, row, window, np.flatnonzero(~masked_tokens), rng, ids=ids, shares=shares
    )


def _fill_structure(structure, row, lengths, example_ids) -> None:
    """The rows of `builders.packed_documents`, written in place."""
    tokens, sentences = int(lengths.sum()), len(lengths)
    structure.long_example_ids[row, :tokens] = np.repeat(example_ids, lengths)
    structure.global_example_ids[row, :sentences] = example_ids
    structure.links[row, :tokens, 0] = np.repeat(np.arange(sentences), lengths)


def _fill_cpc(batch, row, window, sentences, tokens, ids) -> None:
    count = len(sentences)
    batch["cpc_long_tokens"][row, : len(tokens)] = tokens
    batch["cpc_global_tokens"][row, :count] = ids.sentence
    batch["cpc_positions"][row, :count] = sentences
    batch["cpc_weights"][row, :count] = 1.0
    batch["cpc_documents"][row, :count] = window.documents[sentences]
    lengths, own_ids = window.lengths[sentences], np.arange(1, count + 1)
    _fill_structure(batch["cpc_structure"], row, lengths, own_ids)


def _fill_mlm(batch, row, window, candidates, rng, *, ids, shares) -> int:
    chosen, overflow = masking.select_words(
        rng,
        window.word_starts[candidates],
        shares.mlm,
        batch["mlm_positions"].shape[1],
    )
    positions = candidates[chosen]
    targets = window.tokens[positions]
    batch["long_tokens"][row, positions] = masking.corrupt(
        rng,
        targets,
        shares,
        mask_id=ids.mask,
        random_ids=(ids.first_regular, ids.vocab_size),
    )
    batch["mlm_positions"][row, : len(positions)] = positions
    batch["mlm_targets"][row, : len(positions)] = targets
    batch["mlm_weights"][row, : len(positions)] = 1.0
    return overflow
