"""SQuAD among distractors, straight from its files (Ivgi et al. 2022, section 4.1).

    etc-jax prepare --task=squad_distractors --tokenizer=vocab.json --begin_token \\
        --prefix_length=64 --order=shuffled --out=prepared/shuffled train-v1.1.json

The question is the prefix, and the input its paragraph with nine others of the same
file, a line each; which ones depends on the question's id and `--draw_seed` alone. None
is of the same article, and none holds an answer. The first answer is learnt, any is
right in the score: SQuAD's exact match and F1.

A file is read twice: first its paragraphs, which stay in memory, about 20 MB of those
of `train-v1.1.json`, then its questions, an article at a time.
`python -m etc_jax.tasks.squad.distractors` writes the same as files of SQuAD's form.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

from etc_jax.base.rules import whole
from etc_jax.datasets.json_lines import has_objects
from etc_jax.datasets.pairs import TextOptions
from etc_jax.datasets.records import Problems
from etc_jax.datasets.task import register
from etc_jax.datasets.text_sets import converted, text_data_set
from etc_jax.formats.text_to_text import TextToTextSizes
from etc_jax.tasks.squad import records
from etc_jax.tasks.squad.distractors import Paragraph, joined, paragraphs_of, placed

# The authors' code: at most 16,384 tokens are read, and 128 written.
SIZES = TextToTextSizes(input_length=16384, target_length=128)


@dataclasses.dataclass(frozen=True)
class DistractorOptions(TextOptions):
    """How texts become tokens, and what stands beside a question's paragraph.

    Attributes:
      order: ordered, its paragraph comes first; shuffled, in a random order; alone,
        without others: what a model reaches that need not search.
      distractors: how many paragraphs stand beside it.
      draw_seed: of the draws.
    """

    given_to: ClassVar[tuple[str, ...]] = (*TextOptions.given_to, "read", "release")

    order: Literal["ordered", "shuffled", "alone"] = "shuffled"
    distractors: int = 9
    draw_seed: int = 0

    def __post_init__(self):
        whole(0).check(distractors=self.distractors)


OPTIONS = DistractorOptions()


def release(
    path: str | os.PathLike, *, options: DistractorOptions = OPTIONS
) -> Iterator[tuple[int, Any]] | None:
    """The questions of an official file; see `text_sets.ReleaseFn`."""
    return None if has_objects(path) else _questions(path, options)


def _questions(
    path: str | os.PathLike, options: DistractorOptions
) -> Iterator[tuple[int, Any]]:
    # What is wrong is told when the questions are read.
    paragraphs = paragraphs_of(records.read([path], Problems()))
    record_of = functools.partial(_record, paragraphs=paragraphs, options=options)
    yield from converted(records.questions(path), record_of)


def _record(
    value: Any, paragraphs: Sequence[Paragraph], options: DistractorOptions
) -> dict[str, Any]:
    # An answer need not stand where the file says: its text alone is used.
    record = records.parse(value, lambda kind, message: None)
    texts = placed(
        record,
        paragraphs,
        order=options.order,
        count=options.distractors,
        seed=options.draw_seed,
    )
    return {
        "id": record.id,
        "input": joined(texts),
        "prefix": record.question,
        # Annotators often agree.
        "target": list(dict.fromkeys(answer.text for answer in record.answers)),
    }


DATA_SET = register(
    text_data_set(
        "squad_distractors",
        measure="f1",
        sizes=SIZES,
        release=release,
        prefix="Question",
        between="\n\n",
        options=OPTIONS,
    )
)
"""The data set, as commands and configs find it."""
