"""The questions of `benchmarks structure_ablation`: small models learn them in minutes.

Who is the teacher of somebody? Some documents of one form tell teacher and rival of a
person each. All names are drawn anew for each item from a hundred, `Mask<k>`, so that
there is nothing to remember; the one who is asked about is the only person with another
name, which is not in the vocabulary: finding one of many names that are in it takes
models as small as these longer than their runs last.

WikiHop-like: a candidate is to be chosen, which is linked to its mentions
(`etc_jax.tasks.synthetic.teachers`).
HotpotQA-like: a span is the answer, and the sentence that says so is asked for too. A
sentence names its subject "she" or "he", so that who it is follows from its document
alone, which holds sentences about other things as well.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import pathlib
import random
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from benchmarks.kit.finetuning_runs import make_caches
from etc_jax.data.tokenizers.tokenizer import Tokenizer, WordPieceTokenizer
from etc_jax.data.tokenizers.wordpiece_training import SPECIAL_TOKENS
from etc_jax.data.windows.cache import WindowCache
from etc_jax.datasets.task import Task
from etc_jax.formats.structured import StructuredSizes
from etc_jax.tasks import hotpotqa, wikihop
from etc_jax.tasks.synthetic import hotpotqa as invented_hotpotqa, teachers
from etc_jax.tasks.synthetic.maker import write_records

HOTPOTQA_TASK = hotpotqa.DATA_SET.in_format()
WIKIHOP_TASK = wikihop.DATA_SET.in_format()

Record = dict[str, Any]

TRAIN_SERIES, VALIDATION_SERIES = 1, 2
# Words that come up less often in the training items become [UNK].
LEAST_COUNT = 20

_WORD = re.compile(r"\w+|[^\w\s]")


def frequent_words(texts: Iterable[str], special: Iterable[str] = ()) -> Tokenizer:
    """A vocabulary of whole words; those that come up less often become [UNK].

    Args:
      texts: that they are in.
      special: tokens beside those of all trained vocabularies.
    """
    counts: collections.Counter[str] = collections.Counter()
    for text in texts:
        counts.update(_WORD.findall(text.lower()))
    words = sorted(word for word, n in counts.items() if n >= LEAST_COUNT)
    return WordPieceTokenizer([*SPECIAL_TOKENS, *special, *words])


@dataclasses.dataclass(frozen=True)
class ItemSet:
    """Invented questions of one task.

    Attributes:
      task: whose official form they have.
      records: the endless records of a series, all about teachers.
      question: name of the field that holds it.
      documents: the texts of a record's documents.
      sizes: lengths of an input that are enough for all of them.
      steps: batches of 32 from which a small model with structure learns them.
      metric: of the evaluations during training, what a learning curve shows.
    """

    task: Task
    records: Callable[[int], Iterator[Record]]
    question: str
    documents: Callable[[Record], list[str]]
    sizes: StructuredSizes
    steps: int
    metric: str

    def items(self, count: int, series: int) -> Iterator[Record]:
        """The first records of a series, in the official form."""
        return itertools.islice(self.records(series), count)

    def word_tokenizer(self, records: Iterable[Mapping[str, Any]]) -> Tokenizer:
        """A vocabulary of the frequent words: a name that is no mask becomes [UNK]."""
        return frequent_words(
            text
            for record in records
            for text in (record[self.question], *self.documents(record))
        )

    def make_caches(
        self, folder: pathlib.Path, count: int, validation: int
    ) -> tuple[WindowCache, WindowCache]:
        """Inputs to learn from and to be evaluated on, made once.

        The records are `train.json` and `validation.json` in the folder.
        """
        train = list(self.items(count, TRAIN_SERIES))
        files = folder / "train.json", folder / "validation.json"
        folder.mkdir(parents=True, exist_ok=True)
        write_records(files[0], train)
        write_records(files[1], self.items(validation, VALIDATION_SERIES))
        tokenizer = self.word_tokenizer(train)
        return make_caches(self.task, files, tokenizer, folder, self.sizes)


# --- HotpotQA -------------------------------------------------------------------------

_HOTPOTQA = invented_hotpotqa.HotpotQaSizes(
    hops=(1, 1),
    contexts=4,
    facts=2,
    words=90,
    kinds=("person",),
    wordings=1,
    pronouns=1.0,
    comparisons=0.0,
)
_QUESTION = "Who taught "

_NAME = re.compile(r"[A-Z]\w+ [A-Z]\w+")
_MASKS = 100  # as many as WikiHop-like items have


def _hotpotqa(series: int) -> Iterator[Record]:
    every = invented_hotpotqa.records(sys.maxsize, seed=series, sizes=_HOTPOTQA)
    for record in every:
        if record["question"].startswith(_QUESTION):
            yield _masked(record)


def _masked(record: Record) -> Record:
    """All persons but the one who is asked about are masks."""
    asked = record["question"].removeprefix(_QUESTION).removesuffix("?")
    numbers = list(range(_MASKS))
    random.Random(record["_id"]).shuffle(numbers)
    names = collections.defaultdict(lambda: f"Mask{numbers.pop()}", {asked: asked})

    def mask(text: str) -> str:
        return _NAME.sub(lambda match: names[match[0]], text)

    context = [[mask(title), [*map(mask, texts)]] for title, texts in record["context"]]
    return {**record, "context": context, "answer": mask(record["answer"])}


SETS = {
    "wikihop": ItemSet(
        WIKIHOP_TASK,
        lambda series: teachers.records(sys.maxsize, seed=series),
        question="query",
        documents=lambda record: record["supports"],
        sizes=StructuredSizes(long_length=128, global_length=32),
        steps=300,
        metric="accuracy",
    ),
    "hotpotqa": ItemSet(
        HOTPOTQA_TASK,
        _hotpotqa,
        question="question",
        documents=lambda record: ["".join(texts) for _, texts in record["context"]],
        sizes=StructuredSizes(long_length=192, global_length=48),
        steps=120,
        metric="span_accuracy",
    ),
}
