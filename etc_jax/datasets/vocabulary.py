"""A vocabulary learned from the files of a data set, for those who have none."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from etc_jax.data.text.corpus import Document
from etc_jax.data.text.prepare import VOCABULARY_CHARS, sample
from etc_jax.data.tokenizers.base import Encoded, Tokenizer
from etc_jax.data.tokenizers.finding import WithOffsets
from etc_jax.data.tokenizers.grown import grown
from etc_jax.data.tokenizers.special_tokens import WORDPIECE
from etc_jax.data.tokenizers.wordpiece import WordPieceTokenizer
from etc_jax.data.tokenizers.wordpiece_training import (
    SPECIAL_TOKENS,
    frequent_words,
    train,
)
from etc_jax.data.windows.window import InputSizes
from etc_jax.datasets.records import BadRecordError, Problems
from etc_jax.datasets.task import Task

# Those of `WORDPIECE` that stand after the ids of `SPECIAL_TOKENS`.
_FURTHER = tuple(
    piece
    for piece in (WORDPIECE.nq_html_start, WORDPIECE.nq_html_end)
    if piece not in SPECIAL_TOKENS
)


class _Recorder:
    """A tokenizer that also lists the texts that it is given.

    Attributes:
      texts: in the order in which they came.
    """

    def __init__(self, tokenizer: Tokenizer):
        self.texts: list[str] = []
        self._tokenizer = tokenizer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def encode_batch(self, texts: Sequence[str]) -> list[Encoded]:
        self.texts += texts
        return self._tokenizer.encode_batch(texts)

    def encode_with_offsets(self, texts: Sequence[str]) -> list[WithOffsets]:
        self.texts += texts
        return self._tokenizer.encode_with_offsets(texts)


def learn(
    task: Task,
    files: Sequence[str | os.PathLike],
    *,
    vocab_size: int,
    sizes: InputSizes | None = None,
    whole_words: bool = False,
    lower_case: bool = True,
) -> Tokenizer:
    """Learns a WordPiece vocabulary from the texts of a data set's inputs.

    These are all texts that its records give to a tokenizer: questions, documents,
    answers to be written. The same files give the same vocabulary, id for id. It has
    the special tokens of ETC's models and those that the data set adds.

    Args:
      task: the data set, with the options of its inputs.
      files: of its official release, to learn from; all are read once.
      vocab_size: ids wanted, special tokens included.
      sizes: lengths of an input; None: those of the paper.
      whole_words: the vocabulary has the most frequent words whole, and all others are
        [UNK]; otherwise it has pieces of words.
      lower_case: whether capitals and accents are dropped.

    Raises:
      ValueError: if the files do not give that many pieces or words.
      OSError: if a file cannot be read.
    """
    task = task.completed(files)
    documents = _texts(task, files, sizes or task.sizes)
    chosen = sample(documents, VOCABULARY_CHARS)
    learner = frequent_words if whole_words else train
    learned = learner(
        (text for document in chosen for text in document.paragraphs),
        vocab_size=vocab_size - len(task.tokens),
        special=_FURTHER,
        lower_case=lower_case,
    )
    return _with_tokens(learned, task)


def _with_tokens(tokenizer: Tokenizer, task: Task) -> Tokenizer:
    return grown(tokenizer, task.tokens) if task.tokens else tokenizer


def _texts(
    task: Task, files: Sequence[str | os.PathLike], sizes: InputSizes
) -> Iterator[Document]:
    """The texts of each record, all of whose words are unknown yet."""
    unknown = WordPieceTokenizer([*SPECIAL_TOKENS, *_FURTHER])
    recorder = _Recorder(_with_tokens(unknown, task))
    # What cannot be read, `prepare` counts.
    for record in task.read(files, Problems()):
        recorder.texts = []
        try:
            task.features(record, recorder, sizes)
        except BadRecordError:
            continue  # `prepare` leaves it out too, and says why
        yield Document(record.id, tuple(recorder.texts))
