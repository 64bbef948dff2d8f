"""Where each family of vocabularies keeps its special tokens: tables, not code.

Official ETC writes some of them as numbers and looks others up by name; so do the
tables. An entry is a piece (str), an id (int) at which a reserved piece must stand, or
None if the family has no such token.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

import numpy as np


@dataclasses.dataclass(frozen=True)
class TokenIds:
    """The ids that building examples needs to know.

    Attributes:
      pad: padding, long and global.
      sentence: global token of a sentence.
      cpc_mask: global token of a sentence whose tokens are masked for CPC.
      mask: long token in place of a masked one.
      regular_ids: (first, one past last) of the ids that stand for text: what random
        replacements of MLM are drawn from.
      vocab_size: number of ids.
    """

    pad: int
    sentence: int
    cpc_mask: int
    mask: int
    regular_ids: tuple[int, int]
    vocab_size: int


@dataclasses.dataclass(frozen=True)
class SpecialTokens:
    """The special tokens of one family of vocabularies.

    Attributes:
      reserved: regular expression of the pieces that never stand for text.
      pad: padding, long and global.
      sentence: global token of a sentence.
      cpc_mask: global token of a sentence masked for CPC.
      mask: long token in place of one masked for MLM.
      cls, sep: first token and separator of a long input.
      question, candidate, paragraph: global tokens of multi-hop tasks.
      nq_cls, nq_sep: first token and separator in Natural Questions.
      nq_question: global token of a Natural Questions question.
      nq_html_start, nq_html_end: around parts of a Natural Questions page.
      pair_separators: how many separators stand between two texts.
    """

    reserved: str
    pad: str | int | None
    sentence: str | int | None
    cpc_mask: str | int | None
    mask: str | int | None
    cls: str | int | None = None
    sep: str | int | None = None
    question: str | int | None = None
    candidate: str | int | None = None
    paragraph: str | int | None = None
    nq_cls: str | int | None = None
    nq_sep: str | int | None = None
    nq_question: str | int | None = None
    nq_html_start: str | int | None = None
    nq_html_end: str | int | None = None
    pair_separators: int = 1

    def is_reserved(self, piece: str) -> bool:
        """Whether a piece never stands for text."""
        return re.fullmatch(self.reserved, piece) is not None


_NO_ROLES = ("reserved", "pair_separators")
ROLES = tuple(
    f.name for f in dataclasses.fields(SpecialTokens) if f.name not in _NO_ROLES
)

_OF_BERT = {
    "mask": "[MASK]",
    "cls": "[CLS]",
    "sep": "[SEP]",
    "nq_cls": "[CLS]",
    "nq_sep": "[SEP]",
}
_OF_FAIRSEQ = {"pad": "<pad>", "sentence": "</s>", "cpc_mask": "<s>"}

# Official ETC over a BERT vocabulary. The numbers hold for cased ones too, whose
# unused tokens have other names.
WORDPIECE = SpecialTokens(
    reserved=r"\[(PAD|UNK|CLS|SEP|MASK|unused\d+)\]",
    pad="[PAD]",
    sentence=1,
    cpc_mask=2,
    question=3,
    candidate=4,
    paragraph=5,
    nq_question=35,
    nq_html_start="[unused102]",
    nq_html_end="[unused103]",
    **_OF_BERT,
)

# Official ETC over a sentencepiece model of the RoBERTa vocabulary, in which
# <unused_n> has the id n + 1. How its MLM mask was called is not published.
SENTENCEPIECE = SpecialTokens(
    reserved=r"<(pad|s|/s|unk|mask|unused_\d+|extra_id_\d+)>",
    **_OF_FAIRSEQ,
    mask="<mask>",
    cls=40,
    question=41,
    candidate=42,
    paragraph=43,
    nq_cls="<unused_63>",
    nq_sep="<unused_2>",
    nq_question=35,
    nq_html_start="<unused_35>",
    nq_html_end="<unused_36>",
)

# RoBERTa and BART. Official ETC has no models with this vocabulary: sentence and CPC
# mask follow the names in the sentencepiece table.
BYTE_LEVEL = SpecialTokens(
    reserved=r"<(s|pad|/s|unk|mask|\|endoftext\|)>|madeupword\d+",
    **_OF_FAIRSEQ,
    mask="<mask>",
    cls="<s>",
    sep="</s>",
    nq_cls="<s>",
    nq_sep="</s>",
    pair_separators=2,
)


# Of a sentencepiece model that has the special tokens of BERT as well (Zaheer et al.
# 2020). There is no ETC with it: sentence and CPC mask follow the table above.
SENTENCEPIECE_OF_BERT = SpecialTokens(
    reserved=r"<(pad|s|/s|unk)>|\[(CLS|SEP|MASK)\]",
    **_OF_FAIRSEQ,
    **_OF_BERT,
)

# Name in tokenizer_config.json -> what it may be called in a vocabulary.
NAMED = {
    "bos_token": ("<s>",),
    "eos_token": ("</s>",),
    "unk_token": ("[UNK]", "<unk>"),
    "pad_token": ("[PAD]", "<pad>"),
    "cls_token": ("[CLS]", "<s>"),
    "sep_token": ("[SEP]", "</s>"),
    "mask_token": ("[MASK]", "<mask>"),
}


def resolve(special: SpecialTokens, pieces: Sequence[str]) -> dict[str, int]:
    """`{role: id}` of the roles that a vocabulary has.

    Args:
      special: the family.
      pieces: `[vocab_size]` pieces in the order of ids.
    """
    index = {piece: i for i, piece in enumerate(pieces)}
    ids = {}
    for role in ROLES:
        entry = getattr(special, role)
        if isinstance(entry, str) and entry in index:
            ids[role] = index[entry]
        elif isinstance(entry, int) and entry < len(pieces):
            if special.is_reserved(pieces[entry]):
                ids[role] = entry
    return ids


def describe(special: SpecialTokens, role: str) -> str:
    """What a vocabulary would need for a role, in words for an error."""
    entry = getattr(special, role)
    if entry is None:
        return f"{role} (this kind of vocabulary has none)"
    if isinstance(entry, int):
        return f"{role} (a piece like {special.reserved} with id {entry})"
    return f"{role} ({entry})"


def longest_run(regular: np.ndarray) -> tuple[int, int]:
    """(first, one past last) of the longest run of True; the first of equal ones.

    Special tokens stand at both ends of some vocabularies and among the first text
    pieces of others: the run leaves out a handful of regular ids at most.

    Args:
      regular: bool `[vocab_size]`.
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], regular, [False]])))
    if not len(edges):
        return (0, 0)
    # Edges alternate: a run begins, a run ends.
    starts, stops = edges[::2], edges[1::2]
    best = int(np.argmax(stops - starts))
    return int(starts[best]), int(stops[best])
