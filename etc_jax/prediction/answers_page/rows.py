"""The line that an answer has while it is folded, and the controls over all lines."""

from __future__ import annotations

import collections
import textwrap
from collections.abc import Sequence

from etc_jax.datasets.explained import Explained, score_text
from etc_jax.prediction.answers_page.entries import OPEN, PARTLY, RIGHT, WRONG, Entry
from etc_jax.prediction.answers_page.text import escaped, or_none, percent

_SIGNS = {RIGHT: "✓", PARTLY: "≈", WRONG: "✗", OPEN: "–"}
_NAMES = {RIGHT: "Right", PARTLY: "Partly right", WRONG: "Wrong", OPEN: "Not judged"}
# Of a text that stands for its record.
_SNIPPET_CHARS = 180
# Of an answer in its line; all of it is below.
_ANSWER_CHARS = 300


def row(entry: Entry, *, with_gold: bool, metrics: Sequence[str] = ()) -> str:
    """The content of an answer's `<summary>`.

    Args:
      entry: the answer.
      with_gold: whether the page has gold answers.
      metrics: those that lines can be put in order by; each is shown where they are.
    """
    item = entry.item
    cells = [_state(entry, metrics)] if with_gold else []
    cells += [_heading(item), _cell("said", "Predicted", _short(item.answer))]
    if with_gold:
        gold = "" if item.reference is None else _short(item.reference)
        cells.append(_cell("gold", "Gold", gold or "–"))
    if (sure := _certainty(entry)) is not None:
        cells.append(_cell("sure", *sure))
    return "\n".join(cells)


def columns(entries: Sequence[Entry], *, with_gold: bool) -> str:
    """What the columns of lines are called, seen where there is room for columns.

    Each line has these names too, so that this one is for the eye alone.
    """
    wording = entries[0].item.wording
    sure = next((x[0] for x in map(_certainty, entries) if x is not None), "")
    names = [wording.question, "Predicted", *(["Gold"] if with_gold else []), sure]
    cells = [f"<span>{escaped(name)}</span>" for name in names]
    if with_gold:
        cells.insert(0, "<span></span>")
    kind = "columns judged" if with_gold else "columns"
    return f'<div class="{kind}" aria-hidden="true">{"".join(cells)}</div>'


def controls(
    entries: Sequence[Entry], *, with_gold: bool, metrics: Sequence[str] = ()
) -> str:
    """What chooses the lines that are shown and their order; hidden without script.

    Args:
      entries: all lines.
      with_gold: see `row`.
      metrics: see `row`.
    """
    orders = {"page": "Worst first"} if with_gold else {}
    orders["file"] = "Order of the file"
    if any(entry.certainty is not None for entry in entries):
        orders |= {"unsure": "Least certain first", "sure": "Most certain first"}
    for number, name in enumerate(metrics):
        orders[f"lowest {number}"] = f"Lowest {escaped(name)} first"
        orders[f"highest {number}"] = f"Highest {escaped(name)} first"
    options = "".join(f'<option value="{k}">{x}</option>' for k, x in orders.items())
    parts = [
        '<label class="search">Search <input type="search" name="text" '
        'autocomplete="off" placeholder="words, all of them"></label>',
        f'<label>Order <select name="order">{options}</select></label>',
    ]
    if with_gold:
        parts.insert(0, _states(entries))
    return (
        '<form class="controls" hidden>\n'
        + "\n".join(parts)
        + '\n<p class="found"><output aria-live="polite"></output> '
        '<button type="reset">Show all</button></p>\n</form>'
    )


def _states(entries: Sequence[Entry]) -> str:
    counts = collections.Counter(entry.state for entry in entries)
    choices = [("", "All", len(entries))]
    choices += [(x, _NAMES[x], counts[x]) for x in (WRONG, PARTLY, RIGHT, OPEN)]
    shown = [
        f'<label><input type="radio" name="state" value="{value}"'
        f"{'' if value else ' checked'}> {name} <b>{count:,}</b></label>"
        for value, name, count in choices
        # Choices that a reader looks for are there, with 0 too.
        if count or value in ("", WRONG, RIGHT)
    ]
    return (
        '<fieldset class="states"><legend>Show</legend>'
        + "\n".join(shown)
        + "</fieldset>"
    )


def _state(entry: Entry, metrics: Sequence[str]) -> str:
    state, name = entry.state, _NAMES[entry.state].lower()
    if state == PARTLY:
        name = f"{percent(entry.verdict.share)} right"
    sign = f'<span aria-hidden="true">{_SIGNS[state]}</span>'
    shares = {} if entry.verdict is None else entry.verdict.metrics
    numbers = "".join(
        f'<span class="by">{escaped(metric)} {percent(shares[metric])}</span>'
        if metric in shares
        else '<span class="by">–</span>'
        for metric in metrics
    )
    return f'<span class="state {state}">{sign} {name}{numbers}</span>'


def _heading(item: Explained) -> str:
    """The question, or the id and the beginning of a text, as the line's heading."""
    if not item.wording.headed_by_id:
        return f'<h2 class="text">{or_none(item.question)}</h2>'
    passages = (p.text for d in item.documents[:1] for p in d.passages)
    text, count = [], 0
    for passage in passages:  # not all of a long document
        text.append(passage)
        count += len(passage)
        if count > _SNIPPET_CHARS:
            break
    snippet = textwrap.shorten(" ".join(text), _SNIPPET_CHARS, placeholder=" …")
    return (
        f'<h2 class="text snippet"><span class="id">{escaped(item.id)}</span> '
        f"{escaped(snippet)}</h2>"
    )


def _short(text: str) -> str:
    shown = " ".join(text.split())
    if len(shown) > _ANSWER_CHARS:
        shown = f"{shown[:_ANSWER_CHARS]}…"
    return or_none(shown)


def _cell(name: str, label: str, text: str) -> str:
    return (
        f'<span class="cell {name}"><span class="of">{label} </span>'
        f'<span class="text">{text}</span></span>'
    )


def _certainty(entry: Entry) -> tuple[str, str] | None:
    """(what it is, the number) of how certain the model is."""
    if entry.item.confidence is not None:
        return "Confidence", f"{entry.item.confidence:.0%}"
    return None if entry.item.score is None else ("Score", score_text(entry.item.score))
