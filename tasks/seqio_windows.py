"""A seqio source whose examples are the inputs of a fine-tuning task.

An example is one input with its padding; n long and g global tokens, m kinds of links:

    long_tokens, long_types       int32   [n]
    global_tokens, global_types   int32   [g]
    long_example_ids, links, ...  the vectors of `Structure`, by their names
    label_NAME                    the labels of the task, [1], [n], [g] or [...]
    extra_NAME                    what its model takes besides, if anything, likewise
    weights                       float32 [1], 0 for an input that cannot be trained on
    id                            string  [1], of the record
    split                         string  [], no output feature of a Task

A single number is a vector of one, as seqio's Evaluator measures the first axis of
every output feature.
"""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from etc_jax.data.tokenizer import Tokenizer
from etc_jax.data.window_arrays import NAME_CODEC
from etc_jax.data.window_fields import extra_arrays, nested
from etc_jax.datasets.records import BadRecordError, Problems
from etc_jax.datasets.task import Task
from etc_jax.formats.structured import Sizes, Window
from etc_jax.structure import Structure
from tasks.seqio_tensorflow import seqio, tf

TRAIN = "train"
SPLIT = "split"
LABEL, EXTRA = "label_", "extra_"

_LOG = logging.getLogger(__name__)
_VECTORS = tuple(f.name for f in dataclasses.fields(Structure))


class WindowFiles(seqio.DataSource):
    """Official files of a data set, read as a stream and made into inputs.

    In the split "train", inputs that cannot be trained on are left out; in others they
    have weight 0, as their records count in the official figures. What is wrong with
    records is counted in `problems`, and told in the log after the first pass.

    Any number of shards can share a file: each reads it, and makes inputs of every
    count-th record only.

    Attributes:
      task: the data set.
      tokenizer: with the special tokens of the task.
      sizes: lengths of an input.
      problems: by split, what was found in its newest pass, which may be under way.
      signature: feature -> shape and type.
    """

    def __init__(
        self,
        task: Task,
        files: Mapping[str, Sequence[str | os.PathLike]],
        tokenizer: Tokenizer,
        sizes: Sizes,
        *,
        official_quirks: bool = False,
    ):
        """Makes the first input, whose arrays have the shapes of all.

        Args:
          task: the data set.
          files: split -> files.
          tokenizer: the vocabulary.
          sizes: lengths of an input.
          official_quirks: as for the features of the task.

        Raises:
          FileNotFoundError: if a file is not there.
          ValueError: if no record can be used, or the tokenizer lacks a special token.
        """
        super().__init__(splits=files)
        self.task, self.tokenizer, self.sizes = task, tokenizer, sizes
        self.problems: dict[str, Problems] = {}
        self._files = {k: [os.fspath(path) for path in v] for k, v in files.items()}
        self._official_quirks = official_quirks
        self._told: set[str] = set()
        self.signature = {
            name: tf.TensorSpec(value.shape, _type(value))
            for name, value in self._first_example().items()
        }

    def _first_example(self) -> dict[str, np.ndarray]:
        for path in (path for paths in self._files.values() for path in paths):
            if not os.path.isfile(path):
                raise FileNotFoundError(f"no file {path} of {self.task.name}")
        problems = Problems()
        for split in self.splits:
            for _, windows in self.read(split, problems):
                for window in windows:
                    return example_of(window, split)
        raise ValueError(
            f"no record of {self.task.name} can be used: {problems.report()}"
        )

    @property
    def supports_arbitrary_sharding(self) -> bool:
        return True

    def list_shards(self, split: str) -> Sequence[str]:
        return self._files[split]

    def get_dataset(
        self,
        split: str = TRAIN,
        shuffle: bool = True,
        seed: int | None = None,
        shard_info: seqio.ShardInfo | None = None,
        **unused: Any,
    ) -> tf.data.Dataset:
        """Examples in the order of the files; the Task shuffles them.

        Raises:
          ValueError: if there is no such split.
        """
        del shuffle, seed, unused
        if split not in self.splits:
            raise ValueError(
                f"{self.task.name} has no split {split!r}, only {sorted(self.splits)}"
            )
        shard = (shard_info.index, shard_info.num_shards) if shard_info else (0, 1)

        def examples() -> Iterator[dict[str, np.ndarray]]:
            for window in self.windows(split, shard):
                yield example_of(window, split)

        return tf.data.Dataset.from_generator(examples, output_signature=self.signature)

    def windows(self, split: str, shard: tuple[int, int] = (0, 1)) -> Iterator[Window]:
        """The inputs behind the examples of a split, in order.

        Args:
          split: as registered.
          shard: (index, count): of every count-th record.

        Raises:
          ValueError: at the end, if there was none.
          OSError: if a file cannot be read.
        """
        problems = self.problems[split] = Problems()
        empty = True
        for record, windows in self.read(split, problems, shard):
            for window in windows:
                if window.unusable:
                    problems.add(BadRecordError(window.unusable, repr(record.id)))
                if window.unusable and split == TRAIN:
                    continue
                empty = False
                yield window
        if empty:
            raise ValueError(
                f"no record of split {split!r} of {self.task.name} can be used, shard "
                f"{shard}: {problems.report()}"
            )
        if problems.counts and split not in self._told:
            self._told.add(split)
            _LOG.warning("%s, split %s: %s", self.task.name, split, problems.report())

    def read(
        self, split: str, problems: Problems, shard: tuple[int, int] = (0, 1)
    ) -> Iterator[tuple[Any, list[Window]]]:
        """(record, its inputs) of a split, in order; none if the record is too large.

        Args:
          split: as registered.
          problems: where what is wrong is counted.
          shard: see `windows`.

        Raises:
          OSError: if a file cannot be read.
        """
        index, count = shard
        records = self.task.read(self._files[split], problems)
        for number, record in enumerate(records):
            if number % count == index:
                yield record, self._windows(record, problems)

    def _windows(self, record: Any, problems: Problems) -> list[Window]:
        try:
            return self.task.features(
                record,
                self.tokenizer,
                self.sizes,
                official_quirks=self._official_quirks,
            )
        except BadRecordError as e:
            problems.add(e)
            return []


def example_of(window: Window, split: str) -> dict[str, np.ndarray]:
    """The example of an input."""
    vectors = {name: getattr(window.structure, name) for name in _VECTORS}
    labels = {LABEL + k: np.atleast_1d(x) for k, x in window.labels.items()}
    return {
        "long_tokens": window.tokens.long,
        "global_tokens": window.tokens.global_,
        "long_types": window.types.long,
        "global_types": window.types.global_,
        **{name: x for name, x in vectors.items() if x is not None},
        **labels,
        **{EXTRA + k: np.atleast_1d(x) for k, x in extra_arrays(window).items()},
        "weights": np.array([window.unusable is None], np.float32),
        "id": np.array([window.record.id.encode(*NAME_CODEC)], object),
        SPLIT: np.array(split.encode(), object),
    }


def model_batch(examples: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """What a model of `etc_jax.objectives.finetuning` takes of some examples.

    Args:
      examples: the arrays of a Task or Mixture, with a first axis for b examples.

    Returns:
      `long_tokens`, `long_types` `[b, n]`, `global_tokens`, `global_types` `[b, g]`,
      `structure`, `labels` by name, `[b]`, `[b, n]`, `[b, g]` or `[b, ...]`, `weights`
      `[b]`, and further inputs as the windows have them.
    """
    names = ("long_tokens", "global_tokens", "long_types", "global_types")
    vectors = {name: examples[name] for name in _VECTORS if name in examples}
    labels = {
        name.removeprefix(LABEL): x[:, 0] if x.shape[1] == 1 else x
        for name, x in examples.items()
        if name.startswith(LABEL)
    }
    extra = {
        name.removeprefix(EXTRA): x
        for name, x in examples.items()
        if name.startswith(EXTRA)
    }
    return {
        **{name: examples[name] for name in names},
        "structure": Structure(**vectors),
        "labels": labels,
        "weights": examples["weights"][:, 0],
        **nested(extra),
    }


def _type(value: np.ndarray) -> tf.DType:
    return tf.string if value.dtype == object else tf.as_dtype(value.dtype)
