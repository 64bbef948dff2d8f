"""A model with its tokenizer: hidden states, vectors and generated texts."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import numbers
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

import jax
import numpy as np

from etc_jax.base import cores
from etc_jax.conversion import hugging_face
from etc_jax.conversion.formats import (
    generation_file,
    native,
)
from etc_jax.conversion.formats.generation_file import GenerationFile
from etc_jax.conversion.formats.sentence_folder import SentenceFolder
from etc_jax.data.tokenizers.encoding import check_unicode
from etc_jax.data.tokenizers.special_in_text import with_special_tokens
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.datasets.lengths import Lengths
from etc_jax.datasets.pairs import Pair
from etc_jax.generation.writer import Writer, readable
from etc_jax.loading import model_card, pooling as pooling_lib
from etc_jax.loading.batches import Group, groups, new_shapes_first
from etc_jax.loading.companions import Companions
from etc_jax.loading.model_card import Origin
from etc_jax.loading.model_source import ModelSource, generation_files
from etc_jax.loading.text_encoder import Batch, Input, TextEncoder, text_encoder_of
from etc_jax.loading.writers import AS_TRAINED, Reading, writer_of
from etc_jax.training.checkpoints.saved_params import SavedParams

Texts = Sequence[str] | Sequence[Sequence[int]]
# Called with how many texts are done.
Progress = Callable[[int], Any]
# Each batch needs memory of its own.
_MOST_AT_ONCE = 4


class HiddenStates(NamedTuple):
    """What `LoadedModel.__call__` gives.

    Attributes:
      states: after the last layer, float32 `[texts, longest, embed_dim]`; 0 in padding.
      lengths: tokens of each text, special ones too, int32 `[texts]`.
    """

    states: np.ndarray
    lengths: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model as `etc_jax.load` gives it.

    Attributes:
      config: of the model, a dataclass of its family.
      params: nested dict of arrays.
      tokenizer: of the model; None if there is none, as for models of bytes.
      max_length: tokens of the longest text that is encoded, special ones too; None:
        texts of any length.
      sentences: what a folder of sentence-transformers says on pooling; None for
        others.
      run: that the model is of, without parameters; None for others.
      source: where the model lies, for what else is said there: names of labels, how
        texts are written; None: nowhere.
    """

    config: Any
    params: dict[str, Any] = dataclasses.field(repr=False)
    tokenizer: Tokenizer | None = dataclasses.field(repr=False)
    max_length: int | None = None
    sentences: SentenceFolder | None = None
    run: SavedParams | None = dataclasses.field(default=None, repr=False)
    source: ModelSource | None = dataclasses.field(default=None, repr=False)

    @property
    def family(self) -> str:
        """The name of the model's kind, such as "longformer"."""
        return native.family_of(self.config)

    @property
    def encoder(self) -> TextEncoder:
        """How texts are read.

        Raises:
          ValueError: if models of the family have no hidden states of plain texts.
        """
        return text_encoder_of(self.family, self.config)

    def inputs_of(
        self,
        texts: Texts,
        on_long: str = "cut",
        *,
        special_tokens_in_text: bool = False,
    ) -> list[Input]:
        """The texts in tokens, as the model reads them.

        Args:
          texts: texts; or ids, in which special tokens are there already.
          on_long: "cut": of a text that is longer than max_length the first tokens are
            left, and the one that ends it, and one warning says how many texts that
            are; "error".
          special_tokens_in_text: "[SEP]" in a text is the separator, as transformers
            reads it by default, and not plain text.

        Raises:
          ValueError: if something is no text, or too long with "error".
        """
        texts = _listed(texts)
        if on_long not in ("cut", "error"):
            raise ValueError(f"on_long is {on_long!r}; expected 'cut' or 'error'")
        encoder = self.encoder
        inputs = self._uncut(texts, special_tokens_in_text)
        lengths = Lengths()
        for one in inputs:
            lengths.add(len(one.ids))
        told = lengths.beyond(self.max_length, "texts")
        if told is None:
            return inputs
        if on_long == "error":
            raise ValueError(f"{told}; cut them, or leave on_long='error' out")
        warnings.warn(f"{told}; they were cut", stacklevel=3)
        return [
            encoder.cut(x, self.max_length) if len(x.ids) > self.max_length else x
            for x in inputs
        ]

    def _uncut(self, texts: list[Any], special_tokens_in_text: bool) -> list[Input]:
        if not texts:
            return []
        if any(isinstance(text, str) for text in texts):
            _check_texts(texts)
            tokenizer = self._needed_tokenizer()
            if special_tokens_in_text:
                tokenizer = self._special_tokenizer
            return self.encoder.inputs_of(texts, tokenizer)
        if special_tokens_in_text:
            raise ValueError(
                "special_tokens_in_text is given with ids, in which special tokens are "
                "there already; leave it out, or give texts"
            )
        return [self._input_of_ids(i, text) for i, text in enumerate(texts)]

    def _input_of_ids(self, number: int, given: Any) -> Input:
        try:
            ids = np.asarray(given)
        except ValueError:  # lists of lists of different lengths
            ids = np.zeros(0)
        whole = ids.ndim == 1 and len(ids) and np.issubdtype(ids.dtype, np.integer)
        size = self.config.vocab_size
        if not whole or ids.min() < 0 or ids.max() >= size:
            raise ValueError(
                f"texts[{number}] is neither a text nor a list of ids from 0 to "
                f"{size - 1}, one at least"
            )
        return self.encoder.input_of_ids(ids.astype(np.int32))

    def _needed_tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            raise ValueError(
                "the model has no tokenizer, by which texts become tokens; give ids, "
                "or load a folder with the tokenizer's files"
            )
        return self.tokenizer

    @functools.cached_property
    def _special_tokenizer(self) -> Tokenizer:
        return with_special_tokens(self._needed_tokenizer())

    def batch(self, inputs: Sequence[Input], length: int | None = None) -> Batch:
        """What `apply` reads.

        Args:
          inputs: see `inputs_of`.
          length: with padding; None: of the longest.

        Returns:
          Named arrays; see `loading.encoders`.
        """
        longest = max(len(one.ids) for one in inputs)
        if length is None:
            length = longest
        elif length < longest:
            raise ValueError(f"length is {length}; expected {longest} or more")
        return self.encoder.batch(inputs, length)

    def apply(self, params: Any, batch: Batch) -> Any:
        """Hidden states `[b, n, embed_dim]`: pure, for `jax.jit` and `jax.grad`.

        Of an ETC, `Rows` of those of long and of global tokens.
        """
        return self.encoder.apply(params, batch)

    def __call__(
        self,
        texts: Texts,
        *,
        batch_size: int = 8,
        on_long: str = "cut",
        special_tokens_in_text: bool = False,
    ) -> HiddenStates:
        """Hidden states after the last layer, of all texts at once.

        Args:
          texts: see `inputs_of`.
          batch_size: texts that are computed together, at most.
          on_long: see `inputs_of`.
          special_tokens_in_text: see `inputs_of`.

        Raises:
          ValueError: see `inputs_of`.
        """
        encoder = self.encoder
        inputs = self.inputs_of(
            texts, on_long, special_tokens_in_text=special_tokens_in_text
        )
        lengths = np.array([len(one.ids) for one in inputs], np.int32)
        shape = len(inputs), lengths.max(initial=0), self.config.embed_dim
        states = np.zeros(shape, np.float32)

        def of_batch(batch):
            return pooling_lib.states(encoder, self.params, batch)

        for indices, rows in self._computed(inputs, batch_size, of_batch):
            longest = lengths[indices].max()
            states[indices, :longest] = rows[: len(indices), :longest]
        return HiddenStates(states, lengths)

    def encode(
        self,
        texts: Texts,
        *,
        pooling: str | None = None,
        normalize: bool | None = None,
        batch_size: int = 8,
        on_long: str = "cut",
        special_tokens_in_text: bool = False,
        progress: Progress | None = None,
    ) -> np.ndarray:
        """One vector for each text, in their order.

        Args:
          texts: see `inputs_of`.
          pooling: "mean" of all tokens, special ones too; "cls", the first token;
            "global", the mean of the global tokens. None: as a folder of
            sentence-transformers says, else "mean".
          normalize: whether vectors have length 1. None: as such a folder says, else
            False.
          batch_size: texts that are computed together, at most.
          on_long: see `inputs_of`.
          special_tokens_in_text: see `inputs_of`.
          progress: called with the number of texts that are done.

        Returns:
          float32 `[texts, embed_dim]`. Neither `batch_size` nor the other texts change
          a vector, rounding apart.

        Raises:
          ValueError: see `inputs_of`; or if the model has no such pooling.
        """
        encoder, usual = self.encoder, self.sentences
        if pooling is None:
            pooling = "mean" if usual is None else usual.pooling
        if normalize is None:
            normalize = usual is not None and usual.normalize
        pooling_lib.check(pooling, encoder)
        inputs = self.inputs_of(
            texts, on_long, special_tokens_in_text=special_tokens_in_text
        )
        vectors = np.zeros((len(inputs), self.config.embed_dim), np.float32)
        how = pooling, bool(normalize)

        def of_batch(batch):
            return pooling_lib.vectors(encoder, self.params, batch, *how)

        done = 0
        for indices, rows in self._computed(inputs, batch_size, of_batch):
            vectors[indices] = rows[: len(indices)]
            done += len(indices)
            if progress is not None:
                progress(done)
        return vectors

    def _computed(
        self,
        inputs: Sequence[Input],
        batch_size: int,
        fn: Callable[[Batch], jax.Array],
    ) -> Iterator[tuple[list[int], np.ndarray]]:
        """(indices of texts, what `fn` gives; last rows may be there twice)."""
        _check_batch_size(batch_size)
        limit = self.encoder.padding_limit
        formed = groups([len(x.ids) for x in inputs], limit, batch_size)

        def compute(group: Group) -> tuple[list[int], np.ndarray]:
            rows = [inputs[i] for i in group.indices]
            rows += rows[-1:] * (group.rows - len(rows))
            return group.indices, np.asarray(fn(self.batch(rows, group.length)))

        with concurrent.futures.ThreadPoolExecutor(_at_once()) as pool:
            yield from pool.map(compute, new_shapes_first(formed))

    def generate(
        self,
        texts: Sequence[str],
        *,
        num_tokens: int | None = None,
        seed: int = 0,
        batch_size: int = 8,
        special_tokens_in_text: bool = False,
        **how: Any,
    ) -> list[str]:
        """A text for each text: what answers it, or what follows it.

        Args:
          texts: that an encoder-decoder reads, or that a language model continues.
          num_tokens: to write at most; None: as the folder says, or else 200 or the
            longest target of the model.
          seed: of the draws, 0 to 2**32 - 1.
          batch_size: texts that an encoder-decoder reads at once.
          special_tokens_in_text: "<mask>" and "<extra_id_0>" in a text are special
            tokens, as transformers reads them by default, and not plain text.
          **how: other fields of `GenerationConfig`, such as num_beams or temperature,
            where the folder (generation_config.json) is not to decide.

        Raises:
          ValueError, RunError: if the model does not write, or not so.
        """
        texts = _listed(texts)
        _check_texts(texts)
        _check_batch_size(batch_size)
        writer = self.writer(Reading(special_tokens_in_text=special_tokens_in_text))
        inputs = [writer.input_of(Pair(str(i), x, None)) for i, x in enumerate(texts)]
        how = {"num_tokens": num_tokens, **how}
        written = writer.write(inputs, how, batch_size=batch_size, seed=seed)
        return [readable(texts[0].text) for _, texts in written]

    def writer(self, reading: Reading = AS_TRAINED) -> Writer:
        """What writes texts with the model: for `generate` and for `etc-jax generate`.

        Args:
          reading: how it reads texts.

        Raises:
          ValueError, RunError: if the model does not write, or does not read so.
        """
        return writer_of(
            self.params,
            self.config,
            self.tokenizer,
            run=self.run,
            file=self._generation_file,
            reading=reading,
            named="the model" if self.source is None else str(self.source.place.root),
        )

    @functools.cached_property
    def _generation_file(self) -> GenerationFile | None:
        """What its folder says; the first call warns of options that are left out."""
        file = None if self.source is None else self.source.generation
        if file is not None:
            generation_file.log_left_out(file)
        return file

    def save(self, folder: str | os.PathLike, *, overwrite: bool = False) -> None:
        """Writes the folder of a converted model, which `load` and all commands read.

        Its README.md is the card of the model; see `model_card`.

        Args:
          folder: made, with the folders above it; there whole or not at all.
          overwrite: replace a model that was saved there.

        Raises:
          ValueError: if something else is there.
        """
        made_from = {} if self.run is None else {"run": str(self.run.folder)}
        params, about = self._host_params(), {"made_from": made_from}
        files = self._companions.native_files(self.config)
        files |= self._card(folder, params, "save")
        native.save(
            folder, params, self.config, about, files=files, overwrite=overwrite
        )

    def save_pretrained(self, folder: str | os.PathLike) -> None:
        """Writes the folder of a model that transformers reads, with its tokenizer.

        One that was read from a folder of sentence-transformers is read by that too.
        README.md is the card of the model; see `model_card`.

        Args:
          folder: made, with the folders above it; there whole or not at all.

        Raises:
          ValueError: if transformers has no such model or tokenizer, or the folder
            holds something.
        """
        companions, params = self._companions, self._host_params()
        files = companions.hugging_face_files(self.config)
        files |= self._card(folder, params, "save_pretrained", for_transformers=True)
        hugging_face.save(
            folder, params, self.config, files=files, labels=companions.labels
        )

    def _card(
        self, folder: str | os.PathLike, params: Any, name: str, **options: Any
    ) -> dict[str, bytes]:
        """The card of what a method of this name writes; see `model_card.files_of`."""
        source = self.source
        origin = Origin(
            None if source is None else str(source.place.root),
            f"LoadedModel.{name}",
            source,
            is_source=True,
            in_memory=True,
        )
        return model_card.files_of(folder, params, self.config, origin, **options)

    @property
    def _companions(self) -> Companions:
        if self.source is not None:
            return self.source.companions(self.tokenizer, self.sentences)
        generation = generation_files(self.config, None)
        return Companions(
            self.tokenizer, sentences=self.sentences, generation=generation
        )

    def _host_params(self) -> dict[str, Any]:
        return jax.tree.map(np.asarray, self.params)


def _at_once() -> int:
    """Batches that are computed at once: XLA leaves cores of a CPU idle with one."""
    if jax.default_backend() != "cpu":
        return 1
    return min(cores.available(), _MOST_AT_ONCE)


def _listed(texts: Any) -> list[Any]:
    """The texts as a list.

    Raises:
      ValueError: if it is one text, or no list.
    """
    if isinstance(texts, str | bytes):
        raise ValueError("texts is one text; expected a list: give [text]")
    if isinstance(texts, Mapping | Set) or not isinstance(texts, Iterable):
        raise ValueError(f"texts is {texts!r:.60}; expected a list of texts")
    return list(texts)


def _check_texts(texts: Sequence[Any]) -> None:
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"texts[{i}] is {text!r:.60}; expected a text")
        check_unicode(text, f"texts[{i}]")


def _check_batch_size(batch_size: int) -> None:
    if not isinstance(batch_size, numbers.Integral) or batch_size < 1:
        raise ValueError(f"batch_size is {batch_size!r}; expected 1 or more")
