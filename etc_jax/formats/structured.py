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
from typing import Any, ClassVar

import numpy as np

from etc_jax import structure as st
from etc_jax.base import registry
from etc_jax.base.types import Rows
from etc_jax.data.input_files import BadRecordError
from etc_jax.data.schema import ID_DTYPE, Field, Schema
from etc_jax.data.windows.token_types import GLOBAL_TYPE
from etc_jax.data.windows.window import InputSizes, Window


@dataclasses.dataclass(frozen=True)
class StructuredSizes(InputSizes):
    """Lengths of an input, padding included.

    Attributes:
      long_length: n, long tokens.
      global_length: g, global tokens.
    """

    text_field: ClassVar = "long_length"

    long_length: int
    global_length: int


def _structure(axis: str, **kwargs) -> Field:
    return Field(axis, stored="int16", by_run=axis == "long", **kwargs)


def _exempt(axis: str) -> Field:
    return Field(axis, "bool", by_run=axis == "long")


SCHEMA = Schema(
    "structured",
    fields={
        "long_tokens": Field("long", stored=ID_DTYPE),
        "long_types": Field("long", stored="uint8", by_run=True),
        "global_tokens": Field("global", stored=ID_DTYPE),
        "global_types": Field("global", stored="uint8"),
        "structure.long_example_ids": _structure("long"),
        "structure.long_segment_ids": _structure("long"),
        "structure.exempt_l2g": _exempt("long"),
        "structure.links": Field("long", "int16", (1,), padding=-1, by_run=True),
        "structure.global_example_ids": _structure("global"),
        "structure.order_ids": _structure("global"),
        "structure.exempt_g2l": _exempt("global"),
        "structure.parent": _structure("global", padding=-1),
    },
    lengths={"long": "long_length", "global": "global_length"},
    text=("long",),
    marks={
        "long": "structure.long_example_ids",
        "global": "structure.global_example_ids",
    },
    tables={
        "long_tokens": "vocab_size",
        "global_tokens": "vocab_size",
        "long_types": "num_types",
        "global_types": "num_types",
    },
    optional=frozenset(
        f"structure.{field.name}"
        for field in dataclasses.fields(st.Structure)
        if field.default is None
    ),
    groups={"structure": st.Structure},
)
registry.register("format", SCHEMA.name)(SCHEMA)


@dataclasses.dataclass(frozen=True)
class StructuredWindow(Window):
    """Long and global tokens with the structure of both.

    Attributes:
      tokens: ids, int32 `[n]` and `[g]`; 0 in padding.
      types: token types, int32 `[n]` and `[g]`; 0 in padding.
      structure: who sees whom, vectors only.
    """

    schema: ClassVar = SCHEMA

    tokens: Rows
    types: Rows
    structure: st.Structure

    def arrays(self) -> dict[str, np.ndarray]:
        """See `Window.arrays`; shapes as of the attributes, `[length]`."""
        vectors = {f"structure.{name}": x for name, x in vars(self.structure).items()}
        return {
            "long_tokens": self.tokens.long,
            "global_tokens": self.tokens.global_,
            "long_types": self.types.long,
            "global_types": self.types.global_,
            **{name: x for name, x in vectors.items() if x is not None},
        }


class Layout:
    """Grows an input token by token.

    A long token is tied to the global token of its sentence, that of its paragraph, and
    one of which it is a mention; -1 for none.
    """

    def __init__(self, sizes: StructuredSizes):
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
        # [runs] -> [tokens].
        return np.repeat(runs[:, field], runs[:, 0])

    def fields(
        self,
        *,
        exempt: Sequence[int] = (0,),
        mentions: bool = False,
        flat: bool = False,
    ) -> dict[str, Any]:
        """Tokens, types and structure of a `StructuredWindow`; see `structure`."""
        structure = self.structure(exempt=exempt, mentions=mentions, flat=flat)
        return {"tokens": self.tokens(), "types": self.types(), "structure": structure}

    def structure(
        self, *, exempt: Sequence[int], mentions: bool, flat: bool
    ) -> st.Structure:
        """The structure of the tokens.

        Args:
          exempt: global tokens that a hard g2l mask does not bind.
          mentions: whether there is a column of mentions.
          flat: the ablation without structure above sentences.
        """
        # Groups count from 1; padding is in group 0.
        long, glob = self.pad(Rows(self._of_runs(2), self._global_groups), 0)
        # Columns: sentence, paragraph, the candidate that a token is a mention of.
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
