"""Structures from what people have: text, packed documents, trees, links, blocks.

All of it is numpy on the host, one input at a time (no batch dimension); stack the
results with `jax.tree.map(lambda *x: np.stack(x), *structures)`.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from etc_jax.base.rules import at_least
from etc_jax.structure import LINK_DTYPE, Rules as _Rules, Structure, validate


def _padded(values: np.ndarray, length: int, fill: int, what: str) -> np.ndarray:
    if len(values) > length:
        raise ValueError(
            f"{len(values)} {what} tokens do not fit in length {length}; "
            "truncate the input or raise the length"
        )
    out = np.full((length, *values.shape[1:]), fill, values.dtype)
    out[: len(values)] = values
    return out


def packed_documents(
    documents: Sequence[Sequence[int]],
    *,
    long_length: int | None = None,
    global_length: int | None = None,
) -> Structure:
    """Documents side by side, each a list of sentence lengths in tokens.

    Every sentence gets one global token, in order (paper, section 3.3). Documents
    are examples 1, 2, ...: nothing is visible across them.

    Args:
      documents: for each document, the number of long tokens of each sentence.
      long_length: padded length of the long input; None leaves no padding.
      global_length: padded length of the global input; None leaves no padding.

    Raises:
      ValueError: if the tokens or sentences do not fit.
    """
    sentences = np.concatenate(
        [np.asarray(d, np.int64).reshape(-1) for d in documents] or [np.zeros(0, int)]
    )
    if np.any(sentences < 0):
        raise ValueError(f"a sentence has {sentences.min()} tokens; expected 0 or more")
    owner = np.repeat(np.arange(1, len(documents) + 1), [len(d) for d in documents])
    link = np.repeat(np.arange(len(sentences)), sentences)
    n = len(link) if long_length is None else long_length
    g = len(sentences) if global_length is None else global_length
    return _checked(
        Structure(
            long_example_ids=_padded(
                np.repeat(owner, sentences).astype(np.int32), n, 0, "long"
            ),
            global_example_ids=_padded(owner.astype(np.int32), g, 0, "global"),
            links=_padded(link.astype(LINK_DTYPE)[:, None], n, -1, "long"),
        )
    )


def plain_text(sentence_lengths: Sequence[int], **lengths) -> Structure:
    """One document with one global token a sentence; see `packed_documents`."""
    return packed_documents([sentence_lengths], **lengths)


def fixed_blocks(
    num_tokens: int,
    tokens_per_block: int,
    *,
    long_length: int | None = None,
    global_length: int | None = None,
) -> Structure:
    """One global token for every `tokens_per_block` long tokens (paper, section 4.2).

    The links of padding go on counting blocks, as the official inputs do.

    Raises:
      ValueError: if the blocks do not fit.
    """
    at_least(1).check(tokens_per_block=tokens_per_block)
    n = num_tokens if long_length is None else long_length
    blocks = -(-n // tokens_per_block)
    g = blocks if global_length is None else global_length
    used = -(-num_tokens // tokens_per_block)
    links = np.arange(n) // tokens_per_block
    return _checked(
        Structure(
            long_example_ids=_padded(np.ones(num_tokens, np.int32), n, 0, "long"),
            global_example_ids=_padded(np.ones(used, np.int32), g, 0, "global"),
            links=np.where(links < g, links, -1).astype(LINK_DTYPE)[:, None],
        )
    )


@dataclasses.dataclass(frozen=True)
class Sentence:
    """A run of long tokens with its own global token."""

    num_tokens: int


@dataclasses.dataclass(frozen=True)
class Context:
    """Sentences in order, under one global token of their own.

    Contexts have no order among themselves: their global tokens are of different
    orders and long tokens do not see across (paper, section 3.4 and appendix F).
    """

    sentences: tuple[Sentence, ...]


def tree(
    contexts: Sequence[Context],
    *,
    long_length: int | None = None,
    global_length: int | None = None,
) -> Structure:
    """Contexts -> sentences -> tokens; a context's global token comes first.

    Raises:
      ValueError: if the tokens or the global tokens do not fit.
    """
    sentence, paragraph, segment = [], [], []
    order, parent = [], []
    for c, context in enumerate(contexts):
        top = len(order)
        order.append(c)
        parent.append(-1)
        for s in context.sentences:
            index = len(order)
            order.append(c)
            parent.append(top)
            sentence += [index] * s.num_tokens
            paragraph += [top] * s.num_tokens
            segment += [c] * s.num_tokens
    n = len(segment) if long_length is None else long_length
    g = len(order) if global_length is None else global_length
    links = np.array([sentence, paragraph], LINK_DTYPE).reshape(2, -1).T
    ones = lambda k: np.ones(k, np.int32)  # noqa: E731
    return _checked(
        Structure(
            long_example_ids=_padded(ones(len(segment)), n, 0, "long"),
            global_example_ids=_padded(ones(len(order)), g, 0, "global"),
            links=_padded(links, n, -1, "long"),
            long_segment_ids=_padded(np.array(segment, np.int32), n, -1, "long"),
            order_ids=_padded(np.array(order, np.int32), g, -1, "global"),
            parent=_padded(np.array(parent, np.int32), g, -1, "global"),
        )
    )


def with_links(
    structure: Structure, ties: Sequence[tuple[int, int, int]], *, column: int
) -> Structure:
    """Adds ties between global tokens and spans of long tokens, in one link column.

    Args:
      structure: of one input, without batch dimension.
      ties: (global token, first long token, one past the last long token). Where spans
        overlap, the last one stands.
      column: which column of `Rules.links` the ties belong to (2: mention).

    Raises:
      ValueError: if a tie points outside the input.
    """
    n, g = structure.long_length, structure.global_length
    width = max(structure.links.shape[-1], column + 1)
    links = np.full((n, width), -1, LINK_DTYPE)
    links[:, : structure.links.shape[-1]] = structure.links
    for target, start, stop in ties:
        if not (0 <= target < g and 0 <= start < stop <= n):
            raise ValueError(
                f"tie (global {target}, long {start}:{stop}) is outside an input of "
                f"{g} global and {n} long tokens"
            )
        links[start:stop, column] = target
    return dataclasses.replace(structure, links=links)


def _checked(structure: Structure) -> Structure:
    validate(structure, _Rules(radius=1))
    return structure
