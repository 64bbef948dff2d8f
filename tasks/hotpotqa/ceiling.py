"""What the best possible model would score on HotpotQA; see `tasks.ceiling`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from etc_jax.data.tokenizer import Tokenizer
from etc_jax.formats.structured import Sizes, Window
from etc_jax.scoring.answers import exact_match
from tasks import hotpotqa, hotpotqa_longformer
from tasks.ceiling_report import Ceiling, ceiling_of
from tasks.hotpotqa.decoding import Prediction
from tasks.hotpotqa.records import existing_support


def hotpotqa_ceiling(
    paths: Sequence[str | os.PathLike], tokenizer: Tokenizer, sizes: Sizes
) -> Ceiling:
    """The ceiling of HotpotQA files.

    Raises:
      ValueError: if there is no record, or one has no gold answer.
      OSError: if a file cannot be read.
    """
    return ceiling_of(
        hotpotqa.TASK, hotpotqa.gold_outputs, paths, tokenizer, sizes, _losses
    )


def _losses(windows: Sequence[Window], prediction: Prediction) -> Iterator[str]:
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


def hotpotqa_longformer_ceiling(
    paths: Sequence[str | os.PathLike], tokenizer: Tokenizer, sizes: Sizes
) -> Ceiling:
    """As `hotpotqa_ceiling`, of files as Longformer reads them."""
    task, outputs_fn = hotpotqa_longformer.TASK, hotpotqa_longformer.gold_outputs
    return ceiling_of(task, outputs_fn, paths, tokenizer, sizes, _longformer_losses)


def _longformer_losses(
    windows: Sequence[hotpotqa_longformer.HotpotSequence], prediction: Prediction
) -> Iterator[str]:
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
