"""Weights of fairseq under one set of names, whatever version saved them.

Attention has queries, keys and values in arrays of their own, as
`encoder.layers.0.self_attn.q_proj.weight`. Other versions have them in one:

    0.8 and before   `self_attn.in_proj_weight`, [3 * embed_dim, embed_dim]
    0.12             `encoder.layers.0.in_proj_weight` and the like: copies that its
                     fast path makes when a model is loaded. Training does not keep
                     them up to date, and fairseq overwrites them when it loads the
                     file, so that they count only where the usual names are missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

_FUSED = re.compile(
    r"((?:en|de)coder\.layers\.\d+\.(?:self|encoder)_attn\.)in_proj_(weight|bias)"
)
# Of the fast path, of the encoder alone.
_FAST = re.compile(r"(encoder\.layers\.\d+\.)(in_proj|out_proj|fc1|fc2)_(weight|bias)")
_USUAL = {
    "in_proj": "self_attn.in_proj_",
    "out_proj": "self_attn.out_proj.",
    "fc1": "fc1.",
    "fc2": "fc2.",
}
_PARTS = ("q_proj", "k_proj", "v_proj")


class _Origin(NamedTuple):
    """An array of the checkpoint, or a third of one along its first axis."""

    name: str
    third: int | None = None


class UsualLayout(Mapping[str, np.ndarray]):
    """Name -> array, with queries, keys and values apart.

    Args:
      source: name of fairseq -> array; may be lazy.
    """

    def __init__(self, source: Mapping[str, np.ndarray]):
        self._source = source
        self._origins: dict[str, _Origin] = {}
        others = []
        for name in source:
            if _FUSED.fullmatch(name) or _FAST.fullmatch(name):
                others.append(name)
            else:
                self._origins[name] = _Origin(name)
        # Where both are there, one array of an attention is newer than the fast path's.
        for name in sorted(others, key=lambda name: bool(_FAST.fullmatch(name))):
            for usual, origin in _usual_names(name):
                self._origins.setdefault(usual, origin)

    def __len__(self) -> int:
        return len(self._origins)

    def __iter__(self) -> Iterator[str]:
        return iter(self._origins)

    def __getitem__(self, name: str) -> np.ndarray:
        original, third = self._origins[name]
        array = self._source[original]
        if third is None:
            return array
        if len(array) % len(_PARTS):
            raise ValueError(
                f"{original} has {len(array)} rows; expected as many of queries, keys "
                "and values each"
            )
        return np.split(array, len(_PARTS))[third]

    def original(self, name: str) -> str:
        """What the checkpoint calls the array that one is, or is part of."""
        return self._origins[name].name if name in self._origins else name


def _usual_names(name: str) -> Iterator[tuple[str, _Origin]]:
    """(usual name, origin) of each array that is in one of another version."""
    usual = name
    if match := _FAST.fullmatch(name):
        usual = f"{match[1]}{_USUAL[match[2]]}{match[3]}"
    if match := _FUSED.fullmatch(usual):
        for i, part in enumerate(_PARTS):
            yield f"{match[1]}{part}.{match[2]}", _Origin(name, i)
    else:
        yield usual, _Origin(name)
