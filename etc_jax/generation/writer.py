"""What writes texts, of any kind of model: options in, texts out."""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from etc_jax.conversion.formats.generation_file import GenerationFile
from etc_jax.datasets.pairs import Pair
from etc_jax.generation import beam_search, loop as generation
from etc_jax.generation.decoding import Decoder
from etc_jax.generation.loop import Options, Written
from etc_jax.generation.options import DEFAULTS, GenerationConfig, of_model
from etc_jax.ops import sampling

_NUM_TOKENS = 200
_OF_RUN = "objective.generation of the run"


class Input(NamedTuple):
    """A text in tokens, of any length.

    Attributes:
      id: of the text.
      ids: int32 `[n]`, special tokens among them.
      marks: int32 `[n]`, 0 in padding.
      prefix_tokens: tokens of its prefix, before that is cut.
    """

    id: str
    ids: np.ndarray
    marks: np.ndarray
    prefix_tokens: int = 0


class Text(NamedTuple):
    """What was written.

    Attributes:
      text: without the token that ends it. Bytes that are no UTF-8, as a model of bytes
        may write them, are surrogates ("surrogateescape").
      score: see `generation.Written`.
    """

    text: str
    score: float


@dataclasses.dataclass(frozen=True)
class Writer(abc.ABC):
    """A model that writes texts: the same calls for models of all kinds.

        inputs = [writer.input_of(pair) for pair in pairs]
        for name, texts in writer.write(inputs, {"num_beams": 4}):
            print(name, texts[0].text)

    Attributes:
      params: of the model, on the device.
      decoder: of the model.
      file: how the folder says that texts are written; None: it does not.
      of_run: how the run was told to write.
    """

    params: Any
    decoder: Decoder
    file: GenerationFile | None = dataclasses.field(default=None, kw_only=True)
    of_run: GenerationConfig = dataclasses.field(
        default=GenerationConfig(), kw_only=True
    )

    @property
    def reads_bytes(self) -> bool:
        """Whether a text may be bytes of any kind, as surrogates; see `Text`."""
        return False

    @abc.abstractmethod
    def input_of(self, pair: Pair) -> Input:
        """The input of a pair in tokens; its target is left aside.

        Raises:
          BadRecordError, UserError, ValueError: if the model cannot read it.
        """

    def write(
        self,
        inputs: Iterable[Input],
        how: Mapping[str, Any],
        *,
        batch_size: int = 8,
        seed: int = 0,
    ) -> Iterator[tuple[str, list[Text]]]:
        """(id, what is written) of each input, in their order, the best text first.

        What is drawn for an input depends on the seed and on how many inputs were
        before it, not on the batch that it is in.

        Args:
          inputs: of `input_of`.
          how: fields of `GenerationConfig` that are not as usual.
          batch_size: inputs at once, for models that read several.
          seed: of the draws, 0 to 2**32 - 1.

        Raises:
          ValueError: before anything is compiled, if the model cannot write so.
        """
        return self._written(inputs, how, batch_size, sampling.key(seed))

    @abc.abstractmethod
    def _written(
        self, inputs: Iterable[Input], how: Mapping[str, Any], batch_size: int, rng: Any
    ) -> Iterator[tuple[str, list[Text]]]:
        """See `write`; options are checked when this is called."""

    def options(self, how: Mapping[str, Any], prompt_length: int = 1) -> Options:
        """How texts are written where something else than usual is asked for.

        Args:
          how: fields of `GenerationConfig` that are not as usual.
          prompt_length: tokens that a language model goes on from.

        Raises:
          ValueError: if a field is unknown, a value out of range, or the model cannot
            write so much.
        """
        layers = self._layers(how, prompt_length).values()
        config = functools.reduce(GenerationConfig.over, layers)
        options = config.options(self.decoder.config, self.max_tokens)
        options = dataclasses.replace(options, rules=self._rules(options.rules))
        generation.check(self.decoder, options, prompt_length)
        return options

    def in_force(self, how: Mapping[str, Any]) -> list[str]:
        """`NAME = VALUE (SOURCE)` of every option that `options` gives."""
        self.options(how)
        layers = self._layers(how) | {
            "the model": of_model(self.decoder.config),
            "default": DEFAULTS.over(GenerationConfig(num_tokens=self.max_tokens)),
        }
        sources = {
            name: source
            for source, config in reversed(layers.items())
            for name in config.said()
        }
        values = functools.reduce(GenerationConfig.over, layers.values()).said()
        return [f"{name} = {values[name]} ({sources[name]})" for name in sorted(values)]

    @property
    def max_tokens(self) -> int:
        """Tokens of a text at most, where nothing else is said."""
        longest = getattr(self.decoder.config, "longest_target", None)
        return _NUM_TOKENS if longest is None else min(_NUM_TOKENS, longest)

    def _layers(
        self, how: Mapping[str, Any], prompt_length: int = 1
    ) -> dict[str, GenerationConfig]:
        """{source: what it says}; the first that says a field decides it."""
        layers = {"given": GenerationConfig.of(how)}
        if self.file is not None:
            config = config_of(self.file, self.decoder.config, prompt_length)
            layers[str(self.file.path)] = config
        return {**layers, _OF_RUN: self.of_run}

    def _rules(self, rules: generation.Rules) -> generation.Rules:
        """The rules with what holds for all texts of the model."""
        return rules

    @abc.abstractmethod
    def _text(self, ids: np.ndarray, options: Options) -> str:
        """The text of int ids `[n]`, which the token that ends it may be among."""

    def _texts(self, written: Written, options: Options) -> Iterator[list[Text]]:
        """The texts of each row: one at least, and no more than there are."""
        for tokens, lengths, scores in zip(*jax.device_get(written), strict=True):
            count = max(1, int(np.sum(scores > beam_search.NONE)))
            yield [
                Text(self._text(ids[:n], options), float(score))
                for ids, n, score in zip(tokens, lengths, scores[:count], strict=False)
            ]


def config_of(
    file: GenerationFile, config: Any, prompt_length: int = 1
) -> GenerationConfig:
    """What a folder says of how its model writes.

    Args:
      file: of the folder.
      config: of the model; a file may be of more tokens than it has positions.
      prompt_length: see `Writer.options`.
    """
    says = GenerationConfig(**file.fields(prompt_length))
    longest = getattr(config, "longest_target", None)
    if None not in (says.num_tokens, longest) and says.num_tokens > longest:
        says = GenerationConfig(num_tokens=longest).over(says)
    return says


def readable(text: str) -> str:
    """A text of a `Writer` as UTF-8 has it: what is none becomes U+FFFD."""
    return text.encode("utf-8", "surrogateescape").decode(errors="replace")
