"""A seqio source whose examples are the inputs of a fine-tuning task.

An example is one input with its padding. It has the arrays of a batch of the task's
format, of one row, under the names of their paths ("tokens", "structure.links",
"labels.answer_type"; see `etc_jax.formats`), and besides

    weights   float32 [1]   0 for an input that cannot be trained on
    id        string  [1]   of the record
    split     string  []    no output feature of a Task

A single number is a vector of one, as seqio's Evaluator measures the first axis of
every output feature.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from etc_jax.base import registry
from etc_jax.data.schema import WEIGHTS, Schema, arrays_of
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.data.windows.arrays import NAME_CODEC
from etc_jax.data.windows.window import InputSizes, Window
from etc_jax.datasets.records import BadRecordError, Problems
from etc_jax.datasets.task import Task
from etc_jax.tasks.seqio.tensorflow import seqio, tf

TRAIN = "train"
SPLIT = "split"
ID = "id"

_LOG = logging.getLogger(__name__)


class WindowFiles(seqio.DataSource):
    """Official files of a data set, read as a stream and made into inputs.

    In the split "train", inputs that cannot be trained on are left out; in others they
    have weight 0, as their records count in the official metrics. What is wrong with
    records is counted in `problems`, and logged after the first pass.

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
        sizes: InputSizes,
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
        """The inputs that the examples of a split were made from, in order.

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
    return {
        **{name: np.atleast_1d(x) for name, x in arrays_of(window).items()},
        WEIGHTS: np.array([window.unusable is None], np.float32),
        ID: np.array([window.record.id.encode(*NAME_CODEC)], object),
        SPLIT: np.array(split.encode(), object),
    }


def schema_of(names: Collection[str]) -> Schema:
    """The schema of the format whose arrays some examples have.

    Raises:
      ValueError: if they are of none.
    """
    for format in registry.names("format"):
        schema = registry.lookup("format", format)
        if schema.fields.keys() - schema.optional <= set(names):
            return schema
    raise ValueError(f"examples have {sorted(names)}, which is no format of inputs")


def model_batch(examples: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """What a model of `etc_jax.objectives.learners.finetuning` takes of some examples.

    Args:
      examples: the arrays of a Task or Mixture, `[b, ...]` for b examples.

    Returns:
      A batch; see `etc_jax.formats`.

    Raises:
      ValueError: if they are no examples of a format.
    """
    schema = schema_of(examples)
    arrays = {name: x for name, x in examples.items() if name not in (ID, SPLIT)}
    for name in arrays.keys() - schema.fields.keys():
        if arrays[name].shape[1:] == (1,):  # a single number
            arrays[name] = arrays[name][:, 0]
    return schema.batch(arrays)


def _type(value: np.ndarray) -> tf.DType:
    return tf.string if value.dtype == object else tf.as_dtype(value.dtype)
