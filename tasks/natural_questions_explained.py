"""Where an article holds the answers that a model gives, with their scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tasks.explained import Document, Explained, Passage
from tasks.natural_questions_decoding import (
    Outputs,
    Prediction,
    Summary,
    pool,
    summarise,
)
from tasks.natural_questions_features import NaturalQuestionsWindow
from tasks.natural_questions_records import Record, Span, top_spans

_NOWHERE = (0, 0)


def explain(
    outputs: Outputs, windows: Sequence[NaturalQuestionsWindow], setting: None = None
) -> list[tuple[Record, Summary]]:
    """What `pool_explained` needs of each window: its record and its summary.

    Raises:
      ValueError: if the outputs are not of these windows.
    """
    del setting  # there is nothing to choose
    summaries = summarise(outputs, windows)
    return [(w.record, s) for w, s in zip(windows, summaries, strict=True)]


def pool_explained(seen: Sequence[tuple[Record, Summary]]) -> Explained:
    """The article, with the long answer as what supports the short one.

    Scores are sums of logits, so they have no scale. Every article has a best answer;
    from which score on it counts as one, the measure finds out.

    Args:
      seen: of all windows of a record, as `explain` gives it.
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
        (Document(Passage(record.title), tuple(_passages(record, prediction))),),
        score=prediction["short_score"] if answer else None,
        prediction=prediction,
    )


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
            yield Passage(text, score=score, is_support=inside, marks=marks)


def _parts(record: Record, long: Span) -> list[Span]:
    """Runs of words that stand together, with the long answer as one of them."""
    borders = {0, len(record.words), *long}
    borders.update(x for _, span in top_spans(record) for x in span)
    ends = sorted(x for x in borders if not long[0] < x < long[1])
    return list(zip(ends, ends[1:], strict=False))


def _shown(
    record: Record, part: Span, marked: Span
) -> tuple[str, tuple[tuple[int, int], ...]]:
    """(text of some words, characters of it that are of `marked`)."""
    first, stop = (min(max(at, part[0]), part[1]) for at in marked)
    before, inside = (_words(record, x) for x in ((part[0], first), (first, stop)))
    text = _text(record, part)
    if not inside:
        return text, ()
    start = len(" ".join(before)) + bool(before)
    return text, ((start, start + len(" ".join(inside))),)


def _words(record: Record, span: Span) -> list[str]:
    """Words without tags."""
    return [record.words[i] for i in range(*span) if not record.is_html[i]]


def _text(record: Record, span: Span) -> str:
    return " ".join(_words(record, span))
