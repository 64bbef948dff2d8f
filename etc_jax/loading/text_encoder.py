"""What an encoder needs to read texts: one protocol for models of all kinds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from etc_jax.base import registry
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.models.family import find

KIND = "text_encoder"
# Named arrays, and a structure where the model reads one.
Batch = dict[str, Any]


class Input(NamedTuple):
    """A text in tokens.

    Attributes:
      ids: int32 `[t]`, special tokens among them.
      sentences: int32 `[t]`, the number of each token's sentence; 0 for all where the
        model has no use for it.
      global_ids: int32 `[g]`, of the global token of each sentence; empty where the
        global tokens are among the others.
    """

    ids: np.ndarray
    sentences: np.ndarray
    global_ids: np.ndarray


class Marked(NamedTuple):
    """Hidden states, some of which are padding.

    Attributes:
      states: `[b, n, embed_dim]`.
      real: bool `[b, n]`.
    """

    states: jax.Array
    real: jax.Array


class TextEncoder(Protocol):
    """How an encoder reads texts: a frozen dataclass of the model's config.

    Registered as "text_encoder" under the names of its families.

    Attributes:
      config: of the model.
      max_length: tokens of the longest input; None: any number.
      poolings: of those of `pooling.pooled`, the ones that it has tokens for.
    """

    config: Any
    max_length: int | None
    poolings: tuple[str, ...]

    def inputs_of(self, texts: Sequence[str], tokenizer: Tokenizer) -> list[Input]:
        """The texts in tokens, of any length.

        Raises:
          ValueError: if a token has no row in the model's table.
        """

    def input_of_ids(self, ids: np.ndarray) -> Input:
        """An input from its ids `[t]`, special ones among them.

        Raises:
          ValueError: if the model reads more than that.
        """

    def cut(self, given: Input, length: int) -> Input:
        """An input of at most `length` tokens."""

    def padding_limit(self, length: int) -> int | None:
        """The longest padded length with the same hidden states; None: any.

        Args:
          length: tokens of an input.
        """

    def batch(self, inputs: Sequence[Input], length: int) -> Batch:
        """What `apply` reads.

        Args:
          inputs: of a batch.
          length: to which they are padded.
        """

    def apply(self, params: Any, batch: Batch) -> Any:
        """Hidden states after the last layer, as the model's module gives them; pure.

        Args:
          params: of the model, with or without heads.
          batch: see `batch`.
        """

    def tokens(self, output: Any, batch: Batch) -> Marked:
        """The hidden states of the tokens, of what `apply` gave."""

    def global_tokens(self, output: Any, batch: Batch) -> Marked:
        """The hidden states of the global tokens, of what `apply` gave."""


def encodes(family: str) -> bool:
    """Whether the models of a family encode texts."""
    return family in _readings()


def _readings() -> dict[str, str]:
    """{family: name of how its models read texts} of those that do."""
    readings = {name: find(name).text_encoder for name in registry.names("family")}
    return {name: reading for name, reading in readings.items() if reading}


def text_encoder_of(family: str, config: Any) -> TextEncoder:
    """How the models of a family read texts.

    Raises:
      ValueError: if they do not encode texts.
    """
    readings = _readings()
    if family not in readings:
        raise ValueError(
            f"the model is of family {family!r}, which does not encode texts here; "
            f"{', '.join(readings)} do. Give inputs that you make yourself to its "
            "module of etc_jax.models"
        )
    return registry.lookup(KIND, readings[family])(config)
