"""Tags of entities: how prefixes mark where an entity begins and ends.

    iob1   I-X inside; B-X only where an entity follows one of its own type
    iob2   B-X for the first word, I-X for the others
    iobes  B-X, I-X, E-X for the last word, S-X for an entity of one word
    bilou  the same with L for E and U for S
    bmes   the same with M for I
    bmeow  the same with M for I and W for S
    ioe1   I-X inside; E-X only where an entity of its own type follows
    ioe2   E-X for the last word, I-X for the others

O is a word of no entity. Sentences are tagged by themselves.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

OUTSIDE, PLAIN = "O", "plain"
# In the order in which they are tried.
PREFIXES = {
    "iob2": "BI",
    "iob1": "BI",
    "iobes": "BIES",
    "bilou": "BILU",
    "bmes": "BMES",
    "bmeow": "BMEW",
    "ioe2": "IE",
    "ioe1": "IE",
}
# Of these an entity counts if all of its tags follow the scheme, as in seqeval's strict
# mode; others are read as CoNLL's evaluation does.
STRICT = ("bilou", "bmes", "bmeow", "ioe2")
# What each letter is in iobes.
_LETTERS = {x: x for x in "BIES"} | {"L": "E", "U": "S", "M": "I", "W": "S"}
_SEPARATOR = "-"
_SHOWN = 8
_OPENS, _CLOSES = "BS", "ES"


class TaggedSpan(NamedTuple):
    """Words of a sentence from one to another, the second not among them."""

    start: int
    stop: int
    type: str


def parts_of(tag: str) -> tuple[str, str] | None:
    """(prefix in iobes, type) of a tag; ("O", "") outside; None for another tag."""
    if tag == OUTSIDE:
        return OUTSIDE, ""
    prefix, separator, kind = tag.partition(_SEPARATOR)
    is_prefixed = separator and kind and prefix in _LETTERS
    return (_LETTERS[prefix], kind) if is_prefixed else None


def is_of(tag: str, scheme: str) -> bool:
    """Whether a scheme has a tag."""
    if scheme == PLAIN or tag == OUTSIDE:
        return True
    return parts_of(tag) is not None and tag[0] in PREFIXES[scheme]


def have_prefixes(tags: Iterable[str]) -> bool:
    """Whether all tags are of entities, O alone among them."""
    return all(parts_of(tag) is not None for tag in tags)


def full_labels(tags: Iterable[str], scheme: str) -> tuple[str, ...]:
    """All tags that a scheme has for the types of some, and O; of plain ones these."""
    if scheme == PLAIN:
        return tuple(sorted(tags))
    types = {kind for _, kind in map(parts_of, tags) if kind}
    prefixed = {f"{prefix}-{kind}" for prefix in PREFIXES[scheme] for kind in types}
    return tuple(sorted({OUTSIDE, *prefixed}))


def breaks(tags: Sequence[str], scheme: str) -> Iterator[tuple[int, str]]:
    """(word, what is wrong) for each tag of a sentence that a scheme does not allow.

    The tag after the last one is O: what has to end must end there.
    """
    if scheme == PLAIN:
        return
    before = (OUTSIDE, "")
    for word, tag in enumerate((*tags, OUTSIDE)):
        now = parts_of(tag)
        if not is_of(tag, scheme):
            yield word, f"{tag!r} is no tag of {scheme}"
            now = (OUTSIDE, "")
        elif wrong := _wrong(before, now, scheme):
            last = tags[word - 1] if word else "the beginning"
            what = tag if word < len(tags) else "the end"
            yield min(word, len(tags) - 1), f"{what!r} after {last!r}: {wrong}"
        before = now


def _wrong(before: tuple[str, str], now: tuple[str, str], scheme: str) -> str:
    """Why a tag may not follow another; "" if it may."""
    same = before[1] == now[1] != ""
    if scheme == "iob1":
        return "" if now[0] != "B" or same else "B- is for entities beside each other"
    if scheme == "ioe1":
        return (
            "" if before[0] != "E" or same else "E- is for entities beside each other"
        )
    if scheme == "ioe2":
        is_cut = before[0] == "I" and not same
        return "the entity before it has no end" if is_cut else ""
    is_open = before[0] in ("B", "I")
    goes_on = now[0] in ("I", "E")
    if goes_on and not (is_open and same):
        return "no entity of its type is open"
    if "S" in map(_LETTERS.get, PREFIXES[scheme]) and is_open and not goes_on:
        return "the entity before it has no end"
    return ""


def strict_spans_of(tags: Sequence[str], scheme: str) -> list[TaggedSpan]:
    """The entities of a sentence whose tags all follow one of the schemes `STRICT`.

    Such an entity is of one type; it is S alone, or I up to an E, after a B where the
    scheme has one.
    """
    has_begin = "B" in PREFIXES[scheme]
    spans: list[TaggedSpan] = []
    start, open_type = 0, ""
    for word, tag in enumerate(tags):
        letter, kind = parts_of(tag) or (OUTSIDE, "")
        begins = letter == "B" if has_begin else open_type != kind
        if begins and letter in "BIE":
            start, open_type = word, kind
        elif letter == "S":
            start, open_type = word, kind
        elif letter == OUTSIDE or kind != open_type:
            open_type = ""
        if open_type and letter in _CLOSES:
            spans.append(TaggedSpan(start, word + 1, kind))
            open_type = ""
    return spans


def spans_of(tags: Sequence[str]) -> list[TaggedSpan]:
    """The entities of a sentence, whatever the scheme.

    As in CoNLL's evaluation, an entity begins at B and S, after E and S, and at any tag
    of another type than the one before; so tags that break their scheme are read too.
    """
    spans: list[TaggedSpan] = []
    before = (OUTSIDE, "")
    for word, tag in enumerate(tags):
        now = parts_of(tag) or (OUTSIDE, "")
        goes_on = now[1] == before[1] and before[0] not in (OUTSIDE, *_CLOSES)
        if now[0] in _OPENS or not goes_on:
            if now[0] != OUTSIDE:
                spans.append(TaggedSpan(word, word + 1, now[1]))
        else:
            spans[-1] = spans[-1]._replace(stop=word + 1)
        before = now
    return spans


def tags_of(spans: Iterable[TaggedSpan], length: int) -> tuple[str, ...]:
    """The tags of a sentence by scheme iob2.

    Args:
      spans: apart from each other.
      length: words of the sentence.
    """
    tags = [OUTSIDE] * length
    for start, stop, kind in spans:
        tags[start:stop] = [f"B-{kind}", *[f"I-{kind}"] * (stop - start - 1)]
    return tuple(tags)


class SchemeFinder:
    """Finds the scheme of sentences that come one at a time."""

    def __init__(self):
        self.tags: set[str] = set()
        # The first break of each scheme that is no longer possible.
        self._broken: dict[str, str] = {}

    def add(self, tags: Sequence[str], where: str) -> None:
        """Takes a sentence of the record `where`."""
        self.tags.update(tags)
        for scheme in PREFIXES.keys() - self._broken.keys():
            for word, wrong in breaks(tags, scheme):
                self._broken[scheme] = f"{where!r}, word {word + 1}: {wrong}"
                break

    def scheme(self) -> str:
        """The first one that all sentences follow, or "plain".

        Raises:
          ValueError: if all tags have prefixes, and no scheme is surely followed; or if
            they look like those of entities in another spelling.
        """
        if not have_prefixes(self.tags) or self.tags <= {OUTSIDE}:
            self._refuse_other_spellings()
            return PLAIN
        for scheme in PREFIXES:
            # Tags such as U-x alone may be of anything.
            is_sure = not {*PREFIXES[scheme]} - {*"BIES"} or any(
                tag.startswith(f"B{_SEPARATOR}") for tag in self.tags
            )
            if scheme not in self._broken and is_sure:
                return scheme
        why = "; ".join(f"{k}: {why}" for k, why in self._broken.items())
        raise ValueError(
            f"the tags surely follow none of {', '.join(PREFIXES)} ({why}); say which "
            "is meant with scheme, or scheme=plain, and what breaks it is noted"
        )

    def _refuse_other_spellings(self) -> None:
        tags = self.tags - {OUTSIDE}
        for separator, is_first in itertools.product("-_", (True, False)):
            letters: dict[str, set[str]] = {}
            for tag in tags:
                parts = (tag.partition if is_first else tag.rpartition)(separator)
                letter, kind = (parts[0], parts[2]) if is_first else parts[2::-2]
                if letter in _LETTERS and kind:
                    letters.setdefault(kind, set()).add(_LETTERS[letter])
            of_entities = sum(map(len, letters.values()))
            is_whole = of_entities == len(tags) > 0 and OUTSIDE in self.tags
            if is_whole or any(of_type >= {"B", "I"} for of_type in letters.values()):
                self._refuse()
        if tags <= _LETTERS.keys() and {"B", "I"} <= {_LETTERS[x] for x in tags}:
            self._refuse()

    def _refuse(self) -> None:
        seen = ", ".join(map(repr, sorted(self.tags)[:_SHOWN]))
        raise ValueError(
            "the tags look like those of entities, but are not all written like B-PER, "
            f"the letter before a hyphen: {seen}; write them so, or give scheme=plain "
            "if they are no entities"
        )
