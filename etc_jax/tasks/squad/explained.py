"""The answers to a question where the best one stands in the context."""

from __future__ import annotations

from collections.abc import Sequence

from etc_jax.datasets.explained import Candidate, Explained, Wording, any_of
from etc_jax.datasets.spans import marked_document
from etc_jax.tasks.squad.decoding import Summary, best_spans, pool
from etc_jax.tasks.squad.inputs import OPTIONS, SpanOptions
from etc_jax.tasks.squad.records import Record

NO_ANSWER = "(no answer)"
WORDING = Wording(
    support="Found in",
    candidates="Best {} answers",
    legend="Marked: the answer, where the model found it. Probabilities are among the "
    "answers that are listed.",
)


def pool_explained(
    seen: Sequence[tuple[Record, Summary]], *, options: SpanOptions = OPTIONS
) -> Explained:
    """The answer with the other ones that are likely, and the context.

    Args:
      seen: (record, summary) of all windows of a record.
      options: see `pool`.
    """
    record, summaries = seen[0][0], [summary for _, summary in seen]
    prediction, gold = pool(summaries, options=options), record.answers
    right = {x.text for x in gold} or {""} if gold is not None else ()
    candidates = tuple(
        Candidate(
            entry["text"] or NO_ANSWER, entry["probability"], entry["text"] in right
        )
        for entry in prediction["nbest"]
    )
    span, probability = (0, 0), 0.0
    if text := prediction["text"]:
        _, _, first, stop, _ = best_spans(summaries, 1)[0]
        span = (first, stop)
        probability = next(x.probability for x in candidates if x.text == text)
    return Explained(
        record.id,
        record.question,
        text,
        (marked_document(record.documents[0], span, probability),),
        candidates,
        reference=None if gold is None else any_of([x.text for x in gold]),
        confidence=next(
            (x.probability for x in candidates if x.text == (text or NO_ANSWER)), None
        ),
        prediction=prediction,
        wording=WORDING,
    )
