"""Invented questions among other paragraphs, as inputs of small encoder-decoders.

Articles in SQuAD's form (`tasks.synthetic`), and each question with other paragraphs
beside its own (`tasks.squad.distractors`), which say the same things of other names. To
begin with, questions of short texts, every second of which does not have the answer.
`nothing` stands at their end, and is then the answer.
"""

from __future__ import annotations

import dataclasses
import pathlib
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.data.structure_items import (
    TRAIN_SERIES,
    VALIDATION_SERIES,
    frequent_words,
)
from benchmarks.kit.finetuning_runs import make_caches
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.data.windows.cache import WindowCache
from etc_jax.datasets.task import find_task
from etc_jax.formats.text_to_text import TextToTextSizes
from etc_jax.tasks.squad import distractors
from etc_jax.tasks.squad.records import Record, read
from etc_jax.tasks.synthetic import squad as invented

TASK = find_task("squad")
# Both things are told of each name, so that the things do not tell the paragraph.
SIZES = invented.SquadSizes(facts=2, things=2, name_words=1, name_pool=24)
# Tokens of a question with T5's word before it, of a paragraph, of an answer.
QUESTION, PARAGRAPH, ANSWER = 10, 14, 2
# Words of a piece of several paragraphs.
PIECE = 18
SHORT = "short"
# As above, and `nothing`.
SHORT_LENGTH = QUESTION + PIECE + 4
_SHORT_SERIES = 3
_NOTHING = "nothing"


def length_of(paragraphs: int) -> int:
    """Tokens of an input with so many paragraphs."""
    # Two words of T5 stand before them, and an end after them.
    return QUESTION + PARAGRAPH * paragraphs + 3


@dataclasses.dataclass(frozen=True)
class Items:
    """Questions to learn from, and validation ones.

    Attributes:
      folder: of the files and of everything that is made of them.
      train, validation: files by the order of paragraphs.
      tokenizer: of the inputs.
    """

    folder: pathlib.Path
    train: Mapping[str, pathlib.Path]
    validation: Mapping[str, pathlib.Path]
    tokenizer: Tokenizer

    def caches(
        self, order: str, length: int, options: Mapping[str, Any]
    ) -> tuple[WindowCache, WindowCache]:
        """Inputs to learn from and to validate on, made once.

        Args:
          order: of the paragraphs.
          length: tokens of an input.
          options: of the inputs, see `datasets.pairs.PairOptions`.
        """
        named = "_".join(f"{name}{value}" for name, value in options.items())
        return make_caches(
            TASK.with_options(options),
            (self.train[order], self.validation[order]),
            self.tokenizer,
            self.folder / f"{order}_{length}_{named}",
            TextToTextSizes(length, ANSWER),
        )


def write_short(folder: pathlib.Path, *, questions: int, validation: int) -> Items:
    """Makes the files of short questions and a vocabulary of their words, once.

    Args:
      folder: of the files.
      questions: to learn from.
      validation: to be evaluated on.
    """
    sides = []
    for series, count in ((_SHORT_SERIES, questions), (VALIDATION_SERIES, validation)):
        plain = _plain(folder / f"{series}", series, count)
        articles = short_articles(list(read([plain])), seed=series)
        file = _articles(plain.with_name(f"{SHORT}.json"), articles)
        sides.append({SHORT: file})
    records = read([sides[0][SHORT]])
    texts = (f"question: {x.question} context: {x.context}" for x in records)
    return Items(folder, *sides, frequent_words(texts))


def write_items(
    folder: pathlib.Path,
    tokenizer: Tokenizer,
    *,
    questions: int,
    validation: int,
    paragraphs: int,
) -> Items:
    """Makes the files of questions among other paragraphs, once.

    Args:
      folder: of the files.
      tokenizer: of the inputs.
      questions: to learn from.
      validation: to be evaluated on.
      paragraphs: of an input.

    Raises:
      ValueError: if there are too few paragraphs to draw from.
    """
    sides = []
    for series, count in ((TRAIN_SERIES, questions), (VALIDATION_SERIES, validation)):
        plain = _plain(folder / f"{series}", series, count)
        sides.append(_with_distractors(plain, paragraphs))
    return Items(folder, *sides, tokenizer)


def _articles(file: pathlib.Path, articles: Iterable[dict[str, Any]]) -> pathlib.Path:
    """The file of some articles, made once."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        invented.MAKER.write(file, articles)
    return file


def _plain(folder: pathlib.Path, series: int, questions: int) -> pathlib.Path:
    count = questions // SIZES.facts
    articles = invented.records(count, seed=series, sizes=SIZES)
    return _articles(folder / "articles.json", articles)


def _with_distractors(plain: pathlib.Path, paragraphs: int) -> dict[str, pathlib.Path]:
    files = {}
    for order in distractors.ORDERS:
        file = files[order] = plain.with_name(f"{order}.json")
        argv = [f"--order={order}", f"--count={paragraphs - 1}", f"--out={file}"]
        if not file.exists() and distractors.main([*argv, str(plain)]):
            raise ValueError(f"{plain}: no other paragraphs were added; see above")
    return files


def short_articles(records: Sequence[Record], *, seed: int) -> Iterator[dict[str, Any]]:
    """Questions of short texts, two of four without the answer.

    Two are of one paragraph, their own or that of another name. Two are of a piece of
    three paragraphs, in which sentences stand at all places, as they do in a window.

    Args:
      records: with answers, of three names or more.
      seed: of the draws.
    """
    paragraphs = distractors.paragraphs_of(records)
    rng = random.Random(f"short {seed}")
    for i, record in enumerate(records):
        answered = i % 2 == 0
        if i % 4 < 2:
            text = record.context if answered else _another(record, paragraphs, rng)
        else:
            text = _piece(record, paragraphs, rng, answered)
        answer = record.answers[0].text if answered else _NOTHING
        context = f"{text} {_NOTHING}"
        # Values are words of their own, and no other paragraph has this one.
        given = {"text": answer, "answer_start": context.index(answer)}
        asked = {"id": record.id, "question": record.question, "answers": [given]}
        about = {"context": context, "qas": [asked]}
        yield {"title": record.title, "paragraphs": [about]}


def _another(
    record: Record, paragraphs: Sequence[distractors.Paragraph], rng: random.Random
) -> str:
    return rng.choice([p.text for p in paragraphs if p.title != record.title])


def _piece(
    record: Record,
    paragraphs: Sequence[distractors.Paragraph],
    rng: random.Random,
    answered: bool,
) -> str:
    """Words of three paragraphs, among them the answer with its name, or not both."""
    made = distractors.with_distractors(
        record, paragraphs, order="shuffled", count=2, seed=0
    )
    words = made["paragraphs"][0]["context"].split()
    last = words.index(record.answers[0].text)
    # "of NAME is VALUE"
    first = last - 1 - SIZES.name_words
    starts = [
        start
        for start in range(len(words) - PIECE + 1)
        if (start <= first and last < start + PIECE) == answered
    ]
    start = rng.choice(starts)
    return " ".join(words[start : start + PIECE])
