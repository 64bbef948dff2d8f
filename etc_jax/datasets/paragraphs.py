"""Documents of public text collections -> paragraphs of running text.

A sentence never crosses paragraphs, so these functions are what keeps headings and
list entries from melting into the sentences around them. Nothing is dropped but white
space and mark-up: a heading is a paragraph of its own.
"""

from __future__ import annotations

import re

_BLANK_LINE = re.compile(r"\n\s*\n")
_WIKI40B_MARKER = re.compile(
    r"_START_ARTICLE_|_START_SECTION_|_START_PARAGRAPH_|_NEWLINE_"
)


def by_lines(text: str) -> tuple[str, ...]:
    """A paragraph a line: C4, and the `wikipedia` set of TFDS."""
    return _running_text(text.split("\n"))


def by_blank_lines(text: str) -> tuple[str, ...]:
    """Paragraphs between blank lines, whose own line breaks are layout: PG-19."""
    return _running_text(_BLANK_LINE.split(text))


def by_wiki40b_markers(text: str) -> tuple[str, ...]:
    """Paragraphs of Wiki-40B (Guo et al. 2020), which marks its structure in words.

    `_START_ARTICLE_` and `_START_SECTION_` come before titles, `_START_PARAGRAPH_`
    before text, in which `_NEWLINE_` stands for a line break.
    """
    return _running_text(_WIKI40B_MARKER.split(text))


def _running_text(blocks: list[str]) -> tuple[str, ...]:
    joined = (" ".join(block.split()) for block in blocks)
    return tuple(paragraph for paragraph in joined if paragraph)
