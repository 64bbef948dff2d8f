"""How texts are written, as configs and command lines have it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Literal

from etc_jax import generation
from etc_jax.beam_search import Beams, Dialect
from etc_jax.config_fields import Problem, at_least
from etc_jax.generation import Options

_EARLY = {"true": True, "false": False, "never": "never"}


@dataclasses.dataclass(frozen=True)
class GenerationConfig:
    """What `Options` are made of; the lines on each field are the help of its flag.

    Attributes:
      num_beams: texts that go on side by side in a beam search, such as 4.
      length_penalty: power of the length that scores are divided by; 2 is for longer
        texts.
      early_stopping: true: the search ends with as many texts as beams; never: when no
        beam could be better at any length.
      dialect: of scores; t5x has a brevity penalty.
      min_tokens: to write before a text may end, such as 56 for summaries.
      no_repeat_ngram: nothing of so many tokens is written twice; 3 is usual.
      repetition_penalty: more than 1, such as 1.2, makes tokens that are there less
        likely.
    """

    num_beams: int = 1
    length_penalty: float = 1.0
    early_stopping: Literal["true", "false", "never"] = "false"
    dialect: Dialect = "transformers"
    min_tokens: int = 0
    no_repeat_ngram: int = 0
    repetition_penalty: float = 1.0

    def problems(self) -> Iterator[Problem]:
        yield from at_least(self, 1, "num_beams")
        yield from at_least(self, 0, "min_tokens", "no_repeat_ngram")
        if not self.repetition_penalty > 0:
            value = self.repetition_penalty
            yield "repetition_penalty", f"is {value}; expected more than 0; 1 is none"

    def options(self, config: Any, max_tokens: int, **more: Any) -> Options:
        """What an encoder-decoder writes by this.

        Args:
          config: of the model.
          max_tokens: see `Options`.
          **more: fields of `Options` that are not as by default.
        """
        beams = Beams(
            self.num_beams,
            self.length_penalty,
            _EARLY[self.early_stopping],
            self.dialect,
        )
        rules = generation.rules_of(
            config,
            repetition_penalty=self.repetition_penalty,
            no_repeat_ngram=self.no_repeat_ngram,
            min_tokens=self.min_tokens,
        )
        return Options(
            max_tokens,
            rules,
            beams if self.num_beams != 1 else None,
            pad_id=config.pad_id,
            **more,
        )
