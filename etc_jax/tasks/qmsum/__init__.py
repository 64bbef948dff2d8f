"""QMSum (Zhong et al. 2021): queries about meetings, answered by summaries.

    etc-jax prepare --task=qmsum --tokenizer=vocab.json --begin_token \\
        --out=prepared/qmsum data/ALL/jsonl/train.jsonl

A line of the release is a meeting with general queries, which are about all of it, and
specific ones. Each is a record: the query is the prefix, and the input the whole
transcript, a turn a line, which begins with its speaker. The spans of turns that
specific queries have are not read. A blank line stands between query and transcript, as
in SCROLLS.

Meetings have no names, so that records are called by file, line and query, such as
`train:3:general-1`. The score is ROUGE without stemmer, as in SCROLLS.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import re
from collections.abc import Iterator
from typing import Any, ClassVar

from etc_jax.datasets.fields import LIST, STRING, Fields, objects
from etc_jax.datasets.json_lines import read_lines
from etc_jax.datasets.pairs import TextOptions
from etc_jax.datasets.records import BadRecordError
from etc_jax.datasets.task import register
from etc_jax.datasets.text_sets import (
    each_by_itself,
    lines_have,
    text_data_set,
    unfolded,
)
from etc_jax.formats.text_to_text import TextToTextSizes

# Xiong et al. 2022: 16,384 tokens are read, table 9: 256 are written at most.
SIZES = TextToTextSizes(input_length=16384, target_length=256)

_TURNS = "meeting_transcripts"
# Of transcribers, such as {disfmarker}, {vocalsound}, {gap} and {pause}.
_MARK = re.compile(r"\{[a-z]+\}")


@dataclasses.dataclass(frozen=True)
class MeetingOptions(TextOptions):
    """How texts become tokens, and what is read of a transcript.

    Attributes:
      keep_marks: the marks of transcribers, such as {disfmarker}, stay; without, they
        are taken out, and turns without words too.
    """

    given_to: ClassVar[tuple[str, ...]] = (*TextOptions.given_to, "read", "release")

    keep_marks: bool = False


OPTIONS = MeetingOptions()


def release(
    path: str | os.PathLike, *, options: MeetingOptions = OPTIONS
) -> Iterator[tuple[int, Any]] | None:
    """The queries of each meeting of a file; see `text_sets.ReleaseFn`."""
    return _queries(path, options) if lines_have(path, _TURNS) else None


def _queries(
    path: str | os.PathLike, options: MeetingOptions
) -> Iterator[tuple[int, Any]]:
    file = pathlib.Path(path).name.partition(".")[0]
    for number, value in read_lines(path):
        records_of = functools.partial(
            _of_meeting, name=f"{file}:{number}", options=options
        )
        yield from unfolded([(number, value)], records_of)


def _of_meeting(
    meeting: Fields, *, name: str, options: MeetingOptions
) -> Iterator[dict[str, Any] | BadRecordError]:
    turns = meeting.get(_TURNS, objects)
    transcript = "\n".join(filter(None, (_turn(turn, options) for turn in turns)))

    def record_of(numbered: tuple[str, Any]) -> dict[str, Any]:
        number, query = numbered[0], Fields(numbered[1], numbered[0])
        record = {"id": f"{name}:{number}", "input": transcript}
        record["prefix"] = query.text("query")
        if "answer" in query:
            record["target"] = query.text("answer")
        return record

    for kind in ("general", "specific"):
        queries = meeting.get(f"{kind}_query_list", LIST)
        numbered = ((f"{kind}-{i}", query) for i, query in enumerate(queries, start=1))
        yield from each_by_itself(numbered, record_of)


def _turn(turn: Fields, options: MeetingOptions) -> str:
    """A turn as a line; "" if it is left out."""
    words = turn.get("content", STRING)
    if not options.keep_marks:
        words = _MARK.sub(" ", words)
    # Turns are lines, and what is taken out leaves no gap.
    words = " ".join(words.split())
    line = f"{turn.get('speaker', STRING)}: {words}".strip()
    return line if words or options.keep_marks else ""


DATA_SET = register(
    text_data_set(
        "qmsum",
        measure="rouge",
        sizes=SIZES,
        release=release,
        prefix="Query",
        between="\n\n",
        options=OPTIONS,
    )
)
"""The data set, as commands and configs find it."""
