"""Texts in, texts out: an encoder-decoder with its parameters and its tokenizer."""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from etc_jax.config import Config
from etc_jax.data.text.pairs import cut_to
from etc_jax.data.tokenizers.rows import check_rows
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.datasets import task as task_lib
from etc_jax.datasets.lengths import Lengths
from etc_jax.datasets.pairs import Pair, PairOptions, encoded
from etc_jax.formats.text_to_text import written_text
from etc_jax.generation import loop as generation
from etc_jax.generation.loop import Options
from etc_jax.generation.writer import Input, Text, Writer

# Inputs are padded to the next of these numbers times two, so that few are compiled.
SHORTEST = 64
# Batches that are sorted by length together.
_POOLED = 8


@dataclasses.dataclass(frozen=True)
class TextWriter(Writer):
    """An encoder-decoder, which reads a text and writes another one.

    Inputs of about one length are written together, of `batch_size` times 8 that are
    read ahead. What is longer than the model can read is cut; a warning says at the end
    how many inputs that were, and how long the longest one is.

    Attributes:
      tokenizer: of the model.
      pairs: how inputs become tokens.
      global_tokens: so many first tokens of an input are global.
    """

    tokenizer: Tokenizer
    pairs: PairOptions
    global_tokens: int

    def input_of(self, pair: Pair) -> Input:
        """See `Writer`: what the model reads, as in training.

        Raises:
          BadRecordError: if the input has no token.
          ValueError: if the table of the model lacks the row of a token.
        """
        tokens = encoded(pair, self.tokenizer, self.pairs)
        ids, marks = (np.asarray(x, np.int32) for x in (tokens.ids, tokens.marks))
        what = f"input {pair.id}" if pair.id else "the input"
        check_rows(ids, self.decoder.config.vocab_size, self.tokenizer, what)
        return Input(pair.id, ids, marks, tokens.prefix_tokens)

    def _written(self, inputs: Iterable[Input], how, batch_size: int, rng):
        return self._pools(iter(inputs), self.options(how), batch_size, rng)

    def _pools(self, inputs: Iterator[Input], options: Options, batch_size: int, rng):
        lengths, prefixes = Lengths(), Lengths()
        try:
            for first in itertools.count(step=_POOLED * batch_size):
                pool = list(itertools.islice(inputs, _POOLED * batch_size))
                if not pool:
                    return
                for one in pool:
                    lengths.add(len(one.ids))
                    prefixes.add(one.prefix_tokens)
                texts = self._pool(pool, options, batch_size, rng, first)
                yield from zip((one.id for one in pool), texts, strict=True)
        finally:
            prefix_limit = self.pairs.prefix_length or None
            for note in (
                lengths.beyond(self.longest_input, "inputs"),
                prefixes.beyond(prefix_limit, "prefixes"),
            ):
                if note is not None:
                    warnings.warn(f"{note}; they were cut", stacklevel=2)

    def _pool(
        self, pool: Sequence[Input], options: Options, batch_size: int, rng, first: int
    ) -> list[list[Text]]:
        """The texts of some inputs, of which `first` were before in other pools."""
        order = sorted(range(len(pool)), key=lambda i: len(pool[i].ids))
        # One input alone, such as a prompt, is one row; few shapes are compiled.
        rows = batch_size
        if not first:
            rows = min(1 << (len(pool) - 1).bit_length(), batch_size)
        texts: list[list[Text]] = [[] for _ in pool]
        for start in range(0, len(pool), rows):
            numbers = order[start : start + rows]
            # A batch that is short of inputs repeats one.
            batch = numbers + numbers[:1] * (rows - len(numbers))
            tokens, marks = self._arrays([pool[i] for i in batch])
            written = generation.answer(
                self.decoder,
                self.params,
                tokens,
                marks,
                options,
                rng,
                global_tokens=self.global_tokens,
                numbers=np.array(batch) + first,
            )
            for i, row in zip(numbers, self._texts(written, options), strict=False):
                texts[i] = row
        return texts

    @property
    def longest_input(self) -> int | None:
        """Tokens that the model reads; None: any number."""
        return self.decoder.config.longest_input

    def _arrays(self, inputs: Sequence[Input]) -> tuple[np.ndarray, np.ndarray]:
        """(ids, marks: 0 in padding), int32 `[inputs, n]`, cut to what is read."""
        n, longest = SHORTEST, max(len(one.ids) for one in inputs)
        while n < longest:
            n *= 2
        if self.longest_input is not None:
            n = min(n, self.longest_input)
        tokens, marks = np.zeros((2, len(inputs), n), np.int32)
        for row, row_marks, one in zip(tokens, marks, inputs, strict=True):
            ids = cut_to(one.ids, self.longest_input)
            row[: len(ids)] = ids
            row_marks[: len(ids)] = cut_to(one.marks, self.longest_input)
        return tokens, marks

    def _text(self, ids: np.ndarray, options: Options) -> str:
        return written_text(ids, self.tokenizer)


def pairs_of_run(config: Config) -> tuple[PairOptions, int]:
    """(how inputs became tokens, first tokens that were global) in training.

    Args:
      config: of a run on pairs of texts, or on texts.
    """
    options: Any = config.data
    if hasattr(config.objective, "begin_token"):  # it learns texts, not pairs
        options = PairOptions(config.objective.begin_token)
    elif not hasattr(options, "begin_token"):
        task = task_lib.find(config.objective.name).in_format(config.data.format)
        options = task.with_texts(config.data.input_options).options
    names = [field.name for field in dataclasses.fields(PairOptions)]
    pairs = PairOptions(**{name: getattr(options, name) for name in names})
    return pairs, config.objective.global_tokens
