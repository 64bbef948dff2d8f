"""SCROLLS's files: a JSON object a line, `id`, `pid`, `input` and `output`.

Where there is a query, it stands in `input` before the document, and a blank line
between the two. The query becomes the prefix, so that models which repeat it before
each window or block can; prefix, blank line and document put together are `input`
again, character for character.
"""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

from etc_jax.data.input_files import BadRecordError
from etc_jax.datasets.fields import STRING, Fields, anything
from etc_jax.datasets.text_sets import of_lines
from etc_jax.scoring.scrolls import AVERAGED

BLANK_LINE = "\n\n"
# A text -> where the query ends and the blank line begins.
QueryFn = Callable[[str], int]


def one_line(text: str) -> int:
    """The end of a question or hypothesis: no blank line is in it.

    Raises:
      BadRecordError: if there is no blank line in the text.
    """
    return _found(text, BLANK_LINE, 0)


def with_options(text: str) -> int:
    """The end of a question of QuALITY, which its four options belong to.

    A blank line stands before the options already, and the article may have lines like
    options too: the query ends at the first blank line after the first line `(D)` that
    follows `(A)`, `(B)` and `(C)` in this order.

    Raises:
      BadRecordError: if it is not such a text.
    """
    at = _found(text, f"{BLANK_LINE} (A)", 0)
    for option in "BCD":
        at = _found(text, f"\n ({option})", at)
    return _found(text, BLANK_LINE, at)


def _found(text: str, mark: str, start: int) -> int:
    if (at := text.find(mark, start)) < 0:
        raise BadRecordError(
            "no query",
            f"no {mark!r} in 'input' after its first {start} characters, "
            f"{text[:60]!r}; expected the query, a blank line and the document",
        )
    return at


_QUERY_ENDS: dict[str, QueryFn] = {
    "qmsum": one_line,
    "narrative_qa": one_line,
    "qasper": one_line,
    "quality": with_options,
    "contract_nli": one_line,
}


def release(
    path: str | os.PathLike, *, query_end: QueryFn | None
) -> Iterator[tuple[int, Any]] | None:
    """See `text_sets.ReleaseFn`.

    Args:
      path: of lines, which may lie in a zip archive.
      query_end: see `QueryFn`; None: inputs have no query.

    Raises:
      BadRecordError: if it is a folder.
    """
    if pathlib.Path(path).is_dir():
        names = sorted(file.name for file in pathlib.Path(path).glob("*.jsonl"))
        raise BadRecordError(
            "several splits",
            f"{path} is a folder; name a file in it: {', '.join(names) or 'none'}",
        )
    records_of = functools.partial(_record, query_end=query_end)
    return of_lines(path, "output", records_of)


def _record(fields: Fields, *, query_end: QueryFn | None) -> Iterator[dict[str, Any]]:
    text = fields.get("input", STRING)
    record = {"id": fields.text("id"), "input": text}
    if query_end is not None:
        end = query_end(text)
        record |= {"prefix": text[:end], "input": text[end + len(BLANK_LINE) :]}
    # Null in test files.
    if fields.get("output", anything) is not None:
        record["target"] = fields.get("output", STRING)
    yield record


RELEASES = {
    name: functools.partial(release, query_end=_QUERY_ENDS.get(name))
    for name in AVERAGED
}
"""`text_sets.ReleaseFn` of each data set, by its name in SCROLLS."""
