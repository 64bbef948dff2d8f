"""seqio and TensorFlow, imported so that they leave JAX alone and processes end.

The other files of this folder take both from here:

    from etc_jax.tasks.seqio.tensorflow import seqio, tf
"""

from __future__ import annotations

import atexit
import os
import re
import weakref
from collections.abc import Iterator
from typing import Any

# Read when TensorFlow is loaded: without it, a machine that has no GPU gets errors
# about one. JAX sets 1 where nothing is set.
if os.environ.get("TF_CPP_MIN_LOG_LEVEL", "1") == "1":
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

try:
    import seqio
    import tensorflow as tf
except ImportError as e:
    raise ImportError(
        f'seqio Tasks need the extra "seqio": pip install -e ".[seqio,data]" ({e})'
    ) from e

# TensorFlow would otherwise reserve the memory of the accelerators that JAX uses.
tf.config.set_visible_devices([], "GPU")
tf.config.set_visible_devices([], "TPU")

__all__ = ["ExampleIterator", "seqio", "tf"]

_PYTHON_ERROR = re.compile(
    r"\b\w+Error: (.*?)\s*Traceback \(most recent call", re.DOTALL
)


class ExampleIterator(Iterator[dict[str, tf.Tensor]]):
    """An iterator of a tf.data set that is closed in time, at the latest at exit.

    A live one with Python functions in its pipeline keeps the process from ending,
    more often than not: its threads wait for an interpreter that is gone.

    An error of a Python function in the pipeline arrives as a ValueError with the text
    that it had, without the wrapping of TensorFlow.
    """

    def __init__(self, dataset: tf.data.Dataset):
        self._iterator = iter(dataset)
        _live.add(self)

    def __next__(self) -> dict[str, tf.Tensor]:
        try:
            return next(self.tf_iterator)
        except tf.errors.OpError as e:
            match = _PYTHON_ERROR.search(e.message)
            if match is None:
                raise
            # The error of our own reader or tokenizer, in TensorFlow's wrapping.
            raise ValueError(match[1]) from e

    @property
    def tf_iterator(self) -> Any:
        """TensorFlow's own, for its checkpoints.

        Raises:
          ValueError: if it is closed.
        """
        if self._iterator is None:
            raise ValueError("the stream is closed; open another one")
        return self._iterator

    def close(self) -> None:
        """Lets go of the iterator and of its threads."""
        self._iterator = None


_live: weakref.WeakSet[ExampleIterator] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for iterator in list(_live):
        iterator.close()
