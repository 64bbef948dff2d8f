"""Encoders made long: BERT or RoBERTa as a Longformer, a BigBird or an ETC.

Positions go on with copies of those that were learnt, block by block, and the
projections of global tokens begin as copies of the others (Beltagy et al. 2020, section
5). On an input short enough that every token sees every other one, the long model says
what the short one did; that is checked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from etc_jax.conversion.formats.native import family_of
from etc_jax.conversion.surgery import extend_encoder, extend_etc
from etc_jax.conversion.surgery.extend_parts import (
    Extended,
    Extension,
    check_difference,
    length_of,
)
from etc_jax.models.encoder_config import (
    BertConfig,
    BigBirdConfig,
    EncoderConfig,
    LongformerConfig,
    RobertaConfig,
)

# Target -> what it can be made of.
_SOURCES = {
    "longformer": (BertConfig, RobertaConfig, LongformerConfig),
    "big_bird": (BertConfig, RobertaConfig, BigBirdConfig),
    "etc": (BertConfig, RobertaConfig),
}
TARGETS = tuple(_SOURCES)
# Option -> targets that have it.
_READERS = {
    "window": ("longformer", "etc"),
    "block_size": ("big_bird",),
    "num_globals": ("big_bird",),
    "copy_global": ("longformer",),
}


def extend(
    params: Mapping[str, Any], config: EncoderConfig, asked: Extension
) -> Extended:
    """A long model that begins with the weights of a shorter one.

    Args:
      params: of a model of `models.encoder` or `models.encoder_heads`.
      config: of that model.
      asked: what is made of it.

    Raises:
      ValueError: if that cannot be made of the source, or the result differs from it on
        short inputs.
    """
    _check(config, asked)
    to = extend_etc if asked.to == "etc" else extend_encoder
    made = to.extend(params, dataclasses.replace(config, dtype="float32"), asked)
    check_difference(made.difference, "the model and the long one")
    return made


def _check(config: EncoderConfig, asked: Extension) -> None:
    sources = _SOURCES.get(asked.to)
    if sources is None:
        raise ValueError(f"to is {asked.to!r}; expected one of {', '.join(TARGETS)}")
    if type(config) not in sources:
        names = ", ".join(c.__name__.removesuffix("Config") for c in sources)
        raise ValueError(
            f"the source is of the family {family_of(config)}; what becomes a "
            f"{asked.to} is {names}"
        )
    if config.positions != "learnt":
        raise ValueError(
            f"the source has positions {config.positions!r}, which no table limits; "
            "set model.max_length of a run that starts from it"
        )
    wanted = length_of(config, asked)
    if wanted < config.max_length:
        raise ValueError(
            f"max_length is {wanted}, but the source has {config.max_length} positions "
            "already; ask for as many or more"
        )
    for name, readers in _READERS.items():
        value = getattr(asked, name)
        # Not `in`: 0 is asked for, and equals False.
        given = value is not None and value is not False
        if given and asked.to not in readers:
            raise ValueError(
                f"{name} is {value}, which is not asked of a {asked.to}; leave it out"
            )
