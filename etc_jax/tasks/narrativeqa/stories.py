"""The text of a story, from the page that the release's script fetched.

Scripts of films are web pages, whose tags go; books are plain text. A page has more
than the story: the table of documents gives three words and signs at which the story
begins, and three at which it ends.
"""

from __future__ import annotations

import collections
import html.parser
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from etc_jax.data.input_files import BadRecordError, read_bytes

_IS_PAGE = re.compile(r"<(html|body|pre)\b", re.IGNORECASE)
_BREAKS = {"br", "p", "div", "pre", "tr", "li", "table", "h1", "h2", "h3", "title"}
_UNSEEN = {"script", "style"}
_SEVERAL_BLANK_LINES = re.compile(r"\n\s*\n\s*\n")


class Story(NamedTuple):
    """A story.

    Attributes:
      text: of it.
      lacking: of "story_start" and "story_end", those that are not in the page.
    """

    text: str
    lacking: list[str]


def read(path: str | os.PathLike, start: str, end: str) -> Story:
    """The story in a fetched page, from its start to its end, both with it.

    Where a mark is not there, nothing is cut off on its side: pages have changed since
    2017, when the marks were taken.

    Args:
      path: of the page.
      start: its first words, a space between them and the signs.
      end: its last ones.

    Raises:
      BadRecordError: if the page is too large, or no text is in it.
    """
    try:
        data = read_bytes(path)
    except BadRecordError as error:
        raise error.at(os.fspath(path)) from error
    text = _decoded(data)
    text = text_of_page(text) if _IS_PAGE.search(text) else text
    lacking = []
    first = next(_places(start, text), None)
    if first is None:
        lacking.append("story_start")
    begin = 0 if first is None else first.start()
    # The last place: "THE END" may be said before.
    last = collections.deque(_places(end, text, begin), maxlen=1)
    if not last:
        lacking.append("story_end")
    stop = last[0].end() if last else len(text)
    if not (story := text[begin:stop].strip()):
        raise BadRecordError("no story", f"no text in {path}; fetch it again")
    return Story(story, lacking)


def _decoded(data: bytes) -> str:
    """UTF-8; what is none is windows-1252, as browsers read pages that say nothing."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def _places(mark: str, text: str, begin: int = 0) -> Iterator[re.Match[str]]:
    """The places of a mark, whose words may have any space or none between them."""
    words = map(re.escape, mark.replace("\ufeff", "").split())
    return re.compile(r"\s*".join(words)).finditer(text, begin)


def text_of_page(page: str) -> str:
    """The text of a web page, with the lines that a reader sees."""
    parser = _Page()
    parser.feed(page)
    parser.close()
    return _SEVERAL_BLANK_LINES.sub("\n\n", "".join(parser.pieces))


class _Page(html.parser.HTMLParser):
    """Collects the text of a page in `pieces`."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._unseen = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._unseen += tag in _UNSEEN
        if tag in _BREAKS:
            self.pieces.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in _UNSEEN:
            self._unseen = max(0, self._unseen - 1)

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self.pieces.append(data)
