"""Images as rows of bytes, from array files: `.npy` of uint8, one image an entry."""

from __future__ import annotations

import pathlib

import numpy as np

from etc_jax.data.bytes.stream import next_symbol_batch
from etc_jax.data.epochs import BatchRows, Epochs


def open_images(path: str) -> np.ndarray:
    """The images of a file, each in a row of bytes, as they lie: row, column, channel.

    Args:
      path: of an `.npy` file of uint8 `[images, ...]`.

    Returns:
      uint8 `[images, bytes]`, mapped into memory.

    Raises:
      ValueError: if it holds something else, or nothing.
      OSError: if it cannot be read.
    """
    array = np.load(pathlib.Path(path), mmap_mode="r", allow_pickle=False)
    if array.dtype != np.uint8 or array.ndim < 2 or not array.size:
        raise ValueError(
            f"{path} holds {array.dtype} of shape {array.shape}; expected uint8 "
            "[images, ...] with one image at least: values beyond a byte have no id"
        )
    return array.reshape(len(array), -1)


class ImageReader:
    """Batches of images; keys are those of `byte_stream.ByteReader`."""

    def __init__(
        self,
        images: np.ndarray,
        *,
        length: int,
        batch_size: int,
        seed: int = 0,
        evaluation: bool = False,
    ):
        """See the class.

        Args:
          images: uint8 `[images, bytes]`, of `open_images`.
          length: of a row; that of the images.
          batch_size: rows of a whole batch, over all processes.
          seed: of the order.
          evaluation: one fixed epoch, whose last rows are padding.

        Raises:
          ValueError: if images have another length.
        """
        if images.shape[1] != length:
            raise ValueError(
                f"images have {images.shape[1]} bytes, but data.input_length is "
                f"{length}; set it to that"
            )
        self._images = images
        self._epochs = Epochs(
            len(images), batch_size=batch_size, seed=seed, evaluation=evaluation
        )

    @property
    def num_examples(self) -> int:
        """Images of an epoch."""
        return len(self._images)

    @property
    def steps(self) -> int:
        """Batches of one evaluation."""
        return self._epochs.steps

    def batch_at(self, step: int, rows: BatchRows = None) -> dict[str, np.ndarray]:
        """The batch of one step, `[b, n]` arrays; see `ByteReader.batch_at`.

        Raises:
          IndexError: if the step is out of range.
        """
        items = self._epochs.items(step, rows)
        shape = (len(items), self._images.shape[1])
        targets, weights = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
        for row, item in enumerate(items):
            if item is not None:
                targets[row], weights[row] = self._images[item], 1.0
        return next_symbol_batch(targets, weights)
