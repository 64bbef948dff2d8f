"""Tags of entities: how prefixes mark where an entity begins and ends.

    iob1   I-X inside; B-X only where an entity follows one of its own type
    iob2   B-X for the first word, I-X for the others
    iobes  B-X, I-X, E-X for the last word, S-X for an entity of one word

O is a word of no entity. Sentences are tagged by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

OUTSIDE, PLAIN = "O", "plain"
PREFIXES = {"iob1": "BI", "iob2": "BI", "iobes": "BIES"}
_SEPARATOR = "-"
_OPENS, _CLOSES = "BS", "ES"


class TaggedSpan(NamedTuple):
    """Words of a sentence from one to another, the second not among them."""

    start: int
    stop: int
    type: str


def parts_of(tag: str) -> tuple[str, str] | None:
    """(prefix, type) of a tag; ("O", "") outside of entities; None for another tag."""
    if tag == OUTSIDE:
        return OUTSIDE, ""
    prefix, separator, kind = tag.partition(_SEPARATOR)
    is_prefixed = separator and kind and prefix in tuple("BIES")
    return (prefix, kind) if is_prefixed else None


def is_of(tag: str, scheme: str) -> bool:
    """Whether a scheme has a tag."""
    found = parts_of(tag)
    return scheme == PLAIN or (
        found is not None and found[0] in (OUTSIDE, *PREFIXES[scheme])
    )


def have_prefixes(tags: Iterable[str]) -> bool:
    """Whether all tags are of entities, O alone among them."""
    return all(parts_of(tag) is not None for tag in tags)


def full_labels(tags: Iterable[str], scheme: str) -> tuple[str, ...]:
    """All tags that a scheme has for the types of some, and O; of plain ones these."""
    if scheme == PLAIN:
        return tuple(sorted(tags))
    types = {kind for _, kind in map(parts_of, tags) if kind}
    made = {f"{prefix}-{kind}" for prefix in PREFIXES[scheme] for kind in types}
    return tuple(sorted({OUTSIDE, *made}))


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
    is_open = before[0] in ("B", "I")
    goes_on = now[0] in ("I", "E")
    if goes_on and not (is_open and same):
        return "no entity of its type is open"
    if scheme == "iobes" and is_open and not goes_on:
        return "the entity before it has no end"
    return ""


def spans_of(tags: Sequence[str]) -> list[TaggedSpan]:
    """The entities of a sentence, whatever the scheme.

    As in CoNLL's evaluation, an entity begins at B and S, after E and S, and at any tag
    of another type than the one before; so tags that break their scheme are read too.
    """
    found: list[TaggedSpan] = []
    before = (OUTSIDE, "")
    for word, tag in enumerate(tags):
        now = parts_of(tag) or (OUTSIDE, "")
        goes_on = now[1] == before[1] and before[0] not in (OUTSIDE, *_CLOSES)
        if now[0] in _OPENS or not goes_on:
            if now[0] != OUTSIDE:
                found.append(TaggedSpan(word, word + 1, now[1]))
        else:
            found[-1] = found[-1]._replace(stop=word + 1)
        before = now
    return found


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
        """The first of iob2, iob1 and iobes that all sentences follow, or "plain".

        Raises:
          ValueError: if all tags have prefixes, and no scheme is followed.
        """
        if not have_prefixes(self.tags) or self.tags <= {OUTSIDE}:
            return PLAIN
        for scheme in ("iob2", "iob1", "iobes"):
            if scheme not in self._broken:
                return scheme
        why = "; ".join(f"{k}: {self._broken[k]}" for k in PREFIXES)
        raise ValueError(
            f"the tags follow none of {', '.join(PREFIXES)} ({why}); say which is "
            "meant with scheme, and what breaks it is read as CoNLL's evaluation does"
        )
