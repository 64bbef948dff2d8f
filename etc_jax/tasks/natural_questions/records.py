"""Natural Questions' official files: a question, an article of Wikipedia, annotations.

The original files hold the article as tokens with their places in the HTML, the
simplified ones as text with one space between tokens; their fields tell them apart.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from etc_jax.datasets.fields import (
    FLAG,
    LIST,
    STRING,
    WHOLE,
    Fields,
    anything,
    wrong_type,
)
from etc_jax.datasets.json_lines import read_lines
from etc_jax.datasets.records import BadRecordError, Note, reader

# (first, one past the last) word, or byte.
Span = tuple[int, int]

YES_NO = ("yes", "no", "none")

# Simplified files keep no flag. Their tags have "_" where the HTML has a space.
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")


@dataclasses.dataclass(frozen=True)
class Annotation:
    """What one annotator answered; spans are of words.

    Attributes:
      long: None for no long answer.
      short: in the order of the file.
      yes_no: "yes", "no" or "none".
    """

    long: Span | None
    short: tuple[Span, ...]
    yes_no: str

    @property
    def has_short(self) -> bool:
        """Whether there is a short answer, which may be "yes" or "no"."""
        return bool(self.short) or self.yes_no != "none"


@dataclasses.dataclass(frozen=True)
class Record:
    """A question and its article.

    Attributes:
      id: name of the record.
      question: its text.
      title: of the article; "" if the file has none.
      words: tokens of the article, HTML tags among them.
      is_html: which of them are tags.
      candidates: what a long answer can be; some lie inside of others.
      top_level: which of them lie in no other.
      annotations: one a annotator; None in test files.
      word_bytes: where each word stands in the HTML; None in simplified files.
    """

    id: str
    question: str
    title: str
    words: tuple[str, ...]
    is_html: tuple[bool, ...]
    candidates: tuple[Span, ...]
    top_level: tuple[bool, ...]
    annotations: tuple[Annotation, ...] | None
    word_bytes: tuple[Span, ...] | None

    def bytes_of(self, span: Span) -> Span:
        """Where some words stand in the HTML; (-1, -1) if the file does not say."""
        if self.word_bytes is None:
            return (-1, -1)
        return (self.word_bytes[span[0]][0], self.word_bytes[span[1] - 1][1])


def parse(value: Any, note: Note) -> Record:
    """A record from its JSON value.

    Args:
      value: the object of the original or the simplified format.
      note: called with (kind, message) for what is odd and kept.

    Raises:
      BadRecordError: if it cannot be used.
    """
    fields = Fields(value)
    name = _identity(fields)
    words, is_html, word_bytes = _words(fields)
    if all(is_html):
        raise BadRecordError(
            "no text", f"{name!r} has {len(words)} tokens, all of them HTML tags"
        )
    candidates, top_level = _candidates(fields, len(words))
    if not any(top_level):
        raise BadRecordError(
            "no top-level candidate",
            f"{name!r} has {len(candidates)} candidates, none of top level",
        )
    record = Record(
        id=name,
        question=fields.text("question_text"),
        title=fields.get("document_title", STRING, ""),
        words=words,
        is_html=is_html,
        candidates=candidates,
        top_level=top_level,
        annotations=_annotations(fields, len(words)),
        word_bytes=word_bytes,
    )
    _note_oddities(record, value, note)
    return record


# The records of files such as `nq-train-00.jsonl.gz`, original or simplified.
read = reader(parse, read_lines)


def _identity(fields: Fields) -> str:
    """The id as text: numbers in original files, either in simplified ones."""
    value = fields.get("example_id", anything)
    if type(value) is int or (isinstance(value, str) and value.strip()):
        return str(value)
    raise wrong_type(value, "example_id", "a number")


def _words(
    fields: Fields,
) -> tuple[tuple[str, ...], tuple[bool, ...], tuple[Span, ...] | None]:
    """(words, which are tags, bytes)."""
    if "document_tokens" not in fields:
        if "document_text" not in fields:
            # The error that names the fields there are.
            fields.get("document_tokens", LIST)
        # Not `split()`: a token may be empty or hold other white space.
        words = tuple(fields.text("document_text").split(" "))
        return words, tuple(_TAG.fullmatch(w) is not None for w in words), None
    tokens = fields.get("document_tokens", LIST)
    try:
        words = tuple(t["token"] for t in tokens)
        is_html = tuple(t["html_token"] for t in tokens)
        word_bytes = None
        if all("start_byte" in t and "end_byte" in t for t in tokens):
            word_bytes = tuple((t["start_byte"], t["end_byte"]) for t in tokens)
    except (KeyError, TypeError) as e:
        raise BadRecordError(
            "wrong type",
            f"{e!r} in 'document_tokens', expected objects with token and html_token",
        ) from e
    right = all(type(w) is str for w in words) and all(type(x) is bool for x in is_html)
    if not right or any(type(x) is not int for s in word_bytes or () for x in s):
        raise BadRecordError(
            "wrong type",
            "'document_tokens' has a token that is no string, an html_token that is "
            "no true or false, or a byte that is no number",
        )
    return words, is_html, word_bytes


def _candidates(fields: Fields, most: int) -> tuple[tuple[Span, ...], tuple[bool, ...]]:
    spans, top_level = [], []
    for number, value in enumerate(fields.get("long_answer_candidates", LIST)):
        what = f"long_answer_candidates[{number}]"
        span = _span(value, what, most)
        if span is None:
            raise BadRecordError("wrong type", f"{what} is of -1, expected a span")
        spans.append(span)
        top_level.append(Fields(value, what).get("top_level", FLAG))
    return tuple(spans), tuple(top_level)


def _annotations(fields: Fields, most: int) -> tuple[Annotation, ...] | None:
    if "annotations" not in fields:
        return None
    annotations = []
    for number, value in enumerate(fields.get("annotations", LIST)):
        what = f"annotations[{number}]"
        inner = Fields(value, what)
        listed = inner.get("short_answers", LIST)
        short = [_span(x, f"{what}.short_answers", most) for x in listed]
        yes_no = inner.get("yes_no_answer", STRING).lower()
        if yes_no not in YES_NO:
            raise BadRecordError(
                "wrong value", f"{what} has yes_no_answer {yes_no!r}, expected {YES_NO}"
            )
        long = _span(inner.get("long_answer", anything), f"{what}.long_answer", most)
        annotations.append(Annotation(long, tuple(filter(None, short)), yes_no))
    return tuple(annotations) or None


def _span(value: Any, what: str, most: int) -> Span | None:
    """A span of words; None for one of -1."""
    fields = Fields(value, what)
    start, end = (fields.get(key, WHOLE) for key in ("start_token", "end_token"))
    if (start, end) == (-1, -1):
        return None
    if not 0 <= start < end <= most:
        raise BadRecordError(
            "offsets outside of the document",
            f"{what} is from word {start} to {end} of {most}",
        )
    return start, end


# --- oddities -------------------------------------------------------------------------


def _note_oddities(record: Record, value: dict, note: Note) -> None:
    top = top_spans(record)
    listed = sum(record.top_level)
    if len(top) < listed:
        note(
            "top-level candidates overlap",
            f"{record.id!r}, {listed - len(top)} of {listed} are passed over",
        )
    for i, annotation in enumerate(record.annotations or ()):
        for span in filter(None, (annotation.long, *annotation.short)):
            if not any(a <= span[0] and span[1] <= b for _, (a, b) in top):
                message = f"{record.id!r}, annotations[{i}], words {span}"
                note("answer outside of the candidates", message)
    _note_bytes(record, value, note)


def top_spans(record: Record) -> list[tuple[int, Span]]:
    """(index, span) of the top-level candidates, in order; one that overlaps is out."""
    tops: list[tuple[int, Span]] = []
    pairs = zip(record.candidates, record.top_level, strict=True)
    chosen = [(span, i) for i, (span, top) in enumerate(pairs) if top]
    for span, i in sorted(chosen):
        if not tops or tops[-1][1][1] <= span[0]:
            tops.append((i, span))
    return tops


def _note_bytes(record: Record, value: dict, note: Note) -> None:
    """Counts spans whose bytes are not those of their words, which are what is used."""
    if record.word_bytes is None:
        return
    spans = list(value["long_answer_candidates"])
    for annotation in value.get("annotations", ()):
        spans += [annotation["long_answer"], *annotation["short_answers"]]
    for span in spans:
        if span["start_token"] < 0 or "start_byte" not in span:
            continue
        words = (span["start_token"], span["end_token"])
        got = (span["start_byte"], span.get("end_byte"))
        if got != (want := record.bytes_of(words)):
            note(
                "bytes and words disagree",
                f"{record.id!r}, words {words} are bytes {want}, the file has {got}",
            )
