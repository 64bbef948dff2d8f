"""Images as rows of bytes, from array files: `.npy` of uint8, one image an entry."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from etc_jax.data.bytes.stream import next_symbol_batch
from etc_jax.data.epochs import EpochReader


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


class ImageReader(EpochReader):
    """Batches of images, padding of weight 0; keys as those of `ByteReader`."""

    def __init__(
        self,
        images: np.ndarray,
        *,
        length: int,
        **order: Any,
    ):
        """See the class and `EpochReader`.

        Args:
          images: uint8 `[images, bytes]`, of `open_images`.
          length: of a row; that of the images.
          **order: batch_size, seed and evaluation of `EpochReader`.

        Raises:
          ValueError: if images have another length.
        """
        if images.shape[1] != length:
            raise ValueError(
                f"images have {images.shape[1]} bytes, but data.input_length is "
                f"{length}; set it to that"
            )
        super().__init__(len(images), **order)
        self._images = images

    def _batch(self, items: Sequence[int | None]) -> dict[str, np.ndarray]:
        shape = (len(items), self._images.shape[1])
        targets, weights = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
        for row, item in enumerate(items):
            if item is not None:
                targets[row], weights[row] = self._images[item], 1.0
        return next_symbol_batch(targets, weights)
