"""One window of text -> one row of a pre-training batch (MLM and CPC).

Keys of a batch; B rows, n long and g global positions, p MLM targets, and m long and
s global positions for the masked sentences:

    long_tokens        int32   [B, n]  MLM applied; masked sentences are mask ids
    global_tokens      int32   [B, g]  one per segment: a sentence or a fixed block
    structure          Structure       pieces of documents as examples 1, 2, ...
    mlm_positions      int32   [B, p]  in the long input, ascending
    mlm_targets        int32   [B, p]  original ids
    mlm_weights        float32 [B, p]  1 real, 0 unused
    mlm_overflow       int32   [B]     tokens chosen for MLM that had no room, left
    cpc_long_tokens    int32   [B, m]  the masked sentences, unmasked, side by side
    cpc_global_tokens  int32   [B, s]  one per masked sentence
    cpc_structure      Structure       each masked sentence an example of its own
    cpc_positions      int32   [B, s]  its summary token in the main global input
    cpc_weights        float32 [B, s]  1 real, 0 unused
    cpc_documents      int32   [B, s]  number of its document, -1 unused
    cpc_overflow       int32   [B]     sentences chosen for CPC that had no room, left

Without CPC (m = s = 0) none of the `cpc_` keys is there, so that nothing is computed
or sent for them. Fixed blocks are always without: CPC masks sentences.

"We mask all the tokens corresponding to a subset of sentences (but leave the sentence
summary tokens in the global input)" (Ainslie et al. 2020, section 3.5). The summary
token of a masked sentence is there, at its place, but its id is 2, that of other
sentences 1: so it is in the ids of the released models, whose vocabulary reserves
"CPC mask" for it. The text of the paper does not mention the second id.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from etc_jax.data.pretraining import masking
from etc_jax.data.schema import Field, Schema
from etc_jax.data.text.cache import TokenCache
from etc_jax.data.text.packed import MLM_FIELDS, mask_tokens
from etc_jax.data.text.packing import MAX_SENTENCE_TOKENS, PackedWindow, PackingPlan
from etc_jax.data.text.reader import Overflow
from etc_jax.data.tokenizers.tokenizer import TokenIds
from etc_jax.structure import LINK_DTYPE, MAX_GLOBALS, Structure

Batch = dict[str, np.ndarray | Structure]


def _side(prefix: str) -> dict[str, Any]:
    """What the schema of long and global tokens with their structure consists of."""
    long, glob = f"{prefix}long", f"{prefix}global"
    structure = f"{prefix}structure"
    tokens = (f"{long}_tokens", f"{glob}_tokens")
    return {
        "fields": {
            **dict(zip(tokens, (Field(long), Field(glob)), strict=True)),
            f"{structure}.long_example_ids": Field(long),
            f"{structure}.global_example_ids": Field(glob),
            f"{structure}.links": Field(long, LINK_DTYPE.__name__, (1,), padding=-1),
        },
        "lengths": {long: f"{long}_length", glob: f"{glob}_length"},
        "marks": {
            long: f"{structure}.long_example_ids",
            glob: f"{structure}.global_example_ids",
        },
        "tables": dict.fromkeys(tokens, "vocab_size"),
        "groups": {structure: Structure},
    }


_MLM = {
    "fields": MLM_FIELDS,
    "lengths": {"mlm": "mlm_capacity"},
    "tables": {"mlm_targets": "vocab_size"},
    "positions": {"mlm_positions": "long"},
}
_CPC = {
    "fields": {
        "cpc_positions": Field("cpc_global"),
        "cpc_weights": Field("cpc_global", "float32"),
        "cpc_documents": Field("cpc_global", padding=-1),
        "cpc_overflow": Field(),
    },
    "positions": {"cpc_positions": "global"},
}


def _schema(*parts: dict[str, Any]) -> Schema:
    names = {name for part in parts for name in part}
    whole = {
        name: {k: x for part in parts for k, x in part.get(name, {}).items()}
        for name in names
    }
    return Schema("mlm_cpc", text=("long",), **whole)


WITHOUT_CPC = _schema(_side(""), _MLM)
WITH_CPC = _schema(_side(""), _MLM, _side("cpc_"), _CPC)

# Rows of a tile of the kernels for TPUs.
_MULTIPLE = 128


@dataclasses.dataclass(frozen=True)
class PretrainingSizes:
    """Static lengths of a batch.

    Attributes:
      long_length, global_length: n and g, of the main input.
      mlm_capacity: p, MLM targets of an example.
      cpc_long_length, cpc_global_length: m and s, tokens and number of the sentences
        masked for CPC in an example; both 0 for no CPC.
    """

    long_length: int
    global_length: int
    mlm_capacity: int
    cpc_long_length: int = 0
    cpc_global_length: int = 0

    def __post_init__(self):
        least = 1 if self.has_cpc else 0
        for name, low in (
            ("long_length", 1),
            ("global_length", 1),
            ("mlm_capacity", 1),
            ("cpc_long_length", least),
            ("cpc_global_length", least),
        ):
            if getattr(self, name) < low:
                also = "; CPC needs both cpc_ lengths, or neither" * ("cpc" in name)
                raise ValueError(
                    f"{name} is {getattr(self, name)}, expected {low} or more{also}"
                )
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

    @property
    def has_cpc(self) -> bool:
        """Whether batches have the inputs of CPC."""
        return bool(self.cpc_long_length or self.cpc_global_length)

    @classmethod
    def default(
        cls,
        long_length: int,
        global_length: int,
        shares: masking.MaskingShares | None = None,
        *,
        max_sentence_tokens: int = MAX_SENTENCE_TOKENS,
        **capacities: int,
    ) -> PretrainingSizes:
        """Capacities with room to spare: MLM 1.25 times, CPC 1.5 times the mean need.

        Tokens of CPC fill whole tiles of a TPU, for what a layer would pad otherwise.

        Args:
          long_length: n.
          global_length: g.
          shares: what is masked; no CPC where `shares.cpc` is 0.
          max_sentence_tokens: longest sentence of the windows.
          **capacities: any of the three capacities, to set it by hand.
        """
        shares = shares or masking.MaskingShares()
        usual = {"mlm_capacity": masking.mlm_capacity(long_length, shares.mlm)}
        if shares.cpc:
            # Short windows mask one or two sentences, whose lengths vary too much for
            # a multiple of the mean: leave room for a longest sentence.
            tokens = max(1.5 * shares.cpc * long_length, max_sentence_tokens)
            sentences = 1.5 * shares.cpc * global_length
            capacity = masking.capacity(tokens, long_length, _MULTIPLE)
            usual["cpc_long_length"] = capacity
            usual["cpc_global_length"] = masking.capacity(sentences, global_length)
        return cls(long_length, global_length, **(usual | capacities))


def schema_of(sizes: PretrainingSizes) -> Schema:
    """Of the batches of these sizes."""
    return WITH_CPC if sizes.has_cpc else WITHOUT_CPC


def empty_batch(rows: int, sizes: PretrainingSizes, ids: TokenIds) -> Batch:
    """A batch of padding, with zero weights."""
    schema = schema_of(sizes)
    axes = ("long", "global", "mlm", "cpc_long", "cpc_global")
    lengths = dict(zip(axes, dataclasses.astuple(sizes), strict=True))
    arrays = schema.empty(rows, lengths)
    for name in schema.tables:
        if name.endswith("_tokens"):
            arrays[name][:] = ids.pad
    return schema.batch(arrays)


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
    # Most windows: no need to look at one sentence after the other.
    wanted = lengths[selected]
    all_fit = (
        len(selected) <= sizes.cpc_global_length
        and wanted.sum() <= sizes.cpc_long_length
    )
    if all_fit:
        return np.sort(selected)
    fitting, room = [], sizes.cpc_long_length
    for sentence, length in zip(selected.tolist(), wanted.tolist(), strict=True):
        if length <= room and len(fitting) < sizes.cpc_global_length:
            fitting.append(sentence)
            room -= length
    return np.array(sorted(fitting), np.int64)


def build_row(
    batch: Batch,
    row: int,
    window: PackedWindow,
    rng: np.random.Generator,
    *,
    ids: TokenIds,
    shares: masking.MaskingShares,
    sizes: PretrainingSizes,
) -> None:
    """Draws masks for a window and writes the example into a row of an empty batch.

    Args:
      batch: of `empty_batch`.
      row: which row.
      window: the text.
      rng: `masking.generator` of this example.
      ids: special ids.
      shares: what is masked.
      sizes: of the batch.
    """
    selected = masking.select_cpc_sentences(rng, len(window.lengths), shares.cpc)
    fitting = fitting_sentences(selected, window.lengths, sizes)
    if sizes.has_cpc:
        batch["cpc_overflow"][row] = len(selected) - len(fitting)
    fill_row(batch, row, window, fitting, rng, ids=ids, shares=shares)


def fill_row(
    batch: Batch,
    row: int,
    window: PackedWindow,
    cpc_sentences: np.ndarray,
    rng: np.random.Generator,
    *,
    ids: TokenIds,
    shares: masking.MaskingShares,
) -> None:
    """Writes one example, whose masked sentences are given, into a row.

    Args:
      batch: of `empty_batch`.
      row: which row.
      window: the text.
      cpc_sentences: int `[k]`, those to mask for CPC, ascending, such that they fit.
      rng: draws of the MLM masking.
      ids: special ids.
      shares: what is masked.
    """
    num_tokens, num_segments = len(window.tokens), len(window.lengths)
    masked = np.zeros(num_segments, bool)
    masked[cpc_sentences] = True
    # A sentence is masked whole: [tokens].
    masked_tokens = np.repeat(masked, window.lengths)

    long_tokens = batch["long_tokens"][row, :num_tokens]
    long_tokens[:] = window.tokens
    long_tokens[masked_tokens] = ids.mask
    batch["global_tokens"][row, :num_segments] = np.where(
        masked, ids.cpc_mask, ids.sentence
    )
    _fill_structure(batch["structure"], row, window.lengths, window.piece_ids)
    if len(cpc_sentences):
        _fill_cpc(batch, row, window, cpc_sentences, window.tokens[masked_tokens], ids)
    # MLM draws from what CPC has left (appendix C).
    shown = np.flatnonzero(~masked_tokens)
    mask_tokens(
        batch,
        row,
        "long_tokens",
        shown,
        window.word_starts[shown],
        rng,
        shares=shares,
        mask_id=ids.mask,
        random_ids=ids.regular_ids,
    )


def _fill_structure(structure, row, lengths, example_ids) -> None:
    """The rows of `builders.packed_documents`, written in place."""
    tokens, segments = int(lengths.sum()), len(lengths)
    structure.long_example_ids[row, :tokens] = np.repeat(example_ids, lengths)
    structure.global_example_ids[row, :segments] = example_ids
    structure.links[row, :tokens, 0] = np.repeat(np.arange(segments), lengths)


def _fill_cpc(batch, row, window, sentences, tokens, ids) -> None:
    count = len(sentences)
    batch["cpc_long_tokens"][row, : len(tokens)] = tokens
    batch["cpc_global_tokens"][row, :count] = ids.sentence
    batch["cpc_positions"][row, :count] = sentences
    batch["cpc_weights"][row, :count] = 1.0
    batch["cpc_documents"][row, :count] = window.documents[sentences]
    lengths, own_ids = window.lengths[sentences], np.arange(1, count + 1)
    _fill_structure(batch["cpc_structure"], row, lengths, own_ids)


class PretrainingRows:
    """Rows of MLM and CPC; see `text_reader.RowBuilder`."""

    def __init__(
        self, ids: TokenIds, sizes: PretrainingSizes, shares: masking.MaskingShares
    ):
        """See the class.

        Args:
          ids: special ids, `Tokenizer.token_ids`.
          sizes: lengths of the batch; windows must fit in.
          shares: what is masked.
        """
        self.schema = schema_of(sizes)
        self._ids, self._sizes, self._shares = ids, sizes, shares

    def empty(self, rows: int) -> Batch:
        return empty_batch(rows, self._sizes, self._ids)

    def fill(
        self, batch: Batch, row: int, window: PackedWindow, rng: np.random.Generator
    ) -> Overflow:
        build_row(
            batch,
            row,
            window,
            rng,
            ids=self._ids,
            shares=self._shares,
            sizes=self._sizes,
        )
        cpc = int(batch["cpc_overflow"][row]) if self._sizes.has_cpc else 0
        return Overflow(int(batch["mlm_overflow"][row]), cpc)


def check_together(
    cache: TokenCache,
    plan: PackingPlan,
    ids: TokenIds,
    sizes: PretrainingSizes,
    shares: masking.MaskingShares,
) -> None:
    """Raises ValueError unless text, windows, vocabulary, sizes and shares agree."""
    if plan.segment_offsets[-1] != cache.num_tokens:
        raise ValueError(
            f"the plan covers {plan.segment_offsets[-1]} tokens, but {cache.path} has "
            f"{cache.num_tokens}; make the plan from this cache"
        )
    if ids.vocab_size != cache.header["vocab_size"]:
        raise ValueError(
            f"ids are of a vocabulary of {ids.vocab_size}, but {cache.path} was made "
            f"with one of {cache.header['vocab_size']}; use the same tokenizer"
        )
    for name in ("long_length", "global_length"):
        got, room = getattr(plan, name), getattr(sizes, name)
        if got > room:
            raise ValueError(
                f"the plan packs windows of {name} {got}, but sizes.{name} is {room}; "
                "pack with the sizes of the batch"
            )
    check_shares(sizes, shares, plan.global_tokens)


def check_shares(
    sizes: PretrainingSizes, shares: masking.MaskingShares, global_tokens: str | None
) -> None:
    """Raises ValueError unless sizes and shares agree on CPC, and segments allow it.

    Args:
      sizes: of the batch.
      shares: what is masked.
      global_tokens: what a segment is, see `packing.pack`.
    """
    if global_tokens == "fixed_blocks" and (sizes.has_cpc or shares.cpc):
        raise ValueError(
            "global_tokens is 'fixed_blocks', but CPC masks sentences; pack with "
            "'sentences', or leave out CPC: shares.cpc 0 and no cpc_ lengths"
        )
    if sizes.has_cpc != bool(shares.cpc):
        raise ValueError(
            f"shares.cpc is {shares.cpc}, but sizes.cpc_long_length is "
            f"{sizes.cpc_long_length}; CPC needs a share and room, no CPC neither: "
            "PretrainingSizes.default takes the shares"
        )
