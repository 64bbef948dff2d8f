"""SQuALITY (Wang et al. 2022): stories, and questions that are answered at length.

    etc-jax prepare --task=squality --tokenizer=tokenizer.json --out=prepared/train \\
        SQuALITY/data/v1-3/txt/train.jsonl

A line is a story with five questions, the first of which asks for the plot. Each has
four answers, written by four people, of which the best counts. To learn from all four:
`--every_target`.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from typing import Any

from etc_jax.data.input_files import BadRecordError
from etc_jax.datasets.fields import WHOLE, Fields, objects
from etc_jax.datasets.task import register
from etc_jax.datasets.text_sets import each_by_itself, of_lines, text_data_set
from etc_jax.formats.text_to_text import TextToTextSizes

# Choices: none of the papers of this project has figures of it. Answers to stories of
# the development set have 225 words in the mean, 500 at most.
SIZES = TextToTextSizes(input_length=16384, target_length=512)


def release(path: str | os.PathLike) -> Iterator[tuple[int, Any]] | None:
    """See `DataSet.release`."""
    return of_lines(path, "document", _records)


def _records(fields: Fields) -> Iterator[dict[str, Any] | BadRecordError]:
    """A record for each question."""
    passage = fields.get("metadata", Fields).text("passage_id")
    story = fields.text("document")
    questions = fields.get("questions", objects)
    return each_by_itself(questions, functools.partial(_record, passage, story))


def _record(passage: str, story: str, question: Fields) -> dict[str, Any]:
    """That of a question: `<passage>_<number of the question>`."""
    record = {
        "id": f"{passage}_{question.get('question_number', WHOLE)}",
        "prefix": question.text("question_text").strip(),
        "input": story,
    }
    answers = question.get("responses", objects, [])
    if answers:
        record["target"] = [x.text("response_text").strip() for x in answers]
    return record


DATA_SET = register(
    text_data_set(
        "squality",
        measure="rouge",
        sizes=SIZES,
        release=release,
        prefix="Question",
        between="\n\n",
    )
)
"""The data set, as commands and configs find it."""
