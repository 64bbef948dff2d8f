"""Texts of records as HTML."""

from __future__ import annotations

import html
import itertools
from collections.abc import Sequence

from etc_jax.base.terminal import CONTROL
from etc_jax.datasets.explained import score_text


def escaped(text: str) -> str:
    """A text as HTML shows it, wherever it stands."""
    # What would hide or reorder text, in all of the page, is seen as what it is.
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return html.escape(CONTROL.sub("\ufffd", lines), quote=True)


def marked(
    text: str,
    marks: Sequence[tuple[int, int]],
    ranks: Sequence[Sequence[int]] = (),
    names: Sequence[str] = (),
    kinds: Sequence[tuple[str, str]] = (),
    links: Sequence[str] = (),
) -> str:
    """A text, escaped, with some of its characters in `<mark>`.

    Args:
      text: as the record has it.
      marks: (first, one past the last) character, ascending and apart.
      ranks: numbers to be shown after each mark; () for none.
      names: of each mark, to link to; "" or () for none.
      kinds: of each mark, (what it is, attributes of it); () for none.
      links: of each mark, the name that it leads to; () for none.
    """
    parts, at = [], 0
    each = itertools.zip_longest(marks, ranks, names, kinds, links, fillvalue="")
    for (start, stop), numbers, name, kind, link in each:
        attributes = f' id="{name}"' if name else ""
        inside = escaped(text[start:stop])
        if kind:
            attributes += kind[1]
            inside += f'<sup class="rank">{escaped(kind[0])}</sup>'
        if numbers:
            inside += f'<sup class="rank">{", ".join(map(str, numbers))}</sup>'
        shown = f"<mark{attributes}>{inside}</mark>"
        if link:
            shown = f'<a href="#{link}">{shown}</a>'
        parts += [escaped(text[at:start]), shown]
        at = stop
    return "".join([*parts, escaped(text[at:])]).strip()


def labelled(label: str) -> str:
    """A small heading; `label` is escaped already."""
    return f'<p class="label">{label}</p>'


def or_none(text: str) -> str:
    """A text, or that there is none."""
    return escaped(text) if text.strip() else "<em>none</em>"


def percent(share: float) -> str:
    """A metric, as `Scores.report` has it, with its unit."""
    return f"{100 * share:.1f}%"


def probability_after(probability: float) -> str:
    """A probability, small after a text."""
    return number_after(f"{probability:.0%}")


def score_after(score: float) -> str:
    """A score, small after a text."""
    # No answer has 0.
    doubt = "" if score >= 0 else ", less likely than no answer"
    return number_after(f"score {score_text(score)}{doubt}")


def number_after(text: str) -> str:
    """Something small after a text, from which a space keeps it apart when copied."""
    return f' <span class="number">{text}</span>'
