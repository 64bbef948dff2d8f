"""Why a gold answer is lost between record and input; see `tasks.upper_bound`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from etc_jax.data.windows.window import Window
from etc_jax.scoring.answers import exact_match
from tasks.hotpotqa.decoding import Prediction
from tasks.hotpotqa.records import existing_support
from tasks.hotpotqa.sequence_inputs import HotpotSequence


def why_lost(windows: Sequence[Window], prediction: Prediction) -> Iterator[str]:
    """Why the window of a record does not give the gold answer and facts back."""
    [window] = windows
    record, facts = window.record, set(prediction["support"])
    for fact in sorted(set(record.support) - facts):
        there = fact in existing_support(record)
        yield (
            f"supporting fact {fact} "
            + ("did not fit into the input" if there else "points nowhere")
        )
    if record.support and not facts:
        yield "without a supporting fact there is no answer"
    yield from _lost_answer(window, prediction)


def _lost_answer(window: Window, prediction: Prediction) -> Iterator[str]:
    text, answer = prediction["answer"], window.record.answer
    if not exact_match(text, answer):
        yield f"answer {answer!r}: {window.unusable or f'tokens say {text!r}'}"


def why_lost_in_sequence(
    windows: Sequence[HotpotSequence], prediction: Prediction
) -> Iterator[str]:
    """As `why_lost`, of the format of one sequence."""
    [window] = windows
    record = window.record
    facts, wanted = set(prediction["support"]), set(record.support)
    titles = [paragraph.title for paragraph in record.paragraphs]
    read = {(titles[p], sentence) for p, sentence in window.sentences}
    for fact in sorted(wanted - facts):
        if fact in read:
            why = "stands in a third paragraph, and two are taken"
        elif fact in existing_support(record):
            why = "did not fit into the input"
        else:
            why = "points nowhere"
        yield f"supporting fact {fact} {why}"
    for fact in sorted(facts - wanted):
        yield f"{fact} is no supporting fact, and two paragraphs must have one"
    yield from _lost_answer(window, prediction)
