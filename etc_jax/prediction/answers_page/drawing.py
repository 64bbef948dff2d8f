"""A document drawn as it is laid out: its texts in boxes on a sheet.

The sheet is as wide as the window if that leaves it legible, and lies in a frame that
scrolls. Boxes nest and overlap on web pages, so each is a thin outline, and only a text
covers what is under it. A text that has no room gets smaller letters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from etc_jax.datasets.explained import Box, Sheet

# Of the height of letters: the width of one, with what the ends of lines leave empty,
# and the height of a line. Wide fonts have letters of 0.65 in the mean.
_LETTER, _LINE = 0.65, 1.2
# Letters of a word that is not broken.
_LONGEST = 16


def drawing(sheet: Sheet, texts: Sequence[tuple[Box, str, str]], label: str) -> str:
    """The drawing, as HTML.

    Args:
      sheet: on which the boxes stand.
      texts: of each box the text, not blank, with all that is shown of it, and its
        HTML; texts of the same box share it.
      label: what it is, escaped.
    """
    shared: dict[Box, list[tuple[str, str]]] = {}
    for box, text, shown in texts:
        shared.setdefault(box, []).append((text, shown))

    # The foremost last: what is marked, then what is smaller.
    def depth(box: Box) -> tuple[bool, float]:
        is_marked = any("<mark" in shown for _, shown in shared[box])
        return is_marked, -box.width * box.height

    order = sorted(shared, key=depth)
    boxes = [_box(box, shared[box]) for box in order]
    size = _style({"wide": sheet.width, "high": sheet.height})
    return "\n".join(
        [
            f'<figure class="drawing">\n<figcaption class="label">{label}</figcaption>',
            f'<div class="frame" role="img" aria-label="{label}" tabindex="0">',
            f'<div class="sheet" style="{size}">',
            *boxes,
            "</div>\n</div>\n</figure>",
        ]
    )


def _box(box: Box, texts: Sequence[tuple[str, str]]) -> str:
    position = {"x": box.left, "y": box.top, "w": box.width, "h": box.height}
    font_size = _font_size(box, " ".join(text for text, _ in texts))
    inside = " ".join(shown for _, shown in texts)
    style = _style({**position, "f": font_size})
    return f'<div class="box" style="{style}"><span>{inside}</span></div>'


def _font_size(box: Box, text: str) -> float:
    """That of the box, or less, for a text to have room."""
    # How wide all of it is, and its longest word, in heights of a letter.
    whole, word = (_LETTER * letters for letters in (len(text), _longest_word(text)))
    # So many lines that letters of height / (lines * _LINE) take all of the width.
    lines = math.sqrt(whole * box.height / (_LINE * box.width))
    fits = (
        min(box.height / (n * _LINE), n * box.width / whole)
        for n in (max(1, math.floor(lines)), math.ceil(lines))
    )
    return min(box.font_size, max(fits), box.width / word)


def _longest_word(text: str) -> int:
    """Letters of the longest word; those that are too long for a line are broken."""
    return min(max(map(len, text.split())), _LONGEST)


def _style(numbers: Mapping[str, float]) -> str:
    return ";".join(f"--{name}:{round(value, 2):g}" for name, value in numbers.items())
