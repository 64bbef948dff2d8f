"""Pairs of texts in JSON lines: what a model reads, and what it learns to write.

A file has a JSON object a line, with `input` and `target`, both text, `prefix` if there
is one, such as a question about the input, and `id`; without, pairs are named by the
beginning of their SHA-256. Where several texts are right, `target` is a list of them,
or lines that follow one another have the same `id` and `input`.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from etc_jax.data.text.pairs import cut_to
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.datasets.fields import STRING, Fields, list_of
from etc_jax.datasets.json_lines import read_lines
from etc_jax.datasets.offsets import encode
from etc_jax.datasets.options import InputOptions
from etc_jax.datasets.records import BadRecordError, Note
from etc_jax.datasets.tables import TableOptions, digest_id, record_id
from etc_jax.formats.text_to_text import end_id


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two texts.

    Attributes:
      id: of the pair.
      input: text to be read.
      target: text to be written; None without one.
      prefix: text that is read before the input; None without one.
      others: texts that are as right as the target.
      between: what stands between prefix and input where they are one text.
    """

    id: str
    input: str
    target: str | None
    prefix: str | None = None
    others: tuple[str, ...] = ()
    between: str = " "

    @property
    def references(self) -> list[str] | None:
        """All right texts; None if there is none."""
        return None if self.target is None else [self.target, *self.others]


@dataclasses.dataclass(frozen=True)
class PairOptions(InputOptions):
    """How texts become tokens.

    Attributes:
      begin_token: texts begin with the first token of the vocabulary, such as <s>, as
        those of BART and LED do; T5 has none.
      prefix_length: positions of the prefix, before those of the input, as
        model.sled.prefix_length has them; a longer one is cut, a shorter one padded.
        0: the prefix is the beginning of the input.
      prefix_every: the prefix is repeated at the start of each so many positions, as in
        the blocks of a BART-LS, cut to prefix_length but not padded. 0: it is there
        once.
    """

    given_to: ClassVar[tuple[str, ...]] = ("features", "record_length")
    # A choice where records may have several right texts: see `TextOptions`.
    every_target: ClassVar[bool] = False

    begin_token: bool = False
    prefix_length: int = 0
    prefix_every: int = 0


@dataclasses.dataclass(frozen=True)
class TextOptions(PairOptions):
    """How texts become tokens, and which of several right ones are learnt.

    Attributes:
      every_target: of a record with several right texts each is learnt, in an input of
        its own; without, the first one alone.
    """

    every_target: bool = False


class EncodedPair(NamedTuple):
    """A pair in tokens.

    Attributes:
      ids: of what is read, each text with its end token; 0 in padding.
      marks: 1 for a token, 0 for padding, which only a prefix has.
      target: ids, with the end token; None without a target.
      prefix_tokens: of a prefix with positions of its own, before it was cut, or 0.
    """

    ids: list[int]
    marks: list[int]
    target: list[int] | None
    prefix_tokens: int = 0


PLAIN = PairOptions()


def parse(value: Any, note: Note, *, between: str = " ") -> Pair:
    """A pair from a JSON value; see the module.

    Args:
      value: the object.
      note: not called: pairs are used as a whole or not at all.
      between: see `Pair`.

    Raises:
      BadRecordError: if it cannot be used.
    """
    del note
    fields = Fields(value)
    text = fields.get("input", STRING)
    target, *others = fields.get("target", _one_or_more, [None])
    prefix = fields.get("prefix", STRING, None)
    if not text.strip():
        raise BadRecordError("no text", "the input is blank, expected text")
    named = [text, target, *others] if prefix is None else [text, target, prefix]
    name = record_id(fields, digest_id(named), TableOptions())
    return Pair(name, text, target, prefix, tuple(others), between)


def _one_or_more(value: Any, what: str) -> Sequence[str]:
    if isinstance(value, list):
        return list_of(STRING, least=1)(value, what)
    return [STRING(value, what)]


def joined_references(values: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    """(number, value) of records, neighbours of one id and one input as one.

    Their targets become a list. Values that differ in more, or whose targets are no
    texts, stay as they are: what is wrong with one costs no other.

    Raises:
      BadRecordError: where `values` does; records before that place have come out.
    """
    held: tuple[int, Any] | None = None
    fault: BadRecordError | None = None
    try:
        for number, value in values:
            if held is not None and _are_one(held[1], value):
                if "target" in value:
                    targets = [*_texts(held[1]["target"]), *_texts(value["target"])]
                    held = held[0], {**held[1], "target": targets}
                continue
            if held is not None:
                yield held
            held = number, value
    except BadRecordError as error:
        fault = error
    if held is not None:
        yield held
    if fault is not None:
        raise fault


def _are_one(first: Any, second: Any) -> bool:
    """Whether two values have the same id, and differ in their targets at most."""
    if not (isinstance(first, dict) and isinstance(second, dict)):
        return False
    if first.get("id") is None or first.keys() != second.keys():
        return False
    if any(second[name] != x for name, x in first.items() if name != "target"):
        return False
    return "target" not in first or bool(
        _texts(first["target"]) and _texts(second["target"])
    )


def _texts(target: Any) -> list[str]:
    """The right texts of a target; [] if it is something else."""
    some = target if isinstance(target, list) else [target]
    return some if all(isinstance(text, str) for text in some) else []


def read_complete(paths: Sequence[str | os.PathLike]) -> Iterator[Pair]:
    """The pairs to learn from, named by file and line: the same may come twice.

    Raises:
      BadRecordError: naming the file and the record that cannot be used, or has no
        target.
      OSError: if a file cannot be read.
    """
    for path in paths:
        for number, value in read_lines(path):
            try:
                pair = _complete(value)
            except BadRecordError as e:
                raise e.at(f"{os.fspath(path)}, record {number}") from e
            name = f"{pathlib.Path(path).name}:{number}"
            for target in pair.references:
                yield dataclasses.replace(pair, id=name, target=target, others=())


def _complete(value: Any) -> Pair:
    if isinstance(value, BadRecordError):
        raise value
    Fields(value).get("target", _one_or_more)
    return parse(value, lambda kind, message: None)


def joined(pair: Pair) -> str:
    """What is read of a pair as one text: the prefix, if any, and the input."""
    return f"{pair.prefix}{pair.between}{pair.input}" if pair.prefix else pair.input


def encoded(
    pair: Pair, tokenizer: Tokenizer, options: PairOptions = PLAIN
) -> EncodedPair:
    """A pair in tokens.

    Raises:
      BadRecordError: if the input has no token.
      ValueError: if the tokenizer lacks a special token.
    """
    begin = [tokenizer.special_id("cls")] if options.begin_token else []
    end = end_id(tokenizer)
    apart = bool(options.prefix_length or options.prefix_every)
    text = pair.input if apart else joined(pair)
    texts = [text, pair.target or "", pair.prefix or ""]
    source, target, prefix = encode(tokenizer, texts)
    if not len(source):
        raise BadRecordError("no text", "the input has no token in this vocabulary")
    written = None if pair.target is None else [*begin, *target.ids, end]
    whole: list[int] = []
    if apart and len(prefix):
        whole = [*begin, *prefix.ids, end]
    before = cut_to(np.int32(whole), options.prefix_length or None).tolist()
    if options.prefix_every:
        ids = _in_blocks(before or begin, source.ids, end, options.prefix_every)
        return EncodedPair(ids, [1] * len(ids), written, len(whole))
    # A prefix with positions of its own is padded, so that all inputs begin alike.
    empty = options.prefix_length - len(before)
    text = [*begin, *source.ids, end]
    marks = [*[1] * len(before), *[0] * empty, *[1] * len(text)]
    ids = [*before, *[0] * empty, *text]
    return EncodedPair(ids, marks, written, len(whole))


def _in_blocks(
    before: Sequence[int], text: Sequence[int], end: int, size: int
) -> list[int]:
    """Blocks of the prefix, a piece of the text and an end token (Xiong et al. 2022).

    Raises:
      ValueError: if a block has no room for text.
    """
    room = size - len(before) - 1
    if room < 1:
        raise ValueError(
            f"prefix_every is {size}, but a prefix has {len(before)} tokens and a "
            "block an end token too; cut prefixes (prefix_length), or make it more"
        )
    pieces = [text[i : i + room] for i in range(0, len(text), room)]
    return [token for piece in pieces for token in (*before, *piece, end)]
