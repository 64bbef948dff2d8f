"""How texts are written, as configs, command lines and folders of models have it."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from etc_jax.base.rules import Problem, at_least, refuse
from etc_jax.generation import loop as generation
from etc_jax.generation.beam_search import Beams, Dialect
from etc_jax.generation.loop import Options
from etc_jax.ops import sampling
from etc_jax.ops.logit_rules import Rules

_EARLY = {"true": True, "false": False, "never": "never"}


def _ids(text: str) -> tuple[int, ...]:
    """Ids joined by commas; none of an empty text.

    Raises:
      argparse.ArgumentTypeError: if it is something else.
    """
    names = text.split(",") if text else []
    if not all(name.isdecimal() and name.isascii() for name in names):
        raise argparse.ArgumentTypeError(
            f"is {text:.60}; expected ids joined by commas, such as 5,6"
        )
    return tuple(map(int, names))


def _words(text: str) -> tuple[tuple[int, ...], ...]:
    """A JSON list of lists of ids.

    Raises:
      argparse.ArgumentTypeError: if it is something else.
    """
    try:
        words = json.loads(text)
        return tuple(_ids(",".join(map(str, word))) for word in words)
    except (ValueError, TypeError, RecursionError, argparse.ArgumentTypeError) as error:
        raise argparse.ArgumentTypeError(
            f"is {text:.60}; expected a JSON list of lists of ids, such as [[5,6],[7]]"
        ) from error


def _read(read: Any, metavar: str) -> Any:
    return dataclasses.field(default=None, metadata={"read": read, "metavar": metavar})


@dataclasses.dataclass(frozen=True)
class GenerationConfig:
    """What `Options` are made of; the lines on each field are the help of its flag.

    A field of None is as the model's folder says (generation_config.json), or else as
    transformers has it. Ids are those of the model's vocabulary.

    Attributes:
      num_tokens: to write at most; default: 200, or the longest target of the model.
      temperature: of the draws; 0: the likeliest token each time; default: 1 of a
        language model, 0 of an encoder-decoder.
      top_k: draws are of so many likeliest tokens; 0: of all.
      top_p: draws are of the likeliest tokens whose probabilities reach this.
      num_texts: of each input, the best of the beams.
      num_beams: texts that go on side by side in a beam search, such as 4.
      length_penalty: power of the length that scores are divided by; 2 is for longer
        texts.
      early_stopping: true: the search ends with as many texts as beams; never: when no
        beam could be better at any length.
      dialect: of scores; t5x has a brevity penalty.
      min_tokens: to write before a text may end, such as 56 for summaries.
      no_repeat_ngram: nothing of so many tokens is written twice; 3 is usual.
      encoder_no_repeat_ngram: nothing of so many tokens is copied from the input.
      repetition_penalty: more than 1, such as 1.2, makes tokens that are there less
        likely.
      suppress_tokens: ids that are never written.
      begin_suppress_tokens: ids that no text begins with.
      bad_words: sequences of ids that are never written.
      eos_ids: each ends a text; default: that of the model.
      forced_bos_ids: the first token is one of them; default: as the model has it.
      forced_eos_ids: the last token is, where a text is as long as it may be.
      start_id: what the decoder begins with; default: as it was trained.
    """

    num_tokens: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    num_texts: int | None = None
    num_beams: int | None = None
    length_penalty: float | None = None
    early_stopping: Literal["true", "false", "never"] | None = None
    dialect: Dialect | None = None
    min_tokens: int | None = None
    no_repeat_ngram: int | None = None
    encoder_no_repeat_ngram: int | None = None
    repetition_penalty: float | None = None
    suppress_tokens: tuple[int, ...] | None = _read(_ids, "A,B")
    begin_suppress_tokens: tuple[int, ...] | None = _read(_ids, "A,B")
    bad_words: tuple[tuple[int, ...], ...] | None = _read(_words, "[[A,B],[C]]")
    eos_ids: tuple[int, ...] | None = _read(_ids, "A,B")
    forced_bos_ids: tuple[int, ...] | None = _read(_ids, "A")
    forced_eos_ids: tuple[int, ...] | None = _read(_ids, "A,B")
    start_id: int | None = None

    @classmethod
    def of(cls, how: Mapping[str, Any]) -> GenerationConfig:
        """The config of some fields.

        Raises:
          ValueError: if there is no such field, or a value is out of range.
        """
        names = [field.name for field in dataclasses.fields(cls)]
        if unknown := [name for name in how if name not in names]:
            raise ValueError(
                f"no option {', '.join(unknown)} of writing; there are "
                f"{', '.join(names)}"
            )
        config = cls(**how)
        refuse(config.problems())
        return config

    def said(self) -> dict[str, Any]:
        """The fields that are not None."""
        return {k: x for k, x in vars(self).items() if x is not None}

    def over(self, usual: GenerationConfig) -> GenerationConfig:
        """These fields, and those of another one where these are None.

        A least length that is usual gives way to a length that is asked for, a number
        of texts to one of beams, and draws to a beam search.
        """
        both = dataclasses.replace(usual, **self.said())
        most, beams = both.num_tokens, both.num_beams or 1
        changes: dict[str, Any] = {}
        if self.min_tokens is None and None not in (most, both.min_tokens):
            changes["min_tokens"] = max(min(both.min_tokens, most), 0)
        if self.num_texts is None and both.num_texts is not None:
            changes["num_texts"] = max(min(both.num_texts, beams), 1)
        if self.temperature is None and (self.num_beams or 1) > 1:
            changes["temperature"] = None
        return dataclasses.replace(both, **changes)

    def problems(self) -> Iterator[Problem]:
        yield from at_least(1).problems(self, "num_tokens", "num_texts")
        config = self.over(DEFAULTS)
        yield from config._rules().problems()
        yield from config._beams().problems()
        yield from sampling.problems(config.temperature, config.top_k, config.top_p)

    def options(self, config: Any, max_tokens: int) -> Options:
        """What a model writes by this.

        Args:
          config: of the model.
          max_tokens: see `Options`; where `num_tokens` is None.

        Raises:
          ValueError: if a value is out of range.
        """
        refuse(self.problems())
        usual = GenerationConfig(num_tokens=max_tokens)
        both = self.over(usual).over(of_model(config)).over(DEFAULTS)
        return Options(
            both.num_tokens,
            both._rules(),
            both._beams() if both.num_beams != 1 else None,
            both.temperature or 0.0,
            both.top_k,
            both.top_p,
            both.num_texts,
            getattr(config, "pad_id", 0),
            both.start_id,
        )

    def _rules(self) -> Rules:
        names = [field.name for field in dataclasses.fields(Rules)]
        return Rules(**{k: x for k, x in self.said().items() if k in names})

    def _beams(self) -> Beams:
        early = _EARLY[self.early_stopping]
        return Beams(self.num_beams, self.length_penalty, early, self.dialect)


# As transformers has it; draws are asked for by a temperature.
DEFAULTS = GenerationConfig(
    temperature=0.0,
    top_k=0,
    top_p=1.0,
    num_texts=1,
    num_beams=1,
    length_penalty=1.0,
    early_stopping="false",
    dialect="transformers",
)


def of_model(config: Any) -> GenerationConfig:
    """What a model says itself: the tokens that its texts begin and end with.

    A language model has none of these, and is drawn from.

    Args:
      config: of the model.
    """
    if not hasattr(config, "decoder_start_id"):
        return GenerationConfig(temperature=1.0)
    rules = generation.rules_of(config)
    return GenerationConfig(
        eos_ids=rules.eos_ids,
        forced_bos_ids=rules.forced_bos_ids,
        forced_eos_ids=rules.forced_eos_ids,
        start_id=config.decoder_start_id,
    )
