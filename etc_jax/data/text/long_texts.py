"""Long texts for pre-training: one document, or several that follow each other."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from etc_jax.data.input_files import max_record_bytes, too_large
from etc_jax.data.text.corpus import Document
from etc_jax.data.text.export import cut, encode
from etc_jax.data.text.sentences import split_sentences
from etc_jax.data.tokenizers.tokenizer import Tokenizer

# Documents to the length of each.
LengthFn = Callable[[Sequence[Document]], Sequence[int]]

_BATCH_CHARS = 1 << 22


@dataclasses.dataclass(frozen=True)
class LongText:
    """Documents that make one text.

    Attributes:
      documents: in order, one at least.
      length: of all together, in tokens or words.
      similarities: of each document but the first to the first one, cosines.
    """

    documents: tuple[Document, ...]
    length: int
    similarities: tuple[float, ...] = ()

    @property
    def num_chars(self) -> int:
        return sum(document.num_chars for document in self.documents)

    def row(self) -> str:
        """A line of JSON, which `read_documents` reads as one document.

        It has the paragraphs of all documents, and beside them the name of each
        document and how many of the paragraphs are its own.

        Raises:
          BadRecordError: if it is longer than what may be read.
        """
        paragraphs = [p for document in self.documents for p in document.paragraphs]
        members = [[d.name, len(d.paragraphs)] for d in self.documents]
        values = {"text": "\n\n".join(paragraphs), "documents": members}
        line = f"{json.dumps(values, ensure_ascii=False)}\n"
        # UTF-8 has four bytes a character at most.
        if 4 * len(line) > (most := max_record_bytes()):
            # Only of those that may be too long: a copy of the text.
            if (size := len(line.encode("utf-8", "backslashreplace"))) > most:
                name = f"document {self.documents[0].name!r}, as a line of JSON,"
                raise too_large("document too large", name, size)
        return line


def in_words(documents: Sequence[Document]) -> list[int]:
    """The words of each document: what white space separates."""
    return [sum(len(p.split()) for p in d.paragraphs) for d in documents]


def in_tokens(tokenizer: Tokenizer) -> LengthFn:
    """Counts the tokens that a token cache has of each document.

    Args:
      tokenizer: the vocabulary.

    Returns:
      A function, which raises ImportError if nupunkt is not installed.
    """

    def lengths(documents: Sequence[Document]) -> list[int]:
        encoded = encode(documents, tokenizer, split_sentences)
        # Offsets of sentences in tokens, at the ends of documents.
        offsets = np.cumsum([0, *encoded.sentence_lengths])
        return np.diff(offsets[np.cumsum([0, *encoded.document_lengths])]).tolist()

    return lengths


def measured(documents: Iterable[Document], length_fn: LengthFn) -> Iterator[LongText]:
    """Each document as a text of its own, in order."""
    for batch in cut(documents, _BATCH_CHARS):
        for document, length in zip(batch, length_fn(batch), strict=True):
            yield LongText((document,), length)
