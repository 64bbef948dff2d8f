"""What differs among encoders of one sequence as Hugging Face writes them.

A family is an `EncoderFamily`, registered as "encoder_family" under the name that its
configs have here and in config.json.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from etc_jax.base import registry
from etc_jax.base.rules import Rule


class EncoderFamily(NamedTuple):
    """Names and keys of one family.

    Attributes:
      classes: what the names of its classes begin with.
      bodies: what stands before the names of the body where there is a head; the first
        one is written.
      mlm: (start of a name there, start of the name in `families.bert`) of the head of
        masked tokens; the first that fits counts.
      pooler: start of the names of the pooler.
      answers: what stands before the names of the layer of spans.
      defaults: key -> what transformers takes where a config.json is silent, if that is
        not BERT's.
      rules: what the value of a key may be that the others do not have.
      fields_from: dict of a config.json, filled with defaults -> more fields of the
        config.
      values_to: config -> more keys of its config.json. Raises ValueError for what
        transformers cannot compute.
    """

    classes: str
    bodies: tuple[str, ...]
    mlm: tuple[tuple[str, str], ...]
    pooler: str = "pooler.dense"
    answers: str = ""
    defaults: Mapping[str, Any] = {}
    rules: Mapping[str, Rule] = {}
    fields_from: Callable[[Mapping[str, Any]], dict[str, Any]] = lambda values: {}
    values_to: Callable[[Any], dict[str, Any]] = lambda config: {}


def facts_of(family: str) -> EncoderFamily:
    """What is registered of a family.

    Raises:
      KeyError: if that is none of encoders of one sequence.
    """
    return registry.lookup("encoder_family", family)
