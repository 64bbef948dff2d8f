"""The questions of `benchmarks window_ablation`: articles that several windows cover.

An article tells of three towns, a block each: a sentence that names the town, words
about nobody, and in which region the town lies and with which it trades mostly. One of
the three is asked about: in which region does it lie? Of a quarter of the questions the
article does not tell.

In "unnamed" items the last two sentences speak of "the town", so that the one that is
meant is only stated at the head of the block, further away than a short window reaches.
In "named" ones they say its name, and the question can be answered from one sentence.
In all else both are alike.

Names are drawn anew for each item from a hundred, so that there is nothing to remember.
The town that is asked about is the only one with another name, which is not in the
vocabulary: finding one of many names that are in it takes small models longer than
their runs last.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import pathlib
import random
import string
from collections.abc import Iterator
from typing import Any

from benchmarks.data.structure_items import frequent_words
from etc_jax.data.tokenizers.special_tokens import WORDPIECE
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.tasks.natural_questions.records import (
    Record as NaturalQuestionsRecord,
    read,
)
from etc_jax.tasks.synthetic import natural_questions as invented
from etc_jax.tasks.synthetic.maker import write_records

Record = dict[str, Any]

# Share of the sentences that do not name their town.
PRONOUNS = {"unnamed": 1.0, "named": 0.0}
TRAIN_SERIES, VALIDATION_SERIES = 1, 2
# Short windows that a long one is as long as.
LONG_WINDOWS = 4
# Of a window, beside the article: the question, [CLS] and [SEP] twice.
BESIDE = 10
NULLS = 0.25

# What HTML tags become.
_TAGS = (WORDPIECE.nq_html_start, WORDPIECE.nq_html_end)
_BEFORE, _AFTER = "In which region does ", " lie?"
# Of one length, so that none contains another.
_NAMES = tuple(f"Mask{a}{b}" for a in "abcdefghij" for b in "klmnopqrst")


def items(kind: str, series: int, *, window: int, annotators: int) -> Iterator[Record]:
    """The endless records of a series, in the official form.

    Args:
      kind: "unnamed" or "named".
      series: other ones have nothing in common.
      window: pieces of a short window, less than what is between the two sentences of a
        block that belong together. Articles fit into one that is `LONG_WINDOWS` times
        as long.
      annotators: 1 as in training files, 5 as in development files.
    """
    short = invented.NaturalQuestionsSizes(
        hops=(1, 1),
        contexts=3,
        facts=2,
        kinds=("town",),
        wordings=1,
        pronouns=PRONOUNS[kind],
        nulls=NULLS,
        yes_no=0.0,
        long_only=0.0,
        annotators=annotators,
        names=_NAMES,
    )
    # Stops are pieces too, and tags.
    sizes = dataclasses.replace(short, apart=window - 2 * BESIDE)
    most = LONG_WINDOWS * window - BESIDE
    for number in itertools.count():
        # Articles take long to write, and the question is the same without.
        if _record(number, series, short)["question_text"].startswith(_BEFORE):
            record = _record(number, series, sizes)
            if len(record["document_tokens"]) <= most:
                yield _renamed(record)


def _record(number: int, series: int, sizes: invented.NaturalQuestionsSizes) -> Record:
    [record] = invented.records(1, seed=series, sizes=sizes, start=number)
    return record


def _renamed(record: Record) -> Record:
    """The town that is asked about has a name of its own, as long as before."""
    asked = record["question_text"].removeprefix(_BEFORE).removesuffix(_AFTER)
    letters = random.Random(record["example_id"]).choices(
        string.ascii_lowercase, k=len(asked) - 1
    )
    return json.loads(json.dumps(record).replace(asked, "".join(["Z", *letters])))


def words_of(record: NaturalQuestionsRecord) -> str:
    """What is said in a record, tags left out."""
    words = zip(record.words, record.is_html, strict=True)
    return " ".join([record.question, *(word for word, tag in words if not tag)])


def write_files(
    kind: str, folder: pathlib.Path, count: int, validation: int, *, window: int
) -> tuple[pathlib.Path, pathlib.Path, Tokenizer]:
    """Makes the files of records to learn from and of those for validation, once.

    Returns:
      Both, and a vocabulary of the words that are frequent in the former.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, series, number, annotators in (
        ("train", TRAIN_SERIES, count, 1),
        ("validation", VALIDATION_SERIES, validation, 5),
    ):
        files.append(folder / f"{name}_{number}.jsonl.gz")
        if not files[-1].exists():
            records = items(kind, series, window=window, annotators=annotators)
            write_records(files[-1], itertools.islice(records, number), lines=True)
    train, others = files
    return train, others, frequent_words(map(words_of, read([train])), special=_TAGS)
