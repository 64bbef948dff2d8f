"""The part of a page that one answer has below its line.

Under each answer there are links to the places that it rests on; of a long article,
only what is near those is unfolded.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from etc_jax.datasets.explained import Candidate, Explained, ExplainedDocument, Passage
from etc_jax.prediction.answers_page.drawing import drawing
from etc_jax.prediction.answers_page.text import (
    escaped,
    labelled,
    marked,
    number_after,
    or_none,
    probability_after,
    score_after,
)

# Less than this is not worth a tint.
_FAINT = 0.05
# The tint of what is less likely than no answer.
_WEAK = 0.25
# Candidates that are shown: so many at most, and only what is not 0 %, but for a few.
_SHOWN_CANDIDATES = 8
_FEW_CANDIDATES = 3
_LEAST_SHOWN = 0.005
_EXCERPT_CHARS = 120
# Paragraphs unfolded on each side of a place, and the shortest row that is folded.
_NEAR = 2
_LEAST_FOLDED = 4

_GOLD = ' <span class="tag">gold</span>'


def hues(answers: Sequence[Explained]) -> dict[str, int]:
    """A hue, in degrees, for each name of a mark: as far apart as they can be."""
    documents = (document for item in answers for document in item.documents)
    passages = (passage for document in documents for passage in document.passages)
    names = sorted({name for passage in passages for name in passage.names})
    return {name: 360 * i // len(names) for i, name in enumerate(names)}


class Article:
    """The part of a page that one answer has.

    Places are named so that links find them: `NAME-mark`, the first mark;
    `NAME-mark-RANK`, the first of a candidate; `NAME-DOCUMENT`, and
    `NAME-DOCUMENT-PASSAGE`, one that supports.
    """

    def __init__(self, name: str, item: Explained, hues: Mapping[str, int]):
        self._name, self._item, self._hues = name, item, hues
        # Names of marks that stand in the page already.
        self._used: set[str] = set()

    def html(self) -> str:
        item, wording = self._item, self._item.wording
        if wording.side_by_side:
            return "\n".join(self._sides())
        # First: what they mark has names then, which the answer links to.
        documents = [self._document(*x) for x in enumerate(item.documents)]
        lines = []
        if wording.answer:
            lines += self._answer_and_gold()
        if item.candidates:
            lines += self._candidates()
        lines += self._support_list()
        return "\n".join([*lines, *documents])

    def _answer_and_gold(self) -> Iterator[str]:
        wording = self._item.wording
        yield f'<div class="pair">\n<div>{labelled(escaped(wording.answer))}'
        yield f"{self._answer()}</div>"
        if self._item.reference is not None:
            gold = f"{labelled(escaped(wording.reference))}{self._reference()}"
            yield f"<div>{gold}</div>"
        yield "</div>"

    def _sides(self) -> Iterator[str]:
        """Documents, answer and reference, each a column where there is room."""
        item, wording = self._item, self._item.wording
        columns = [
            (_title(document), "\n".join(self._side(d, document)))
            for d, document in enumerate(item.documents)
        ]
        if wording.answer:
            columns.append((f"{wording.answer}{_shared(item)}", self._answer()))
        if wording.answer and item.reference is not None:
            columns.append((wording.reference, self._reference()))
        yield '<div class="sides">'
        for label, text in columns:
            yield f"<div>\n{labelled(escaped(label))}\n{text}\n</div>"
        yield "</div>"

    def _side(self, d: int, document: ExplainedDocument) -> Iterable[str]:
        """The paragraphs of a column; of a source, those far from marks are folded."""
        shown = self._paragraphs(d, document)
        if not self._item.wording.answer:
            return shown  # another document stands beside it, line by line
        return _folded(document.passages, shown, or_near=(0,))

    def _answer(self) -> str:
        item = self._item
        text = self._with_links() if item.marks else or_none(item.answer)
        if f"{self._name}-mark" in self._used:
            text = _link(f"{self._name}-mark", text)
        if item.score is not None:
            text += score_after(item.score)
        return f'<p class="answer">{text}</p>'

    def _with_links(self) -> str:
        """The answer, of which each part that a document has leads there."""
        spans, ranks = zip(*self._item.marks, strict=True)
        links = [f"{self._name}-mark-{rank}" for rank in ranks]
        return marked(self._item.answer, spans, [(x,) for x in ranks], links=links)

    def _reference(self) -> str:
        texts = [self._item.reference, *self._item.others]
        return "\n".join(f'<p class="answer">{or_none(text)}</p>' for text in texts)

    # --- what it rests on -------------------------------------------------------------

    def _candidates(self) -> Iterator[str]:
        candidates = self._item.candidates
        shown = [
            c
            for index, c in enumerate(candidates[:_SHOWN_CANDIDATES])
            if index < _FEW_CANDIDATES or c.probability >= _LEAST_SHOWN
        ]
        rest = candidates[len(shown) :]
        ranked = list(enumerate(candidates, start=1))
        label = self._item.wording.candidates.format(len(candidates))
        yield labelled(escaped(label))
        yield '<ol class="candidates">'
        for rank, candidate in ranked[: len(shown)]:
            yield self._candidate(rank, candidate)
        if gold := [x for x in ranked[len(shown) :] if x[1].is_gold]:
            yield from (self._candidate(*x) for x in gold)
            rest = [x for x in rest if not x.is_gold]
        if rest:
            share = sum(candidate.probability for candidate in rest)
            together = f"and {len(rest)} more, {share:.0%} together"
            yield f'<li class="more">{together}</li>'
        yield "</ol>"

    def _candidate(self, rank: int, candidate: Candidate) -> str:
        text = f'<span class="text">{escaped(candidate.text)}</span>'
        if (name := f"{self._name}-mark-{rank}") in self._used:
            text = f"{rank}. {_link(name, text)}"
        number = probability_after(candidate.probability)
        number += _GOLD if candidate.is_gold else ""
        return f'<li style="--p:{candidate.probability:.3f}">{text}{number}</li>'

    def _support_list(self) -> Iterator[str]:
        """Links to the supporting passages, or to the documents with marks."""
        item = self._item
        if not (item.wording.support and item.documents):
            return
        if item.candidates:
            items = [self._mentions(*x) for x in enumerate(item.documents)]
        else:
            items = self._supports(lambda passage: passage.is_support)
        yield from _listed(escaped(item.wording.support), [x for x in items if x])
        if missed := self._supports(lambda x: x.is_gold and not x.is_support):
            yield from _listed("Gold, and not found", missed)

    def _supports(self, is_listed: Callable[[Passage], Any]) -> list[str]:
        return [
            self._support(document, d, p)
            for d, document in enumerate(self._item.documents)
            for p, passage in enumerate(document.passages)
            if is_listed(passage)
        ]

    def _support(self, document: ExplainedDocument, d: int, p: int) -> str:
        passage = document.passages[p]
        text = textwrap.shorten(passage.text, _EXCERPT_CHARS, placeholder=" …")
        title = f"{escaped(_title(document))}: " if document.title.text.strip() else ""
        link = _link(f"{self._name}-{d}-{p}", f"{title}{escaped(text)}")
        gold = _GOLD if passage.is_gold else ""
        return f'<li class="text">{link}{_strength(passage)}{gold}</li>'

    def _mentions(self, d: int, document: ExplainedDocument) -> str:
        count = _marks(document)
        if not count:
            return ""
        times = number_after(f"{count} ×") if count > 1 else ""
        return (
            f"<li>{_link(f'{self._name}-{d}', escaped(_title(document)))}{times}</li>"
        )

    # --- documents --------------------------------------------------------------------

    def _document(self, d: int, document: ExplainedDocument) -> str:
        passages = [document.title, *document.passages]
        is_open = any(p.is_support or p.is_gold or p.marks for p in passages)
        # A text that the answer is about as a whole.
        is_open |= self._item.wording.headed_by_id and d == 0
        title = self._passage(document.title, "", may_be_tinted=False)
        if not document.title.text.strip():
            title = f"<em>{_title(document)}</em>"
        shown = self._paragraphs(d, document)
        if document.paragraphs:
            text = "\n".join(_folded(document.passages, shown))
        else:
            text = f"<p>{' '.join(shown)}</p>"
        return (
            f"{self._drawing(document)}"
            f'<details id="{self._name}-{d}"{" open" if is_open else ""}>\n'
            f"<summary>{title}{_count(document)}</summary>\n{text}\n</details>"
        )

    def _paragraphs(self, d: int, document: ExplainedDocument) -> list[str]:
        return [
            self._passage(p, f"{self._name}-{d}-{i}", is_block=document.paragraphs)
            for i, p in enumerate(document.passages)
        ]

    def _drawing(self, document: ExplainedDocument) -> str:
        if document.sheet is None:
            return ""
        texts = [
            (p.box, _with_ranks(p), marked(p.text, p.marks, p.ranks))
            for p in document.passages
            if p.box is not None
        ]
        label = escaped(self._item.wording.drawing)
        return f"{drawing(document.sheet, texts, label)}\n"

    def _passage(
        self,
        passage: Passage,
        name: str,
        *,
        is_block: bool = False,
        may_be_tinted: bool = True,
    ) -> str:
        ranks = passage.ranks or ((),) * len(passage.marks)
        names = [self._mark_name(of_mark) for of_mark in ranks]
        kinds = self._kinds(passage)
        text = marked(passage.text, passage.marks, ranks, names, kinds)
        classes, more, number = "passage", "", ""
        if passage.is_support:
            classes, number = "passage support", _strength(passage)
        if passage.is_gold:
            classes, number = f"{classes} wanted", f"{number}{_GOLD}"
        if name and (passage.is_support or passage.is_gold):
            more = f' id="{name}"'
        if passage.score is not None:
            classes += " scored"
            more += "" if passage.score >= 0 else f' style="--p:{_WEAK}"'
        elif may_be_tinted and (passage.probability or 0) >= _FAINT:
            more += f' style="--p:{passage.probability:.3f}"'
        if is_block:
            return f'<p class="{classes}"{more}>{text}{number}</p>'
        return f'<span class="{classes}"{more}>{text}</span>{number}'

    def _kinds(self, passage: Passage) -> list[tuple[str, str]]:
        """What each mark is, and its look; [] where marks need no name."""
        doubted = passage.doubted or (False,) * len(passage.names)
        return [
            (
                name,
                f' class="kind{" doubted" if is_doubted else ""}"'
                f' style="--hue:{self._hues[name]}"',
            )
            for name, is_doubted in zip(passage.names, doubted, strict=True)
        ]

    def _mark_name(self, ranks: Sequence[int]) -> str:
        """The name of a mark; "" if earlier ones have it."""
        names = [f"{self._name}-mark-{rank}" for rank in ranks]
        for name in names or [f"{self._name}-mark"]:
            if name not in self._used:
                self._used.add(name)
                return name
        return ""


def _shared(item: Explained) -> str:
    """Behind the name of an answer, how much of it a document has; "" for nothing."""
    count = sum(stop - start for (start, stop), _ in item.marks)
    return f", {count / len(item.answer):.0%} from the input" if count else ""


def _folded(
    passages: Sequence[Passage], shown: Sequence[str], or_near: Sequence[int] = ()
) -> Iterator[str]:
    """Paragraphs, of which rows far from marks and support are folded.

    Args:
      passages: what they show.
      shown: each of them as HTML.
      or_near: numbers of those to be near where nothing is marked; (): nothing is
        folded then.
    """
    count = len(passages)
    anchors = [
        i for i, p in enumerate(passages) if p.marks or p.is_support or p.is_gold
    ] or or_near
    # The paragraphs around those that are marked stay unfolded.
    near = {i + k for i in anchors for k in range(-_NEAR, _NEAR + 1)}
    for is_near, group in itertools.groupby(range(count), near.__contains__):
        run = list(group)
        inside = "\n".join(shown[i] for i in run)
        if is_near or not anchors or len(run) < _LEAST_FOLDED:
            yield inside
        else:
            label = f"{len(run)} more paragraphs"
            yield f"<details>\n<summary>{label}</summary>\n{inside}\n</details>"


def _listed(label: str, items: Sequence[str]) -> Iterator[str]:
    yield labelled(label)
    yield '<ul class="places">'
    yield from items or ["<li><em>none</em></li>"]
    yield "</ul>"


def _title(document: ExplainedDocument) -> str:
    return document.title.text if document.title.text.strip() else "untitled"


def _marks(document: ExplainedDocument) -> int:
    return sum(len(p.marks) for p in (document.title, *document.passages))


def _with_ranks(passage: Passage) -> str:
    """A text as long as it is with the numbers after its marks, and their padding."""
    pieces, at = [], 0
    for (_, stop), ranks in zip(passage.marks, passage.ranks, strict=False):
        pieces += [passage.text[at:stop], ",".join(map(str, ranks)), "m"]
        at = stop
    return "".join([*pieces, passage.text[at:]])


def _count(document: ExplainedDocument) -> str:
    """Behind a title, how much of running text is worth reading."""
    if document.paragraphs:
        return ""
    support, marks = sum(p.is_support for p in document.passages), _marks(document)
    label = f"{support} supporting" if support else f"{marks} marked"
    return f' <span class="count">{label}</span>' if support or marks else ""


def _link(name: str, text: str) -> str:
    return f'<a href="#{name}">{text}</a>'


def _strength(passage: Passage) -> str:
    """The number after a passage that supports."""
    if passage.score is not None:
        return score_after(passage.score)
    return "" if passage.probability is None else probability_after(passage.probability)
