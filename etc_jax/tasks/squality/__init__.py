"""SQuALITY (Wang et al. 2022): stories, and questions that are answered at length.

    etc-jax prepare --task=squality --tokenizer=tokenizer.json --out=prepared/train \\
        SQuALITY/data/v1-3/txt/train.jsonl

A line is a story with five questions, the first of which asks for the plot. Each has
four answers, written by four people, of which the best counts. To learn from all four:
`--every_target`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from etc_jax.datasets.fields import WHOLE, Fields, objects
from etc_jax.datasets.task import register
from etc_jax.datasets.text_sets import of_lines, text_data_set
from etc_jax.formats.text_to_text import TextToTextSizes

# Choices: none of the papers of this project has figures of it. Answers have 240 words
# in the mean.
SIZES = TextToTextSizes(input_length=16384, target_length=512)


def release(path: str | os.PathLike) -> Iterator[tuple[int, Any]] | None:
    """See `DataSet.release`."""
    return of_lines(path, "document", _records)


def _records(fields: Fields) -> Iterator[dict[str, Any]]:
    """A record for each question: "<passage>_<number of the question>"."""
    passage = fields.get("metadata", Fields).text("passage_id")
    story = fields.text("document")
    for question in fields.get("questions", objects):
        number = question.get("question_number", WHOLE)
        record = {
            "id": f"{passage}_{number}",
            "prefix": question.text("question_text").strip(),
            "input": story,
        }
        answers = question.get("responses", objects, [])
        if answers:
            texts = [answer.text("response_text").strip() for answer in answers]
            record["target"] = texts
        yield record


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
