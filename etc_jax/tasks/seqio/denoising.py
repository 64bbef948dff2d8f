"""seqio Tasks of text with something missing: `inputs` and `targets`.

    register_tfds(tokenizer, names=("c4",))
    caches = {s: export("c4", s, folder)["c4"] for s in ("train", "validation")}
    spans = Denoising("spans", Spans(density=0.15, mean_length=3.0))
    register_denoising("c4_spans", caches, spans, input_length=512, target_length=128)
    register_mixture({"c4_spans": 2, "books_spans": 1}, name="spans")

An example is a window of a token cache, as the objective `denoising` reads it: the same
documents, packed in the same way, and corrupted by the same function. Windows that are
padding there, as nothing of them can be missing, are no examples here. What is missing
is drawn from the seed that seqio gives each example: other tokens in each epoch, and
the same ones with the same seed. Shards are of windows, not of files, so that any
number of hosts can share a cache.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from etc_jax.data.pretraining import masking
from etc_jax.data.pretraining.denoising import Corrupted
from etc_jax.data.text.cache import TokenCache
from etc_jax.data.text.denoised import DenoisedRows, Denoising
from etc_jax.data.text.packing import PackedWindow
from etc_jax.data.text.reader import Packing, Text, planned
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.objectives.jobs.denoising import marks_of
from etc_jax.tasks.seqio.documents import make_room
from etc_jax.tasks.seqio.tensorflow import seqio, tf
from etc_jax.tasks.seqio.vocabulary import TokenizerVocabulary

_LOG = logging.getLogger(__name__)
# Windows of a split of which one at least is to be an example.
_LOOKED_AT = 64
INPUTS, TARGETS = "inputs", "targets"
# Of the arrays of `PackedWindow`, in order.
_TYPES = (tf.int32, tf.bool, tf.int64, tf.int64, tf.int64)


class CachedWindows(seqio.DataSource):
    """Windows of token caches; an example has the arrays of a `PackedWindow`.

    In order, or each epoch in a random order of its own. A shard has every count-th
    window.
    """

    def __init__(self, texts: Mapping[str, Text]):
        """Takes (cache, plan) of each split."""
        self._texts = dict(texts)
        counts = {split: plan.num_windows for split, (_, plan) in texts.items()}
        super().__init__(splits=texts, num_input_examples=counts)

    @property
    def supports_arbitrary_sharding(self) -> bool:
        return True

    def list_shards(self, split: str) -> list[str]:
        return [str(self._text(split)[0].path)]

    def get_dataset(
        self,
        split: str = "train",
        shuffle: bool = True,
        seed: int | None = None,
        shard_info: seqio.ShardInfo | None = None,
        **unused: Any,
    ) -> tf.data.Dataset:
        """The windows of a shard.

        Raises:
          ValueError: if there is no such split, or no window for each shard.
        """
        del unused
        cache, plan = self._text(split)
        numbers = tf.data.Dataset.range(plan.num_windows)
        if shard_info is not None:
            if (count := shard_info.num_shards) > plan.num_windows:
                raise ValueError(
                    f"split {split!r} has {plan.num_windows} windows for {count} "
                    "shards; use fewer shards, or more text"
                )
            numbers = numbers.shard(count, shard_info.index)
        if shuffle:
            numbers = numbers.shuffle(plan.num_windows, seed=seed)

        windows = plan.in_epoch(seed or 0, 0)

        def arrays(number: np.ndarray) -> PackedWindow:
            return windows.read(cache, int(number))

        def read(number: tf.Tensor) -> dict[str, tf.Tensor]:
            packed = tf.numpy_function(arrays, [number], _TYPES, stateful=False)
            return dict(zip(PackedWindow._fields, map(_vector, packed), strict=True))

        return numbers.map(read, num_parallel_calls=tf.data.AUTOTUNE)

    def _text(self, split: str) -> Text:
        if split not in self._texts:
            raise ValueError(f"no split {split!r}, only {sorted(self._texts)}")
        return self._texts[split]


class Denoise:
    """Preprocessor: windows -> `inputs` and `targets`, drawn from seqio's seeds."""

    def __init__(self, rows: DenoisedRows):
        self._rows, self._left_out = rows, 0

    def __call__(
        self,
        dataset: tf.data.Dataset,
        sequence_length: Mapping[str, int | None] | None = None,
    ) -> tf.data.Dataset:
        """Corrupts each window.

        Raises:
          ValueError: if seqio would cut examples, and with them their last tokens.
        """
        rows = self._rows
        lengths = {INPUTS: rows.input_length, TARGETS: rows.target_length}
        for name, length in lengths.items():
            room = (sequence_length or {}).get(name)
            if room is not None and room < length:
                raise ValueError(
                    f"sequence_length[{name!r}] is {room}, but this Task was "
                    f"registered for {length} tokens, and what is cut would lose its "
                    f"last token; ask for {length}, or register it for {room}"
                )
        drawn = seqio.map_over_dataset(self._drawn, num_seeds=1)(dataset)
        # Of a window that is left out both are empty.
        return drawn.filter(lambda example: tf.size(example[TARGETS]) > 0)

    def _count_left_out(self) -> None:
        self._left_out += 1
        if math.log10(self._left_out).is_integer():  # 1, 10, 100, ...
            _LOG.warning(
                "windows left out so far, of which nothing can be missing: %d",
                self._left_out,
            )

    def _drawn(
        self, window: dict[str, tf.Tensor], seed: tuple[tf.Tensor, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        def draw(first: np.ndarray, second: np.ndarray, *arrays: np.ndarray):
            window = PackedWindow(*arrays)
            if self._rows.is_whole(window):
                self._count_left_out()
                return Corrupted(*np.zeros((2, 0), np.int32))
            rng = masking.generator(int(first), 0, int(second))
            corrupted, _ = self._rows.example(window, rng)
            return corrupted

        arguments = [*seed, *(window[name] for name in PackedWindow._fields)]
        corrupted = tf.numpy_function(
            draw, arguments, (tf.int32, tf.int32), stateful=False
        )
        return dict(zip((INPUTS, TARGETS), map(_vector, corrupted), strict=True))


def register_denoising(
    name: str,
    caches: Mapping[str, TokenCache],
    task: Denoising,
    *,
    input_length: int,
    target_length: int,
    begin_token: bool = False,
    packing: Packing = "concatenated",
    **packing_options: Any,
) -> seqio.Task:
    """Registers a Task, in place of an earlier one of this kind with the same name.

    `seqio.EncDecFeatureConverter` makes batches of it.

    Args:
      name: letters, digits, "_", "." and ":".
      caches: split -> cache, such as `export.export` writes; all of one
        tokenizer, which has sentinels if `task` is of spans.
      task: what is missing.
      input_length: longest input, with its last token; windows are as long.
      target_length: longest target; more is cut off, but for the last token.
      begin_token: texts begin with the first token of the vocabulary.
      packing: which documents share a window; see `source_configs.TextConfig`. In what
        order "concatenated" documents come depends on the seed of `get_dataset`.
      **packing_options: the others of `text.reader.planned`.

    Raises:
      ValueError: if the name is taken, the caches or the vocabulary are not for this,
        or lengths and options do not go together.
    """
    tokenizer = _tokenizer(caches)
    if pad := tokenizer.special_id("pad"):
        raise ValueError(
            f"padding has id {pad} in this vocabulary, but seqio pads with 0; use a "
            "vocabulary whose padding is 0, or read the caches with the objective "
            "denoising"
        )
    marks = marks_of(tokenizer, tokenizer.vocab_size, begin_token=begin_token)
    rows = DenoisedRows(
        marks, task, input_length=input_length, target_length=target_length
    )
    options = {"long_length": rows.text_length, **packing_options}
    texts = {
        split: (cache, planned(cache, packing, **options))
        for split, cache in caches.items()
    }
    for split, text in texts.items():
        _check_examples(split, text, rows)
    feature = seqio.Feature(TokenizerVocabulary(tokenizer, marks.end), add_eos=False)
    make_room(name, _check_kind)
    return seqio.TaskRegistry.add(
        name,
        source=CachedWindows(texts),
        preprocessors=[Denoise(rows)],
        output_features={INPUTS: feature, TARGETS: feature},
    )


def _check_examples(split: str, text: Text, rows: DenoisedRows) -> None:
    """Refuses a text of which nothing is learnt: reading it would never end."""
    cache, plan = text
    windows, count = plan.in_epoch(0, 0), min(plan.num_windows, _LOOKED_AT)
    if all(rows.is_whole(windows.read(cache, i)) for i in range(count)):
        raise ValueError(
            f"split {split!r}: nothing of the first {count} windows can be missing, as "
            "each is a single sentence or token; raise input_length, lower "
            "max_sentence_tokens, or give text in sentences and more of it"
        )


def _tokenizer(caches: Mapping[str, TokenCache]) -> Tokenizer:
    """That of all caches.

    Raises:
      ValueError: if there is no cache, or two have different ones.
    """
    if not caches:
        raise ValueError("caches is empty; give the cache of one split or more")
    digests = {split: cache.header["vocabulary"] for split, cache in caches.items()}
    if len(set(digests.values())) > 1:
        listed = ", ".join(
            f"{split} {print_[:12]}" for split, print_ in digests.items()
        )
        raise ValueError(
            f"the caches have different tokenizers ({listed}); export all splits with "
            "the same one"
        )
    return next(iter(caches.values())).load_tokenizer()


def _check_kind(task: seqio.Task) -> None:
    if not isinstance(task.source, CachedWindows):
        raise ValueError(
            f"seqio has a Task {task.name!r} of another kind already; choose another "
            "name"
        )


def _vector(array: tf.Tensor) -> tf.Tensor:
    array.set_shape([None])
    return array
