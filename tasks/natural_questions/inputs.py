"""Natural Questions records as inputs and labels (ETC paper, appendix C).

    long:    [CLS] question [SEP] part of the article [SEP]
    global:  [CLS] one a piece of the question and its [SEP], then one a paragraph

The article is cut into windows that overlap. Only what lies in top-level candidates is
kept of it, a piece of which is tied to its candidate's global token.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import numpy as np

from etc_jax import structure as st
from etc_jax.data.tokenizer_base import Tokenizer
from etc_jax.datasets.offsets import count_pieces, encode
from etc_jax.datasets.options import InputOptions
from etc_jax.datasets.records import BadRecordError
from etc_jax.formats import fixed_blocks
from etc_jax.formats.structured import Sizes, Window
from etc_jax.types import Rows
from tasks.natural_questions.labels import (
    NULL,
    PLACES,
    Label,
    chosen_annotation,
    official_label,
    visible_label,
)
from tasks.natural_questions.records import Record, Span, top_spans

# Of the paper (section 4); strides are those of `default_stride`.
SIZES_512 = Sizes(long_length=512, global_length=128)
SIZES_8192 = Sizes(long_length=8192, global_length=460)
SIZES = Sizes(long_length=4096, global_length=230)

NOT_DRAWN = "window without an answer, not drawn"


@dataclasses.dataclass(frozen=True)
class Options(InputOptions):
    """How inputs are made.

    Attributes:
      question_tokens: longest question; what is beyond is cut off.
      stride: pieces from one window to the next; None: `default_stride`.
      tokens_per_block: the paper's ablation "fixed blocks": a global token for so many
        long ones, whatever they are; None: by question and paragraph.
      flat: no global token but [CLS], so that what is left is a sliding-window BERT.
      null_share: of the windows without an answer that are trained on.
      unanswerable_share: the same for questions that have no answer in any window.
      seed: of that draw.
    """

    question_tokens: int = 32
    stride: int | None = None
    tokens_per_block: int | None = None
    flat: bool = False
    null_share: float = 1.0
    unanswerable_share: float = 1.0
    seed: int = 0

    def __post_init__(self):
        if self.flat and self.tokens_per_block is not None:
            raise ValueError("flat has no global tokens: leave tokens_per_block out")
        fixed_blocks.check(self.tokens_per_block)
        for name in ("null_share", "unanswerable_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected 0 to 1")
        if self.question_tokens < 1 or (self.stride is not None and self.stride < 1):
            raise ValueError(f"{self}: question_tokens and stride must be at least 1")

    def stride_for(self, long_length: int) -> int:
        """Pieces from one window of this length to the next."""
        return self.stride or default_stride(long_length)

    def shaping(self, sizes: Sizes) -> dict[str, Any]:
        """See `InputOptions.shaping`; an article is cut into windows by the lengths."""
        n = sizes.long_length
        found = {**super().shaping(sizes), "stride": self.stride_for(n)}
        found["long_length"] = n
        if not self.flat and self.tokens_per_block is None:
            # Paragraphs that have no room share a global token.
            found["global_length"] = sizes.global_length
        return found


@dataclasses.dataclass(frozen=True)
class NaturalQuestionsWindow(Window):
    """A window with the way back to the article.

    `labels` are int32 `[]`: `answer_type`, and `short_begin`, `short_end`,
    `long_begin`, `long_end`, first and last long token of the short and the long
    answer; 0, the place of [CLS], for an end that is not in the window.

    Attributes:
      number: of the window in its record, from 0.
      count: windows of the record.
      word: int32 `[n]`, word of the article behind each long token; -1 for none.
      candidate: int32 `[n]`, top-level candidate of each long token; -1 for none.
      share: of such windows that are trained on; 1 for those with an answer.
    """

    number: int
    count: int
    word: np.ndarray
    candidate: np.ndarray
    share: float


def default_stride(long_length: int) -> int:
    """128 for 512 tokens, 2048 for 4096 and 4096 for 8192, as in the paper."""
    return long_length // 2 if long_length > 512 else max(1, long_length // 4)


def features(
    record: Record,
    tokenizer: Tokenizer,
    sizes: Sizes = SIZES,
    *,
    options: Options = Options(),  # noqa: B008  (frozen)
    official_quirks: bool = False,
) -> list[NaturalQuestionsWindow]:
    """The windows of a record, in order.

    Windows without an answer that are not drawn for training say so in `unusable`.

    Args:
      record: question and article.
      tokenizer: WordPiece or sentencepiece, with the special tokens of official ETC.
      sizes: lengths of the input.
      options: see there.
      official_quirks: what the official code does wrong is done wrong too: labels are
        kept in windows whose type became null, "yes" and "no" are the type of every
        window, only the first annotator counts, the last [SEP] has a global token that
        looks like padding, and sizes that leave words out are taken.

    Raises:
      BadRecordError: if nothing is left of the article, or, with official quirks,
        question or blocks have no room.
      ValueError: if the sizes do not go with the options, or the tokenizer lacks a
        special token.
    """
    stride = options.stride_for(sizes.long_length)
    if not official_quirks:
        _check_sizes(sizes, options, stride)
    builder = _Builder(record, tokenizer, sizes, options, official_quirks)
    room = sizes.long_length - len(builder.question) - 3
    if room < 1:
        raise BadRecordError(
            "question too long",
            f"{record.id!r}: {len(builder.question)} tokens, in an input of {sizes}",
        )
    beyond = max(len(builder.article.ids) - room, 0)
    starts = range(0, beyond + stride, stride)
    return [
        builder.window(number, len(starts), start, start + room)
        for number, start in enumerate(starts)
    ]


def _check_sizes(sizes: Sizes, options: Options, stride: int) -> None:
    room = sizes.long_length - options.question_tokens - 3
    if room < stride:
        raise ValueError(
            f"{sizes.long_length} long tokens hold {max(room, 0)} of the article beside"
            f" a question of {options.question_tokens}, fewer than the stride {stride};"
            " raise long_length, or lower stride or question_tokens"
        )
    if options.tokens_per_block is not None:
        fixed_blocks.check_room(options.tokens_per_block, sizes)
        return
    need = 1 if options.flat else options.question_tokens + 3
    if sizes.global_length < need:
        raise ValueError(
            f"global_length is {sizes.global_length}, expected {need} at least, for "
            f"{options} and {sizes.long_length} long tokens"
        )


@dataclasses.dataclass(frozen=True)
class _Article:
    """Pieces of what lies in top-level candidates: int32 `[p]` each, in order."""

    ids: np.ndarray
    word: np.ndarray
    candidate: np.ndarray


class _Builder:
    """Makes the windows of one record."""

    def __init__(self, record, tokenizer, sizes, options: Options, quirks: bool):
        self._record, self._sizes = record, sizes
        self._options, self._quirks = options, quirks
        roles = ("nq_cls", "nq_sep", "nq_question", "sentence", "pad")
        self._ids = {role: tokenizer.special_id(role) for role in roles}
        surfaces = sorted({w for w, h in _words(record) if not h})
        question, *pieces = encode(tokenizer, [record.question, *surfaces])
        self.question = question.ids[: options.question_tokens]
        known = dict(zip(surfaces, (p.ids for p in pieces), strict=True))
        spans = _listed_tops(record) if quirks else top_spans(record)
        self.article = _article(record, spans, known, tokenizer)
        annotations = record.annotations or ()
        self._annotation = annotations[0] if annotations else None
        if not quirks:
            self._annotation = chosen_annotation(annotations)

    def window(self, number: int, count: int, start: int, stop: int):
        """The window of the article's pieces `start` to `stop`."""
        article = self.article
        part = slice(start, stop)
        before = len(self.question) + 2
        word = self._padded(article.word[part], before, -1)
        candidate = self._padded(article.candidate[part], before, -1)
        used = before + len(article.ids[part]) + 1
        label = self._label(start, min(stop, len(article.ids)), before, word)
        tokens, structure = self._inputs(part, candidate, used)
        share = self._share(label)
        return NaturalQuestionsWindow(
            record=self._record,
            tokens=tokens,
            types=Rows(*(np.zeros(len(x), np.int32) for x in tokens)),
            structure=structure,
            labels={
                "answer_type": np.array(label.type, np.int32),
                **{
                    name: np.array(place, np.int32)
                    for name, place in zip(PLACES, label.places, strict=True)
                },
            },
            unusable=self._unusable(number, share),
            number=number,
            count=count,
            word=word,
            candidate=candidate,
            share=share,
        )

    def _padded(self, values: np.ndarray, before: int, fill: int) -> np.ndarray:
        padded = np.full(self._sizes.long_length, fill, np.int32)
        padded[before : before + len(values)] = values
        return padded

    def _label(self, start: int, stop: int, before: int, word: np.ndarray) -> Label:
        if self._annotation is None:
            missing = -1 if self._quirks else 0
            return Label(missing, (missing,) * 4)
        if self._quirks:
            return official_label(self._annotation, word)
        return visible_label(
            self._annotation, self.article.word, (start, stop), before - start
        )

    def _share(self, label: Label) -> float:
        if label.type != NULL or self._annotation is None:
            return 1.0
        if self._annotation.long is None and not self._annotation.has_short:
            return self._options.unanswerable_share
        return self._options.null_share

    def _unusable(self, number: int, share: float) -> str | None:
        if self._annotation is None:
            return "no annotation"
        drawn = draw(self._options.seed, self._record.id, number) < share
        return None if drawn else NOT_DRAWN

    def _inputs(self, part: slice, candidate: np.ndarray, used: int):
        """(tokens, structure)."""
        n, g = self._sizes.long_length, self._sizes.global_length
        sep = self._ids["nq_sep"]
        long = np.full(n, self._ids["pad"], np.int32)
        head = [self._ids["nq_cls"], *self.question, sep]
        long[: len(head)] = head
        long[len(head) : used - 1] = self.article.ids[part]
        long[used - 1] = sep
        ids, links = self._globals(candidate, used)
        if len(ids) > g:
            raise BadRecordError(
                "too many global tokens",
                f"{self._record.id!r}: {len(ids)}, but global_length is {g}",
            )
        global_ = np.full(g, self._ids["pad"], np.int32)
        global_[: len(ids)] = ids
        return Rows(long, global_), _structure(used, len(ids), links, g)

    def _globals(
        self, candidate: np.ndarray, used: int
    ) -> tuple[list[int], np.ndarray]:
        """(ids of global tokens, the one of each long token `[n]`)."""
        links = np.full(len(candidate), -1, st.LINK_DTYPE)
        ids = [self._ids["nq_cls"]]
        if (block := self._options.tokens_per_block) is not None:
            lengths = fixed_blocks.block_lengths(used, block)
            links[:used] = np.repeat(np.arange(len(lengths)), lengths)
            return [self._ids["sentence"]] * len(lengths), links
        if self._options.flat:
            links[0] = 0
            return ids, links
        before = len(self.question) + 2
        ids += [self._ids["nq_question"]] * (before - 1)
        links[:before] = np.arange(before)
        return ids + self._paragraphs(candidate, used, before, links), links

    def _paragraphs(
        self, candidate: np.ndarray, used: int, before: int, links: np.ndarray
    ) -> list[int]:
        """Ids of the global tokens of paragraphs, to which it ties long tokens."""
        run = candidate[before:used]
        # The place of each long token's candidate among those of the window.
        order = np.cumsum(np.diff(run, prepend=-2) != 0) - 1
        ids = [self._ids["sentence"]] * int(order[-1])
        if self._quirks:
            ids.append(self._ids["pad"])  # of the last [SEP]
        room = max(self._sizes.global_length - before, 0)
        # As in the official code, those that have no room share the last one.
        links[before:used] = before + np.minimum(order, room - 1)
        if not self._quirks:
            links[used - 1] = -1
        return ids[:room]


def _structure(used: int, used_global: int, links: np.ndarray, g: int) -> st.Structure:
    return st.Structure(
        long_example_ids=(np.arange(len(links)) < used).astype(np.int32),
        global_example_ids=(np.arange(g) < used_global).astype(np.int32),
        links=links[:, None],
    )


def _words(record: Record):
    return zip(record.words, record.is_html, strict=True)


def _listed_tops(record: Record) -> list[tuple[int, Span]]:
    """Top-level candidates as the file has them, even if they overlap."""
    return [(i, x) for i, x in enumerate(record.candidates) if record.top_level[i]]


def _article(
    record: Record,
    spans: list[tuple[int, Span]],
    known: dict[str, list[int]],
    tokenizer: Tokenizer,
) -> _Article:
    # Official NQ inputs keep of a tag only whether it opens or closes something.
    tags = [[tokenizer.special_id(f"nq_html_{side}")] for side in ("start", "end")]
    ids: list[int] = []
    lengths: list[int] = []
    of_words, of_candidates = [], []
    for index, (start, stop) in spans:
        for number in range(start, stop):
            word = record.words[number]
            html = record.is_html[number]
            found = tags[word.startswith("</")] if html else known[word]
            ids += found
            lengths.append(len(found))
        of_words.append(np.arange(start, stop, dtype=np.int32))
        of_candidates.append(np.full(stop - start, index, np.int32))
    if not ids:
        raise BadRecordError("no text", f"{record.id!r}: no candidate has a token")
    counts = np.array(lengths)
    return _Article(
        ids=np.array(ids, np.int32),
        word=np.repeat(np.concatenate(of_words), counts),
        candidate=np.repeat(np.concatenate(of_candidates), counts),
    )


def draw(seed: int, name: str, number: int) -> float:
    """A number in 0..1 that depends on nothing but a seed, an id and a window."""
    digest = hashlib.blake2b(f"{seed} {name} {number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64


def whole_length(record: Record, tokenizer: Tokenizer) -> int:
    """Tokens of a record if nothing of it is cut off, special tokens included."""
    tags, texts = 0, [record.question]
    for _, (start, stop) in top_spans(record):
        for word, is_html in zip(
            record.words[start:stop], record.is_html[start:stop], strict=True
        ):
            if is_html:
                tags += 1
            else:
                texts.append(word)
    return 3 + tags + count_pieces(tokenizer, texts)  # [CLS] and two [SEP]
