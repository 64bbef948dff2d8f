"""Documents of a seqio Task or Mixture as a stream, with a state that can be saved.

    with stream_documents("c4", "train", seed=0, shard=(host, num_hosts)) as stream:
        for document in stream:
            ...
        stream.save(folder / "documents")

The state is that of the tf.data iterator: megabytes a host (it holds the shuffle
buffer), where a token cache read by index needs a step number. Prefer the cache, see
`export.py`; stream what is too large to be stored twice.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from etc_jax.tasks.seqio.documents import FEATURES, find
from etc_jax.tasks.seqio.tensorflow import ExampleIterator, seqio, tf


class TokenizedDocument(NamedTuple):
    """A document.

    Attributes:
      tokens: int32 `[tokens]`.
      word_starts: bool `[tokens]`: whether each is the first piece of a word.
      sentence_lengths: int32 `[sentences]`, in tokens.
    """

    tokens: np.ndarray
    word_starts: np.ndarray
    sentence_lengths: np.ndarray


class DocumentStream(contextlib.AbstractContextManager, Iterator[TokenizedDocument]):
    """An iterator of documents; a context that closes it."""

    def __init__(self, dataset: tf.data.Dataset):
        """Takes a data set with the features of a document Task."""
        self._examples = ExampleIterator(dataset)

    def __next__(self) -> TokenizedDocument:
        example = next(self._examples)
        tokens, word_starts, lengths = (example[name].numpy() for name in FEATURES)
        return TokenizedDocument(tokens, word_starts.astype(bool), lengths)

    def save(self, prefix: str | os.PathLike) -> None:
        """Writes the position: files whose names begin with `prefix`."""
        checkpoint = tf.train.Checkpoint(iterator=self._examples.tf_iterator)
        checkpoint.write(os.fspath(prefix))

    def restore(self, prefix: str | os.PathLike) -> None:
        """Goes to a saved position of a stream that was made with equal arguments.

        Raises:
          FileNotFoundError: if nothing was saved there.
        """
        prefix = os.fspath(prefix)
        if not os.path.exists(f"{prefix}.index"):
            raise FileNotFoundError(f"no saved stream {prefix} ({prefix}.index)")
        checkpoint = tf.train.Checkpoint(iterator=self._examples.tf_iterator)
        checkpoint.read(prefix).assert_consumed()

    def close(self) -> None:
        """Ends the stream and its threads."""
        self._examples.close()

    def __exit__(self, *error) -> None:
        self.close()


def stream_documents(
    name: str,
    split: str,
    *,
    seed: int,
    shard: tuple[int, int] = (0, 1),
    shuffle: bool = True,
    num_epochs: int | None = None,
) -> DocumentStream:
    """Documents of a registered Task or Mixture, tokenised on the way.

    Args:
      name: of the Task or Mixture.
      split: such as "train".
      seed: of the order, 0 .. 2**63 - 1; of a Mixture also without `shuffle`.
      shard: (index, count): read every count-th file only, such as (host, hosts).
      shuffle: in random order, as far as files and a buffer of 1000 documents go.
      num_epochs: passes over the data; None: endless. A Mixture ends with the first
        of its Tasks that ends.

    Raises:
      ValueError: if name or split are unknown, the data is not there, the seed is out
        of range, or there are fewer files than shards.
    """
    if not 0 <= seed < 2**63:
        raise ValueError(f"seed must be in 0 .. 2**63 - 1, got {seed}")
    provider = find(name, split)
    dataset = provider.get_dataset(
        sequence_length=None,  # seqio would trim longer documents without a word
        split=split,
        shuffle=shuffle,
        seed=seed,
        shard_info=_shard_info(provider, split, shard),
        num_epochs=num_epochs,
        try_in_mem_cache=False,  # or the saved position would hold the whole text
    )
    return DocumentStream(dataset)


def _shard_info(provider, split: str, shard: tuple[int, int]) -> seqio.ShardInfo | None:
    index, count = shard
    if not 0 <= index < count:
        raise ValueError(
            f"shard is {shard}, expected (index, count), 0 <= index < count"
        )
    if count == 1:
        return None
    for task in seqio.get_subtasks(provider):
        files = len(task.source.list_shards(split))
        # seqio itself would read every file in every shard, and drop the rest.
        if files < count:
            raise ValueError(
                f"Task {task.name!r} has {files} files for {count} shards of split "
                f"{split!r}; cut the data into {count} files or more, or use a token "
                "cache, which any number of hosts can share"
            )
    return seqio.ShardInfo(index=index, num_shards=count)
