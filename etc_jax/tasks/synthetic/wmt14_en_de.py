"""WMT's pair of files: invented English sentences, and each of them in German.

    etc-jax synthetic --task=wmt14_en_de --count=10000 --split=train --out=wmt

Little is to be known, 60 words of each language, but a translation is more than word by
word: verbs stand at the end, a sentence that begins with a time has its verb before the
subject, the one who is given something stands before what is given, and articles and
adjectives follow gender and case.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import random
from collections.abc import Iterable
from typing import Any, NamedTuple

from etc_jax.base import registry, rules
from etc_jax.base.whole_files import whole_text
from etc_jax.tasks.synthetic.maker import Maker, series


class _Verb(NamedTuple):
    """Someone `past` something to someone; did someone `base` it?"""

    base: str
    past: str
    participle: str


_VERBS = (
    _Verb("sell", "sold", "verkauft"),
    _Verb("give", "gave", "gegeben"),
    _Verb("bring", "brought", "gebracht"),
    _Verb("send", "sent", "geschickt"),
    _Verb("show", "showed", "gezeigt"),
    _Verb("promise", "promised", "versprochen"),
)
# Gender -> article of a subject, and of who is given something.
_ARTICLES = {"m": ("der", "dem"), "f": ("die", "der"), "n": ("das", "dem")}
# English, German, gender.
_PEOPLE = (
    *(("baker", "Bäcker", "m"), ("king", "König", "m"), ("teacher", "Lehrer", "m")),
    *(("uncle", "Onkel", "m"), ("gardener", "Gärtner", "m")),
    *(("sister", "Schwester", "f"), ("queen", "Königin", "f"), ("aunt", "Tante", "f")),
    ("neighbour", "Nachbarin", "f"),
    *(("girl", "Mädchen", "n"), ("child", "Kind", "n")),
)
# Plurals, which are the same for an object as for a subject.
_THINGS = (
    *(("apples", "Äpfel"), ("books", "Bücher"), ("hats", "Hüte"), ("chairs", "Stühle")),
    *(("boats", "Boote"), ("rings", "Ringe"), ("maps", "Karten"), ("knives", "Messer")),
    *(("horses", "Pferde"), ("flowers", "Blumen"), ("clocks", "Uhren")),
    ("letters", "Briefe"),
)
# German without its ending.
_OF_PEOPLE = (
    *(("old", "alt"), ("young", "jung"), ("rich", "reich"), ("tired", "müd")),
    *(("small", "klein"), ("friendly", "freundlich")),
)
_OF_THINGS = (
    *(("new", "neu"), ("red", "rot"), ("heavy", "schwer"), ("beautiful", "schön")),
    *(("cheap", "billig"), ("yellow", "gelb")),
)
_NUMBERS = (
    *(("two", "zwei"), ("three", "drei"), ("four", "vier"), ("five", "fünf")),
    *(("six", "sechs"), ("seven", "sieben")),
)
_TIMES = (
    *(("yesterday", "gestern"), ("today", "heute"), ("last week", "letzte Woche")),
    *(("in the morning", "am Morgen"), ("in spring", "im Frühling")),
)


@dataclasses.dataclass(frozen=True)
class TranslationSizes:
    """How hard a sentence is.

    Attributes:
      adjectives: share of people and things that have one.
      clauses: share of sentences that begin with "The teacher says that".
    """

    adjectives: float = 0.5
    clauses: float = 0.25

    def __post_init__(self):
        rules.number(0, 1).check(adjectives=self.adjectives, clauses=self.clauses)


def _record(number: int, seed: int, sizes: TranslationSizes) -> dict[str, Any]:
    rng = random.Random(f"wmt14 {seed} {number}")
    english, german = _sentence(rng, sizes)
    return {
        "id": f"wmt14-{seed}-{number}",
        "en": english[0].upper() + english[1:],
        "de": german[0].upper() + german[1:],
    }


def _sentence(rng: random.Random, sizes: TranslationSizes) -> tuple[str, str]:
    giver, taker = rng.sample(_PEOPLE, 2)
    verb = rng.choice(_VERBS)
    who, wer = _person(rng, giver, sizes, dative=False)
    whom, wem = _person(rng, taker, sizes, dative=True)
    what, was = _things(rng, sizes)
    when, wann = rng.choice(_TIMES)
    predicate = f"{verb.past} {what} to {whom}"
    if rng.random() < sizes.clauses:
        says, sagt, gender = rng.choice(_PEOPLE)
        return (
            f"the {says} says that {who} {predicate} {when}.",
            f"{_ARTICLES[gender][0]} {sagt} sagt, dass {wer} {wem} {wann} {was} "
            f"{verb.participle} hat.",
        )
    match rng.randrange(3):
        case 0:
            return (
                f"{who} {predicate} {when}.",
                f"{wer} hat {wem} {wann} {was} {verb.participle}.",
            )
        case 1:
            return (
                f"{when} {who} {predicate}.",
                f"{wann} hat {wer} {wem} {was} {verb.participle}.",
            )
    return (
        f"did {who} {verb.base} {what} to {whom} {when}?",
        f"hat {wer} {wem} {wann} {was} {verb.participle}?",
    )


def _person(
    rng: random.Random, of: tuple[str, str, str], sizes: TranslationSizes, dative: bool
) -> tuple[str, str]:
    """With article and perhaps an adjective, in both languages."""
    english, german, gender = of
    article = _ARTICLES[gender][dative]
    if rng.random() >= sizes.adjectives:
        return f"the {english}", f"{article} {german}"
    adjective, stem = rng.choice(_OF_PEOPLE)
    end = "en" if dative else "e"
    return f"the {adjective} {english}", f"{article} {stem}{end} {german}"


def _things(rng: random.Random, sizes: TranslationSizes) -> tuple[str, str]:
    number, zahl = rng.choice(_NUMBERS)
    english, german = rng.choice(_THINGS)
    if rng.random() >= sizes.adjectives:
        return f"{number} {english}", f"{zahl} {german}"
    adjective, stem = rng.choice(_OF_THINGS)
    return f"{number} {adjective} {english}", f"{zahl} {stem}e {german}"


# As `etc_jax.tasks.wmt14_en_de.records.parse` takes them.
records = series(_record, TranslationSizes)


# --- files ----------------------------------------------------------------------------


def write_release(
    folder: str | os.PathLike, records: Iterable[dict[str, Any]], *, split: str
) -> pathlib.Path:
    """Writes sentences as WMT has them: a file of each language, line by line.

    Args:
      folder: of the files.
      records: of `records`.
      split: their name, before ".en" and ".de".

    Returns:
      The English file, which appears last.

    Raises:
      ValueError: if one is there already.
      OSError: if something cannot be written.
    """
    files = {x: pathlib.Path(folder, f"{split}.{x}") for x in ("de", "en")}
    for path in files.values():
        if path.exists():
            raise ValueError(f"{path} exists; give another folder")
    files["en"].parent.mkdir(parents=True, exist_ok=True)
    with whole_text(files["en"]) as english, whole_text(files["de"]) as german:
        for record in records:
            english.write(f"{record['en']}\n")
            german.write(f"{record['de']}\n")
    return files["en"]


MAKER = registry.register("invented_items", "wmt14_en_de")(
    Maker(
        records,
        TranslationSizes,
        splits=("train", "newstest2013", "newstest2014"),
        write_split=write_release,
    )
)
