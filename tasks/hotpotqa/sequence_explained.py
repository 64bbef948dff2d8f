"""What an answer to a question of HotpotQA rests on, in one sequence."""

from __future__ import annotations

from collections.abc import Sequence

from etc_jax.datasets.explained import Explained
from tasks.hotpotqa.explained import NOWHERE, AnswerPosition, explained
from tasks.hotpotqa.sequence_decoding import Outputs, find_each
from tasks.hotpotqa.sequence_inputs import HotpotSequence


def explain(
    outputs: Outputs, windows: Sequence[HotpotSequence], threshold: float
) -> list[Explained]:
    """For each window the paragraphs with the support of each sentence, and the answer.

    Raises:
      ValueError: if the outputs are not of these windows.
    """
    passages = []
    for window, found in zip(windows, find_each(outputs, windows), strict=True):
        place = NOWHERE
        if found.span is not None:
            unit, mark = window.marked(found.span.first, found.span.last)
            place = AnswerPosition(*unit, (mark,))
        probabilities = dict(
            zip(window.sentences, found.probabilities.tolist(), strict=True)
        )
        support = found.support(window, threshold)
        passages.append(
            explained(window.record, found.answer, probabilities, support, place)
        )
    return passages
