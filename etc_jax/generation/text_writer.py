"""Texts in, texts out: an encoder-decoder with its parameters and its tokenizer."""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from etc_jax.conversion.formats import generation_file
from etc_jax.conversion.formats.generation_file import GenerationFile
from etc_jax.data.text.pairs import cut_to
from etc_jax.data.tokenizers.rows import check_rows
from etc_jax.data.tokenizers.special_in_text import with_special_tokens
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.datasets import task as task_lib
from etc_jax.datasets.lengths import Lengths
from etc_jax.datasets.pairs import Pair, PairOptions, encoded
from etc_jax.formats.text_to_text import written_text
from etc_jax.generation import beam_search, decoding, loop as generation
from etc_jax.generation.loop import Options
from etc_jax.generation.options import GenerationConfig, Layer, in_force, merged
from etc_jax.generation.text_codecs import tokenizer_of_run
from etc_jax.training.checkpoints.saved_params import SavedParams

# Inputs are padded to the next of these numbers times two, so that few are compiled.
SHORTEST = 64
_OF_RUN = "objective.generation of the run"
# Batches that are sorted by length together.
_POOLED = 8


@dataclasses.dataclass(frozen=True)
class Text:
    """What was written.

    Attributes:
      text: without the token that ends it.
      score: see `generation.Written`.
    """

    text: str
    score: float


@dataclasses.dataclass(frozen=True)
class TextWriter:
    """What writes texts.

    Attributes:
      params: of the model.
      decoder: of the model.
      tokenizer: of the model.
      pairs: how inputs become tokens.
      global_tokens: so many first tokens of an input are global.
      layers: how it writes where nothing else is asked for; the first one decides.
    """

    params: Any
    decoder: Any
    tokenizer: Tokenizer
    pairs: PairOptions
    global_tokens: int
    layers: tuple[Layer, ...] = ()

    def with_special_tokens(self) -> TextWriter:
        """The same, to which special tokens in an input are special tokens."""
        return dataclasses.replace(self, tokenizer=with_special_tokens(self.tokenizer))

    def options(self, how: Mapping[str, Any]) -> Options:
        """How texts are written where something else than usual is asked for.

        Args:
          how: fields of `GenerationConfig` that are not as usual.

        Raises:
          ValueError: if the model cannot write so.
        """
        asked = Layer("", GenerationConfig.of(how))
        options = merged([asked, *self.layers]).options(
            self.decoder.config, self.max_tokens
        )
        generation.check(self.decoder, options)
        return options

    def in_force(self, how: Mapping[str, Any]) -> list[str]:
        """The options that `options` gives, a line each, and from where they come."""
        self.options(how)
        asked = Layer("given", GenerationConfig.of(how))
        layers = [asked, *self.layers]
        return in_force(layers, self.decoder.config, self.max_tokens)

    @property
    def max_tokens(self) -> int:
        """Tokens of a text at most, where nothing else is said."""
        longest = self.decoder.config.longest_target
        return 200 if longest is None else min(200, longest)

    def write(
        self,
        inputs: Iterable[Pair],
        options: Options,
        *,
        batch_size: int = 8,
        rng: jax.Array | None = None,
    ) -> Iterator[list[Text]]:
        """What is written for each input, in their order.

        Inputs of about one length are written together, of `batch_size` times 8 that
        are read ahead. What is longer than the model can read is cut; a warning says at
        the end how many inputs that were, and how long the longest one is.

        Args:
          inputs: what the model reads, as pairs whose targets are left aside.
          options: what to write.
          batch_size: inputs at once.
          rng: key of the draws; None only with temperature 0.

        Raises:
          BadRecordError: if an input has no token.
          ValueError: see `generation.write`.
        """
        inputs, lengths, prefixes = iter(inputs), Lengths(), Lengths()
        try:
            for number in itertools.count():
                pool = list(itertools.islice(inputs, _POOLED * batch_size))
                if not pool:
                    return
                ids = [self.tokens_of(one, lengths, prefixes) for one in pool]
                key = None if rng is None else jax.random.fold_in(rng, number)
                yield from self._pool(ids, options, batch_size, key)
        finally:
            prefix_limit = self.pairs.prefix_length or None
            for told in (
                lengths.beyond(self.longest_input, "inputs"),
                prefixes.beyond(prefix_limit, "prefixes"),
            ):
                if told is not None:
                    warnings.warn(f"{told}; they were cut", stacklevel=2)

    def _pool(self, ids: Sequence[tuple], options, batch_size: int, rng):
        order = sorted(range(len(ids)), key=lambda i: len(ids[i][0]))
        found: list[list[Text]] = [[] for _ in ids]
        for start in range(0, len(ids), batch_size):
            mine = order[start : start + batch_size]
            # The last batch has as many rows as the others: it repeats one.
            rows = [ids[i] for i in mine] + [ids[mine[0]]] * (batch_size - len(mine))
            key = None if rng is None else jax.random.fold_in(rng, start)
            written = jax.device_get(self._batch(rows, options, key))
            for i, tokens, lengths, scores in zip(mine, *written, strict=False):
                # Fewer where there are no more texts; the best one in any case.
                count = max(1, int(np.sum(scores > beam_search.NONE)))
                found[i] = [
                    Text(written_text(t[:n], self.tokenizer), float(s))
                    for t, n, s in zip(tokens, lengths, scores[:count], strict=False)
                ]
        return found

    def tokens_of(
        self, one: Pair, lengths: Lengths, prefixes: Lengths
    ) -> tuple[np.ndarray, np.ndarray]:
        """(ids, marks: 0 in padding) int `[n]` that the model reads, as in training.

        Args:
          one: input.
          lengths: where its tokens are counted before it is cut.
          prefixes: where those of its prefix are.
        """
        found, most = encoded(one, self.tokenizer, self.pairs), self.longest_input
        lengths.add(len(found.ids))
        prefixes.add(found.prefix_tokens)
        ids, marks = (np.asarray(x, np.int32) for x in (found.ids, found.marks))
        what = f"input {one.id}" if one.id else "the input"
        check_rows(ids, self.decoder.config.vocab_size, self.tokenizer, what)
        return cut_to(ids, most), cut_to(marks, most)

    @property
    def longest_input(self) -> int | None:
        """Tokens that the model reads; None: any number."""
        return self.decoder.config.longest_input

    def _batch(self, rows: Sequence[tuple], options: Options, rng):
        config, longest = self.decoder.config, max(len(row) for row, _ in rows)
        n = SHORTEST
        while n < longest:
            n *= 2
        if self.longest_input is not None:
            n = min(n, self.longest_input)
        tokens = np.full((len(rows), n), config.pad_id, np.int32)
        ids = np.zeros((len(rows), n), np.int32)
        for i, (row, marks) in enumerate(rows):
            tokens[i, : len(row)] = np.where(marks > 0, row, config.pad_id)
            ids[i, : len(row)] = marks
        index = None
        if self.global_tokens:
            places = np.arange(min(self.global_tokens, n), dtype=np.int32)[None]
            index = np.where(ids[:, : places.shape[1]] > 0, places, -1)
        memory = generation.encode(self.decoder, self.params, tokens, ids, index)
        prompt = generation.prompt_of(self.decoder, options, len(rows))
        read = np.where(ids > 0, tokens, -1)
        return generation.write(
            self.decoder, self.params, prompt, options, rng, memory=memory, inputs=read
        )


def writes(decoder: decoding.Decoder) -> bool:
    """Whether a decoder's model reads a text before it writes one."""
    return hasattr(decoder, "encode")


def of_model(
    params: Any,
    tokenizer: Tokenizer,
    decoder: Any,
    begin_token: bool | None = None,
    global_tokens: int | None = None,
    file: GenerationFile | None = None,
) -> TextWriter:
    """A model that is no run.

    Args:
      params: nested dict of arrays.
      tokenizer: of the model.
      decoder: of the model.
      begin_token: see `TextWriter`; None: as the family was trained.
      global_tokens: see there; None: one, where an encoder has global tokens.
      file: how it writes, as its folder has it.
    """
    config = decoder.config
    return TextWriter(
        _on_device(params),
        decoder,
        tokenizer,
        PairOptions(
            config.begin_token if begin_token is None else begin_token,
            config.sled.prefix_length,
        ),
        int(config.has_globals) if global_tokens is None else global_tokens,
        layers_of(file, config),
    )


def layers_of(file: GenerationFile | None, config: Any) -> tuple[Layer, ...]:
    """What the folder of an encoder-decoder says; what is left out is logged.

    Args:
      file: of the folder, if it has one.
      config: of the model.
    """
    if file is None:
        return ()
    generation_file.log_left_out(file)
    says = GenerationConfig(**file.fields())
    # A file may be of more tokens than there are positions.
    longest = GenerationConfig(num_tokens=config.longest_target)
    if None not in (says.num_tokens, longest.num_tokens):
        says = min(longest, says, key=lambda x: x.num_tokens).over(says)
    return (Layer(str(file.path), says),)


def of_run(
    saved: SavedParams,
    decoder: Any,
    *,
    begin_token: bool | None = None,
    global_tokens: int | None = None,
) -> TextWriter:
    """The model of a run.

    Args:
      saved: one of its checkpoints.
      decoder: of the model.
      begin_token: see `TextWriter`; None: as in training.
      global_tokens: see there; None: as in training.

    Raises:
      UserError: if the tokenizer is missing.
    """
    config = saved.config
    if hasattr(config.objective, "begin_token"):  # it learns texts, not pairs
        pairs = PairOptions(config.objective.begin_token)
    elif hasattr(config.data, "begin_token"):
        data = config.data
        pairs = PairOptions(data.begin_token, data.prefix_length, data.prefix_every)
    else:
        task = task_lib.find(config.objective.name).in_format(config.data.format)
        options = task.with_texts(config.data.input_options).options
        names = [field.name for field in dataclasses.fields(PairOptions)]
        pairs = PairOptions(**{name: getattr(options, name) for name in names})
    if begin_token is not None:
        pairs = dataclasses.replace(pairs, begin_token=begin_token)
    if global_tokens is None:
        global_tokens = config.objective.global_tokens
    return TextWriter(
        _on_device(saved.params),
        decoder,
        tokenizer_of_run(saved),
        pairs,
        global_tokens,
        (Layer(_OF_RUN, getattr(config.objective, "generation", GenerationConfig())),),
    )


def _on_device(params: Any) -> Any:
    return jax.tree.map(jnp.asarray, params)
