"""Inputs of questions over several contexts (ETC paper, sections 3.4 and 4.2).

An input is a row of groups: the question, then contexts, for WikiHop the candidates
before them. Groups are apart from each other: long tokens see their own group only
(`long_segment_ids`), and global tokens of different groups have no distance
(`order_ids`). Within a context there is a global token for the whole and one a
sentence, to which the sentence's long tokens are tied.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from etc_jax import structure as st
from etc_jax.data.input_files import BadRecordError
from etc_jax.data.token_types import GLOBAL_TYPE
from etc_jax.types import Rows


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Lengths of an input, padding included.

    Attributes:
      long_length: n, long tokens.
      global_length: g, global tokens.
    """

    long_length: int
    global_length: int

    def __post_init__(self):
        if self.long_length < 1 or not 0 < self.global_length <= st.MAX_GLOBALS:
            raise ValueError(
                f"{self}: expected at least 1 long token and from 1 to "
                f"{st.MAX_GLOBALS} global tokens"
            )


@dataclasses.dataclass(frozen=True)
class Window:
    """One input for the model, and what is needed to read its outputs.

    Attributes:
      record: what the input was made of.
      tokens: ids, int32 `[n]` and `[g]`.
      types: token types, int32 `[n]` and `[g]`.
      structure: who sees whom, vectors only.
      labels: arrays to train on, by name; a task says which.
      unusable: why the window cannot be trained on; None if it can.
    """

    record: Any
    tokens: Rows
    types: Rows
    structure: st.Structure
    labels: dict[str, np.ndarray]
    unusable: str | None


def batch(windows: Sequence[Window]) -> tuple[Rows, Rows, st.Structure, dict]:
    """(tokens, types, structure, labels) of some windows, with a first axis for them.

    Raises:
      ValueError: if there is no window.
    """
    if not windows:
        raise ValueError("no window to make a batch of; expected at least one")
    fields = [f.name for f in dataclasses.fields(st.Structure)]
    vectors = {f: [getattr(w.structure, f) for w in windows] for f in fields}
    return (
        Rows(*(np.stack([w.tokens[side] for w in windows]) for side in (0, 1))),
        Rows(*(np.stack([w.types[side] for w in windows]) for side in (0, 1))),
        st.Structure(
            **{f: None if x[0] is None else np.stack(x) for f, x in vectors.items()}
        ),
        {k: np.stack([w.labels[k] for w in windows]) for k in windows[0].labels},
    )


def model_inputs(windows: Sequence[Window]) -> dict[str, Any]:
    """What a fine-tuned model takes of some windows, by the names of its batches.

    Returns:
      `long_tokens`, `long_types` `[b, n]`, `global_tokens`, `global_types` `[b, g]` and
      `structure`; see `etc_jax.objectives.finetuning`.

    Raises:
      ValueError: if there is no window.
    """
    tokens, types, structure, _ = batch(windows)
    return {
        "long_tokens": tokens.long,
        "global_tokens": tokens.global_,
        "long_types": types.long,
        "global_types": types.global_,
        "structure": structure,
    }


class Layout:
    """Grows an input token by token.

    A long token is tied to the global token of its sentence, that of its paragraph, and
    one of which it is a mention; -1 for none.
    """

    def __init__(self, sizes: Sizes):
        self.sizes = sizes
        self._long_tokens: list[int] = []
        # (number of tokens, type, group, sentence, paragraph): of each `add_long`.
        self._long_runs: list[tuple[int, int, int, int, int]] = []
        self._global_tokens: list[int] = []
        self._global_types: list[int] = []
        self._global_groups: list[int] = []
        self._mentions: list[tuple[int, int, int]] = []
        self._group = 1

    @property
    def num_long(self) -> int:
        return len(self._long_tokens)

    @property
    def num_global(self) -> int:
        return len(self._global_tokens)

    def fits(self, num_long: int, num_global: int = 1) -> bool:
        """Whether there is room for so many more tokens."""
        long = self.num_long + num_long <= self.sizes.long_length
        return long and self.num_global + num_global <= self.sizes.global_length

    def add_global(self, token: int, kind: int = GLOBAL_TYPE) -> int:
        """Adds a global token of one type; returns its index."""
        self._global_tokens.append(token)
        self._global_types.append(kind)
        self._global_groups.append(self._group)
        return self.num_global - 1

    def add_long(
        self, ids: Sequence[int], kind: int, *, sentence: int = -1, paragraph: int = -1
    ) -> int:
        """Adds long tokens of one type; returns the index of the first."""
        first = self.num_long
        self._long_tokens.extend(ids)
        self._long_runs.append((len(ids), kind, self._group, sentence, paragraph))
        return first

    def add_mention(self, target: int, first: int, last: int) -> None:
        """Ties long tokens to a global token; a later mention overwrites."""
        self._mentions.append((target, first, last))

    def close_group(self) -> None:
        """What follows is apart from what came before."""
        self._group += 1

    def tokens(self) -> Rows:
        """Ids, int32 `[n]` and `[g]`; padding is 0."""
        return self.pad(Rows(self._long_tokens, self._global_tokens), 0)

    def types(self) -> Rows:
        """Token types, int32 `[n]` and `[g]`; those of padding are 0."""
        return self.pad(Rows(self._of_runs(1), self._global_types), 0)

    def _of_runs(self, field: int) -> np.ndarray:
        """A field of the runs, for each long token."""
        runs = np.array(self._long_runs, np.int32).reshape(-1, 5)
        return np.repeat(runs[:, field], runs[:, 0])

    def structure(
        self, *, exempt: Sequence[int], mentions: bool, flat: bool
    ) -> st.Structure:
        """The structure of the tokens.

        Args:
          exempt: global tokens that a hard g2l mask does not bind.
          mentions: whether there is a column of mentions.
          flat: the ablation without structure above sentences.
        """
        long, glob = self.pad(Rows(self._of_runs(2), self._global_groups), 0)
        links = np.full((len(long), 3 if mentions else 2), -1, st.LINK_DTYPE)
        for column, field in enumerate((3, 4)):
            links[: self.num_long, column] = self._of_runs(field)
        for target, first, last in self._mentions if mentions else ():
            links[first : last + 1, 2] = target
        exempt_g2l = np.zeros(len(glob), bool)
        exempt_g2l[list(exempt)] = True
        structure = st.Structure(
            long_example_ids=np.minimum(long, 1),
            global_example_ids=np.minimum(glob, 1),
            links=links,
            long_segment_ids=long,
            order_ids=glob,
            exempt_g2l=exempt_g2l,
        )
        return st.flat(structure) if flat else structure

    def pad(self, values: Rows, fill: int) -> Rows:
        """One number a token -> int32 `[n]` and `[g]`.

        Raises:
          BadRecordError: if the tokens do not fit.
        """
        lengths = (self.sizes.long_length, self.sizes.global_length)
        if self.num_long > lengths[0] or self.num_global > lengths[1]:
            raise BadRecordError(
                "too large",
                f"{self.num_long} long and {self.num_global} global tokens, but there "
                f"is room for {lengths[0]} and {lengths[1]}; raise the lengths",
            )
        arrays = [np.full(length, fill, np.int32) for length in lengths]
        for array, row in zip(arrays, values, strict=True):
            array[: len(row)] = row
        return Rows(*arrays)
