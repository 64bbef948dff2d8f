"""Words with tags, as all of the data set sees them."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

# Of each sentence, its words, or their tags.
Sentences = tuple[tuple[str, ...], ...]


class TextWords(NamedTuple):
    """Where the words of a record stand in a text.

    Attributes:
      text: the text.
      offsets: of each sentence, (first, one past the last) character of each word.
    """

    text: str
    offsets: tuple[tuple[tuple[int, int], ...], ...]


@dataclasses.dataclass(frozen=True)
class Record:
    """Sentences of words with tags.

    Attributes:
      id: of the record.
      sentences: words of each, one or more.
      tags: of the same words; None without.
      labels: all there are, in the order of their numbers; () before they are known.
      text_words: where the words are those of a text; None where they are given.
    """

    id: str
    sentences: Sentences
    tags: Sentences | None
    labels: tuple[str, ...]
    text_words: TextWords | None = None
