"""What a field of a model's config means for parameters that were trained without it.

A run may begin with the parameters of another model (`checkpoint.init_from`). Each
field says here, where it is declared, whether the two models may differ in it:

    embed_dim: int = sized(768)       decides shapes, which are compared themselves
    dropout_rate: float = free(0.1)   may be another one: what was learnt stays true
    bos_id: int = of_vocabulary(0)    the same, but it goes with the model's vocabulary
    radius: int = 84                  must be the same: no shape shows it
"""

from __future__ import annotations

import dataclasses
from typing import Any

_KEY = "init_from"


def sized(default: Any) -> Any:
    """A field that the shapes or the paths of parameters show."""
    return dataclasses.field(default=default, metadata={_KEY: "sized"})


def free(default: Any) -> Any:
    """A field that changes neither what parameters mean nor what they compute.

    Rounding and noise do not count: dtypes, dropout, how a computation is cut.
    """
    return dataclasses.field(default=default, metadata={_KEY: "free"})


def of_vocabulary(default: Any) -> Any:
    """An id of a token that changes what is written, and nothing that was learnt.

    Unlike a free field it is that of the other model, unless it is given.
    """
    return dataclasses.field(default=default, metadata={_KEY: "vocabulary"})


def must_agree(cls: type) -> list[str]:
    """The fields of a model's config for which none of these is declared.

    A subclass may give a field another default without saying again what it is.
    """
    families = [base for base in cls.__mro__ if dataclasses.is_dataclass(base)]
    declared = {
        field.name
        for base in families
        for field in dataclasses.fields(base)
        if _KEY in field.metadata
    }
    return [f.name for f in dataclasses.fields(cls) if f.name not in declared]


def is_free(cls: type, name: str) -> bool:
    """Whether a field of a model's config is free; see `must_agree` on subclasses."""
    return any(
        field.name == name and field.metadata.get(_KEY) == "free"
        for base in cls.__mro__
        if dataclasses.is_dataclass(base)
        for field in dataclasses.fields(base)
    )
