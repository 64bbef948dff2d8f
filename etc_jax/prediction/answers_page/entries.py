"""The answers of a page with what is known of each, in the order of the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from etc_jax.datasets.explained import Explained
from etc_jax.prediction.judging import Judged, Verdict

RIGHT, PARTLY, WRONG, OPEN = "right", "partly", "wrong", "open"
# Sums of the halves of a metric may be a rounding away from 1.
_ALMOST = 1e-6


class Entry(NamedTuple):
    """An answer on a page.

    Attributes:
      number: of the record in the order of the files, from 1.
      item: the answer.
      verdict: how right it is; None without a gold answer.
    """

    number: int
    item: Explained
    verdict: Verdict | None

    @property
    def name(self) -> str:
        """That links lead to."""
        return f"answer-{self.number}"

    @property
    def state(self) -> str:
        """One of `RIGHT`, `PARTLY`, `WRONG`, and `OPEN` where that is not known."""
        if self.verdict is None or self.verdict.share is None:
            return OPEN
        if self.verdict.share >= 1 - _ALMOST:
            return RIGHT
        return PARTLY if self.verdict.share > _ALMOST else WRONG

    @property
    def certainty(self) -> float | None:
        """The probability of the answer, or its score; None without either."""
        sure = self.item.confidence
        return self.item.score if sure is None else sure


def in_order(answers: Sequence[Explained], judged: Judged | None) -> list[Entry]:
    """The worst answers first where gold answers are known; else as they are given.

    Of equally wrong ones the most certain is first, of right ones the least certain.
    Those that cannot be judged are last.
    """
    verdicts = (None,) * len(answers) if judged is None else judged.verdicts
    pairs = zip(answers, verdicts, strict=True)
    entries = [Entry(i, *pair) for i, pair in enumerate(pairs, start=1)]
    return entries if judged is None else sorted(entries, key=_badness)


def _badness(entry: Entry) -> tuple:
    if entry.state == OPEN:
        return (1, 0.0, 0.0, entry.number)
    share, sure = entry.verdict.share, entry.certainty or 0.0
    return (0, share, -sure if share < 0.5 else sure, entry.number)
