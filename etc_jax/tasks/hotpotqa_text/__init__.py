"""HotpotQA as text: the answer is written (Ivgi et al. 2022, section 4.2, figure 4).

    etc-jax prepare --task=hotpotqa_text --tokenizer=vocab.json --begin_token \\
        --prefix_length=64 --paragraphs=gold --out=prepared/hotpotqa_text \\
        hotpot_train_v1.1.json

The question is the prefix, and the input the paragraphs, a line each that begins with
the title. A question may be asked of

    --paragraphs=gold     the two that support its answer, in the order of the file,
                          which is random: what the paper reads
    --paragraphs=second   that one of them alone which has the answer; where both or
                          neither have it, as for yes and no, one drawn by the id
    --paragraphs=all      all ten

The score is SQuAD's exact match and F1, as in the authors' code. HotpotQA's own F1 is
another only where yes, no or noanswer stands among other words: it is 0 there.

This is a data set of its own beside `hotpotqa`, whose predictions have supporting
sentences too and whose metric counts them: a model that writes gives none.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import random
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

from etc_jax.datasets.json_lines import has_objects
from etc_jax.datasets.pairs import TextOptions
from etc_jax.datasets.records import BadRecordError, read_array
from etc_jax.datasets.task import register
from etc_jax.datasets.text_sets import converted, text_data_set
from etc_jax.formats.text_to_text import TextToTextSizes
from etc_jax.tasks.hotpotqa.records import Paragraph, Record, parse

# The authors' code: at most 16,384 tokens are read, and 128 written.
SIZES = TextToTextSizes(input_length=16384, target_length=128)


@dataclasses.dataclass(frozen=True)
class HotpotTextOptions(TextOptions):
    """How texts become tokens, and which paragraphs are read.

    Attributes:
      paragraphs: gold, the two that support the answer; second, that one of them which
        has the answer; or all.
    """

    given_to: ClassVar[tuple[str, ...]] = (*TextOptions.given_to, "read", "release")

    paragraphs: Literal["gold", "second", "all"] = "gold"


OPTIONS = HotpotTextOptions()


def release(
    path: str | os.PathLike, *, options: HotpotTextOptions = OPTIONS
) -> Iterator[tuple[int, Any]] | None:
    """The questions of an official file; see `text_sets.ReleaseFn`."""
    if has_objects(path):
        return None
    return converted(read_array(path), functools.partial(_as_text, options=options))


def _as_text(value: Any, options: HotpotTextOptions) -> dict[str, Any]:
    # What is odd in support and context does not matter here.
    record = parse(value, lambda kind, message: None)
    paragraphs = paragraphs_of(record, options.paragraphs)
    lines = (f"{x.title}: {_text(x)}" for x in paragraphs)
    pair = {"id": record.id, "input": "\n".join(lines), "prefix": record.question}
    return pair if record.answer is None else {**pair, "target": record.answer}


def _text(paragraph: Paragraph) -> str:
    return " ".join("".join(paragraph.sentences).split())


def paragraphs_of(record: Record, which: str) -> Sequence[Paragraph]:
    """The paragraphs that a question is asked of; see the module.

    Args:
      record: with supporting facts, if not all are read.
      which: gold, second or all.

    Raises:
      BadRecordError: if it has no supporting facts, or no paragraph of those.
    """
    if which == "all":
        return record.paragraphs
    if record.support is None:
        raise BadRecordError(
            "no supporting facts",
            f"{record.id!r}: paragraphs={which} goes by them; give paragraphs=all",
        )
    titles = {title for title, _ in record.support}
    # Of two paragraphs with one title, the first.
    by_title = {x.title: x for x in reversed(record.paragraphs) if x.title in titles}
    gold = [x for x in record.paragraphs if by_title.get(x.title) is x]
    if not gold:
        raise BadRecordError(
            "no supporting paragraph",
            f"{record.id!r}: none of its {len(record.paragraphs)} paragraphs is one of "
            f"{', '.join(map(repr, sorted(titles))) or 'no titles'}",
        )
    return gold if which == "gold" else [_second(record, gold)]


def _second(record: Record, gold: Sequence[Paragraph]) -> Paragraph:
    if record.answer is None:
        raise BadRecordError(
            "no gold answer",
            f"{record.id!r}: paragraphs=second is the one that has the answer; give "
            "paragraphs=gold or all",
        )
    answer = record.answer.lower()
    holding = [x for x in gold if answer in f"{x.title}: {_text(x)}".lower()]
    if len(holding) == 1:
        return holding[0]
    return random.Random(f"second {record.id}").choice(holding or gold)


DATA_SET = register(
    text_data_set(
        "hotpotqa_text",
        measure="f1",
        sizes=SIZES,
        release=release,
        prefix="Question",
        between="\n\n",
        options=OPTIONS,
    )
)
"""The data set, as commands and configs find it."""
