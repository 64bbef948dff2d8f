"""Where an article holds the answers that a model gives, with their scores."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from etc_jax.datasets.explained import (
    Explained,
    ExplainedDocument,
    Passage,
    Wording,
    any_of,
)
from etc_jax.tasks.natural_questions.decoding import Prediction, Summary, pool
from etc_jax.tasks.natural_questions.records import Record, Span, top_spans

WORDING = Wording(
    answer="Short answer",
    support="Long answer",
    legend="Marked: the short answer. Tinted: the long answer. A score compares an "
    "answer with no answer, which has 0; scores have no scale. Every article has a "
    "best answer, even if it is below 0: from which score on it counts, the official "
    "metric chooses.",
)

_NOWHERE = (0, 0)
_TAG_NAME = re.compile(r"</?([A-Za-z][A-Za-z0-9]*)")
_CELLS = ("td", "th")
# Between words; of several the last of these.
_GAPS = ("", " ", "\t", "\n")


def pool_explained(seen: Sequence[tuple[Record, Summary]]) -> Explained:
    """The article, with the long answer as what supports the short one.

    Scores are sums of logits, so they have no scale. Every article has a best answer;
    from which score on it counts as one, the metric finds out.

    Args:
      seen: (record, summary) of all windows of a record.
    """
    record = seen[0][0]
    prediction = pool([summary for _, summary in seen])
    short = tuple(prediction["short"])
    answer = prediction["yes_no"]
    if answer == "none":
        answer = _text(record, short) if short[0] >= 0 else ""
    return Explained(
        record.id,
        record.question,
        answer,
        (_document(record, prediction),),
        score=prediction["short_score"] if answer else None,
        reference=_gold_answer(record),
        prediction=prediction,
        wording=WORDING,
    )


def _document(record: Record, prediction: Prediction) -> ExplainedDocument:
    passages = tuple(_passages(record, prediction))
    return ExplainedDocument(Passage(record.title), passages, paragraphs=True)


def _passages(record: Record, prediction: Prediction) -> Iterator[Passage]:
    """All of the article: its candidates, what is between them, the long answer."""
    long, short = (
        tuple(prediction[name]) if prediction[name][0] >= 0 else _NOWHERE
        for name in ("long", "short")
    )
    for start, stop in _parts(record, long):
        text, marks = _shown(record, (start, stop), short)
        if text:
            inside = long[0] <= start and stop <= long[1]
            score = prediction["long_score"] if inside else None
            is_gold = None
            if record.annotations is not None:
                is_gold = any(x <= start and stop <= y for x, y in _gold_long(record))
            yield Passage(
                text, score=score, is_support=inside, marks=marks, is_gold=is_gold
            )


def _gold_long(record: Record) -> list[Span]:
    return [x.long for x in record.annotations or () if x.long is not None]


def _gold_answer(record: Record) -> str | None:
    """The short answers of all annotators; "" if none gave one."""
    if record.annotations is None:
        return None
    answers = [
        ", ".join(_text(record, span) for span in x.short)
        if x.yes_no == "none"
        else x.yes_no
        for x in record.annotations
    ]
    return any_of(answers)


def _parts(record: Record, long: Span) -> list[Span]:
    """Runs of words that stand together, with the long answer as one of them."""
    borders = {0, len(record.words), *long}
    borders.update(x for _, span in top_spans(record) for x in span)
    borders.update(x for span in _gold_long(record) for x in span)
    ends = sorted(x for x in borders if not long[0] < x < long[1])
    return list(zip(ends, ends[1:], strict=False))


def _shown(record: Record, part: Span, marked: Span) -> tuple[str, tuple[Span, ...]]:
    """(text of some words, characters of it that are of `marked`).

    Rows of tables and entries of lists are lines, cells have a tab between them.
    """
    text: list[str] = []
    inside: list[Span] = []
    length, gap = 0, ""
    for number in range(*part):
        word = record.words[number]
        if record.is_html[number]:
            gap = max(gap, _gap(word), key=_GAPS.index)
            continue
        spelled = gap + word if text else word
        text.append(spelled)
        length += len(spelled)
        if marked[0] <= number < marked[1]:
            inside.append((length - len(word), length))
        gap = " "
    marks = ((inside[0][0], inside[-1][1]),) if inside else ()
    return "".join(text), marks


def _gap(tag: str) -> str:
    name = _TAG_NAME.match(tag)
    return "\t" if name and name[1].lower() in _CELLS else "\n"


def _text(record: Record, span: Span) -> str:
    """Words without tags."""
    words = (record.words[i] for i in range(*span) if not record.is_html[i])
    return " ".join(words)
