"""Encoders made long: BERT or RoBERTa as a Longformer, a BigBird or an ETC.

And the encoders of encoder-decoders: BART's as that of a LED, T5's as LongT5's.

Positions go on with copies of those that were learnt, block by block, and the
projections of global tokens begin as copies of the others (Beltagy et al. 2020, section
5). On an input short enough that every token sees every other one, the long model says
what the short one did; that is checked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import ModuleType
from typing import Any, NamedTuple

from etc_jax.base.rules import choice
from etc_jax.conversion.formats.native import family_of
from etc_jax.conversion.surgery import extend_encoder, extend_etc, extend_pairs
from etc_jax.conversion.surgery.extend_parts import (
    Extended,
    Extension,
    check_difference,
    length_of,
)
from etc_jax.models.encoder.config import (
    BertConfig,
    BigBirdConfig,
    EncoderConfig,
    LongformerConfig,
    RobertaConfig,
)
from etc_jax.models.encoder_decoder.config import (
    BartConfig,
    EncoderDecoderConfig,
    LedConfig,
    T5Config,
)


class Target(NamedTuple):
    """A family of long models.

    Attributes:
      sources: configs of what it can be made of.
      module: makes it, by its `extend`.
      options: those of an `Extension` that it reads.
    """

    sources: tuple[type, ...]
    module: ModuleType
    options: tuple[str, ...] = ()


_SHORT = (BertConfig, RobertaConfig)
_TARGETS = {
    "longformer": Target(
        (*_SHORT, LongformerConfig), extend_encoder, ("window", "copy_global")
    ),
    "big_bird": Target(
        (*_SHORT, BigBirdConfig), extend_encoder, ("block_size", "num_globals")
    ),
    "etc": Target(_SHORT, extend_etc, ("window",)),
    "bart_ls": Target((BartConfig,), extend_pairs, ("block_size",)),
    "led": Target((BartConfig, LedConfig), extend_pairs, ("window", "copy_global")),
    "long_t5": Target((T5Config,), extend_pairs, ("window", "block_size")),
}
TARGETS = tuple(_TARGETS)
# What only some of them read.
_OPTIONS = ("window", "block_size", "num_globals", "copy_global")


def extend(
    params: Mapping[str, Any],
    config: EncoderConfig | EncoderDecoderConfig,
    asked: Extension,
) -> Extended:
    """A long model that begins with the weights of a shorter one.

    Args:
      params: of a model of `models.encoder`, `models.encoder.heads` or
        `models.encoder_decoder`.
      config: of that model.
      asked: what is made of it.

    Raises:
      ValueError: if that cannot be made of the source, or the result differs from it on
        short inputs.
    """
    _check(config, asked)
    module = _TARGETS[asked.to].module
    extended = module.extend(
        params, dataclasses.replace(config, dtype="float32"), asked
    )
    check_difference(extended.difference, "the model and the long one")
    return extended


def targets_of(family: type) -> list[str]:
    """What can be made of models of a family, given by the class of their configs."""
    return [name for name, target in _TARGETS.items() if family in target.sources]


def _check(config: EncoderConfig | EncoderDecoderConfig, asked: Extension) -> None:
    choice(TARGETS).check(to=asked.to)
    target = _TARGETS[asked.to]
    if type(config) not in target.sources:
        names = ", ".join(c.__name__.removesuffix("Config") for c in target.sources)
        raise ValueError(
            f"the source is of the family {family_of(config)}; what becomes a "
            f"{asked.to} is {names}"
        )
    wanted = length_of(config, asked)
    if wanted < config.max_length:
        raise ValueError(
            f"max_length is {wanted}, but the source has {config.max_length} positions "
            "already; ask for as many or more"
        )
    for name in _OPTIONS:
        value = getattr(asked, name)
        # Not `in`: 0 is asked for, and equals False.
        is_asked = value is not None and value is not False
        if is_asked and name not in target.options:
            raise ValueError(
                f"{name} is {value}, which is not asked of a {asked.to}; leave it out"
            )
