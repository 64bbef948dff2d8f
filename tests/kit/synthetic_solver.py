"""Answers questions about invented worlds by taking templates apart."""

import re
from typing import NamedTuple

from etc_jax.tasks.synthetic import paths, schema

_NAME = r"(?:Mask\d\d|[A-Z][a-z]+(?: [A-Z][a-z]+)?)"
_PRONOUN = r"[Hh]e|[Ss]he|[Tt]he (?:company|town|region)"
_ANY = r".+"


def _pattern(template: str, **slots: str) -> re.Pattern:
    """A regular expression of a template, whose slots become named groups."""
    parts = re.split(r"\{(\w*)\}", template)
    for at in range(1, len(parts), 2):
        name = parts[at] or "x"
        parts[at] = f"(?P<{name}>{slots[name]})"
    parts[::2] = map(re.escape, parts[::2])
    return re.compile("".join(parts))


_STATEMENTS = [
    (
        relation.name,
        _pattern(
            statement,
            s=f"{_NAME}|{_PRONOUN}",
            o=r"\d{4}" if relation.target == schema.YEAR else _NAME,
        ),
    )
    for relation in schema.RELATIONS
    for statement in relation.statements
]
_PHRASES = [
    (relation.name, _pattern(phrase, x=_ANY))
    for relation in schema.RELATIONS
    for phrase in relation.phrases
]
_QUESTIONS = [
    (relation.name, _pattern(question, x=_ANY))
    for relation in schema.RELATIONS
    for question in relation.questions
]
_SAME = [
    (relation.name, _pattern(relation.same, x=_NAME, y=_NAME))
    for relation in schema.RELATIONS
    if relation.same
]
_WHICH_FIRST = [
    (relation.name, re.compile(frame % re.escape(relation.event)))
    for relation in schema.RELATIONS
    if relation.event
    for frame in (
        rf"(?:Who|Which \w+) %s (?P<order>\w+), (?P<x>{_NAME}) or (?P<y>{_NAME})\?",
        rf"Of (?P<x>{_NAME}) and (?P<y>{_NAME}), (?:who|which \w+) %s (?P<order>\w+)\?",
    )
]


class Told(NamedTuple):
    """A fact and the sentence that states it."""

    value: str
    place: tuple[str, int]


def stated(text: str) -> list[tuple[str, str, str]]:
    """All (relation, subject, value) that a sentence can be read as."""
    matches = ((name, pattern.fullmatch(text)) for name, pattern in _STATEMENTS)
    return [(name, match["s"], match["o"]) for name, match in matches if match]


def read(documents: list[tuple[str, list[str]]]) -> dict[tuple[str, str], Told]:
    """(relation, subject) -> what (title, sentences) tell of it."""
    facts = {}
    for title, sentences in documents:
        for place, sentence in enumerate(sentences):
            readings = stated(sentence.strip())
            assert len(readings) < 2, f"{sentence!r} says {readings}"
            for relation, subject, value in readings:
                if re.fullmatch(_PRONOUN, subject):
                    subject = title
                assert (relation, subject) not in facts
                facts[relation, subject] = Told(value, (title, place))
    return facts


def _ask(facts, relation: str, subject: str, places: list) -> str | None:
    told = facts.get((relation, subject))
    if told is None:
        return None
    places.append(told.place)
    return told.value


def _resolve(text: str, facts, patterns) -> list[tuple[str, list]]:
    """All (value, places of the facts on the way) of a phrase or question."""
    found = []
    for relation, pattern in patterns:
        match = pattern.fullmatch(text)
        if not match:
            continue
        inner = match["x"]
        starts = [(inner, [])] if re.fullmatch(_NAME, inner) else []
        for subject, places in starts or _resolve(inner, facts, _PHRASES):
            way = list(places)
            if (value := _ask(facts, relation, subject, way)) is not None:
                found.append((value, way))
    return found


def _match(question: str, patterns):
    return [(n, m) for n, p in patterns if (m := p.fullmatch(question))]


def answer_hotpotqa(record) -> tuple[str, list[list]]:
    """(answer, supporting facts) of a HotpotQA record; exactly one reading each."""
    facts = read(record["context"])
    question, places = record["question"], []
    if found := _match(question, _SAME):
        ((relation, match),) = found
        values = [_ask(facts, relation, match[side], places) for side in "xy"]
        return ("yes" if values[0] == values[1] else "no"), list(map(list, places))
    if found := _match(question, _WHICH_FIRST):
        ((relation, match),) = found
        years = {
            match[side]: int(_ask(facts, relation, match[side], places))
            for side in "xy"
        }
        pick = max if match["order"] == "later" else min
        return pick(years, key=years.get), list(map(list, places))
    ((value, way),) = _resolve(question, facts, _QUESTIONS)
    return value, list(map(list, way))


def documents_of(record) -> list[tuple[str, list[str]]]:
    """(name of the entity, sentences) of the supports of a WikiHop record."""
    split = [re.split(r"(?<=\.) ", support) for support in record["supports"]]
    return [(re.match(_NAME, sentences[0])[0], sentences) for sentences in split]


def answer_wikihop(record) -> str:
    """The end of the way that the query's relation describes."""
    facts = read(documents_of(record))
    lower = {(r, s.lower()): told.value.lower() for (r, s), told in facts.items()}
    name, _, subject = record["query"].partition(" ")
    for relation in paths.path_of_name(name):
        subject = lower[relation.name, subject]
    return subject
