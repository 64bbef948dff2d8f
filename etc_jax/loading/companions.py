"""What lies beside the parameters of a model: in a folder of ours, and of others."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from etc_jax.conversion import exchange
from etc_jax.conversion.formats import label_names, sentence_folder
from etc_jax.conversion.formats.sentence_folder import SentenceFolder
from etc_jax.data.text.cache import TOKENIZER
from etc_jax.data.tokenizers import hub_writing
from etc_jax.data.tokenizers.tokenizer import Tokenizer


@dataclasses.dataclass(frozen=True)
class Companions:
    """What goes with a model wherever it is written.

    Attributes:
      tokenizer: of the model; None: none is written.
      labels: that it chooses among; see `label_names`.
      sentences: how it makes vectors of texts; None: that is not said.
      generation: {name: content} of how it writes texts.
    """

    tokenizer: Tokenizer | None
    labels: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    sentences: SentenceFolder | None = None
    generation: Mapping[str, bytes] = dataclasses.field(default_factory=dict)

    def native_files(self, config: Any) -> dict[str, bytes]:
        """{name: content} of files in a folder of etc_jax (`native.save`).

        Args:
          config: of the model that is written.
        """
        files = self._files(config) | label_names.files_of(self.labels)
        if self.tokenizer is not None:
            files[TOKENIZER] = self.tokenizer.saved()
        return files

    def hugging_face_files(
        self, config: Any, max_length: int | None = None
    ) -> dict[str, bytes]:
        """{name: content} of files in a folder of Hugging Face (`hugging_face.save`).

        Labels are not among them: they stand in config.json.

        Args:
          config: of the model that is written; {} if transformers has no such model.
          max_length: tokens of an input; None: as many as the model has positions,
            or as the tokenizer's own files say where it has any number.

        Raises:
          ValueError: if transformers has no counterpart of the tokenizer.
        """
        if exchange.find(config) is None:
            return {}
        files = self._files(config)
        if self.tokenizer is not None:
            limit = config.position_limit if max_length is None else max_length
            files |= hub_writing.files_of(self.tokenizer, limit)
        return files

    def _files(self, config: Any) -> dict[str, bytes]:
        if self.sentences is None:
            return dict(self.generation)
        sentences = sentence_folder.files_of(self.sentences, config.embed_dim)
        return sentences | self.generation
