"""IMDB-like reviews, which hold opinions of many and a verdict of the author's own.

    etc-jax synthetic --task=imdb --count=1000 --seed=0 --split=train --out=aclImdb

The files are those of the release: `train/pos/12_9.txt`. A review tells what others say
of a film, for it or against it without regard to the label, in the same words as the
verdict. The label is the verdict: it takes knowing which opinion is the author's, and
counting opinions is not enough. In a share of the reviews the verdict stands after all
others, too far for an input of 512 tokens.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import random
from collections.abc import Iterable, Sequence
from typing import Any

from etc_jax.base import registry, rules
from etc_jax.base.whole_files import whole_folder
from etc_jax.tasks.imdb.records import LABELS
from etc_jax.tasks.synthetic import names
from etc_jax.tasks.synthetic.maker import Maker, series
from etc_jax.tasks.synthetic.names import NameGenerator

OPINIONS = {
    "neg": "awful boring dreadful tedious clumsy hollow".split(),
    "pos": "superb gripping wonderful brilliant charming moving".split(),
}
_BEGIN = "I have seen {film}, a film that runs for a whole evening."
_VERDICTS = (
    "In the end I found it {opinion}.",
    "My own verdict is that it is {opinion}.",
    "As for me, I left the hall and thought it was {opinion}.",
    "Now that I have seen it, I call it {opinion}.",
)
_OTHERS = (
    "{person} found it {opinion}.",
    "{person} had told me that it was {opinion}.",
    "According to {person} it is {opinion}.",
    "A critic, {person}, calls it {opinion}.",
    "Before the first scene I expected it to be {opinion}.",
    "I had read somewhere that it was {opinion}.",
)
_RATINGS = {"neg": (1, 4), "pos": (7, 10)}
_PARAGRAPH_SENTENCES = 6
# A verdict that is not late is one of so many sentences after the first.
_EARLY_SENTENCES = 8
_NEW_PARAGRAPH = "<br /><br />"


@dataclasses.dataclass(frozen=True)
class ImdbSizes:
    """How long a review is, and how hard.

    Attributes:
      others: opinions of others.
      words: reviews are filled up to so many.
      late: share of reviews with the verdict after `apart` words.
      apart: words before a late verdict, at least.
    """

    others: int = 6
    words: int = 700
    late: float = 0.5
    apart: int = 600

    def __post_init__(self):
        rules.refuse(rules.at_least(0).problems(self, "others", "words", "apart"))
        rules.number(0, 1).check(late=self.late)


def _record(number: int, seed: int, sizes: ImdbSizes) -> dict[str, Any]:
    # Text seeds are hashed whole, so that neighbours have nothing in common.
    rng = random.Random(f"imdb {seed} {number}")
    label = LABELS[number % 2]
    rating = rng.randint(*_RATINGS[label])
    return {
        "id": f"syn_{seed}/{label}/{number}_{rating}",
        "text": _text(rng, label, sizes),
        "label": LABELS.index(label),
        "rating": rating,
    }


# As `etc_jax.tasks.imdb.records.parse` takes them; half of them are for their film.
records = series(_record, ImdbSizes)


def _text(rng: random.Random, label: str, sizes: ImdbSizes) -> str:
    naming = NameGenerator(rng)
    begin = _BEGIN.format(film=naming.draw("town"))
    verdict = _opinion(rng, _VERDICTS, label, naming)
    others = [
        _opinion(rng, _OTHERS, rng.choice(LABELS), naming) for _ in range(sizes.others)
    ]
    if rng.random() < sizes.late:
        sentences = [*_filled(rng, [begin, *others], sizes.apart), verdict]
        sentences = _lengthened(rng, sentences, sizes.words)
    else:
        words = sizes.words - _count([verdict])
        sentences = _filled(rng, [begin, *others], words)
        sentences.insert(rng.randint(1, _EARLY_SENTENCES), verdict)
    starts = range(0, len(sentences), _PARAGRAPH_SENTENCES)
    return _NEW_PARAGRAPH.join(
        " ".join(sentences[i : i + _PARAGRAPH_SENTENCES]) for i in starts
    )


def _opinion(
    rng: random.Random, wordings: Sequence[str], label: str, naming: NameGenerator
) -> str:
    return rng.choice(wordings).format(
        person=naming.draw("person"), opinion=rng.choice(OPINIONS[label])
    )


def _filled(rng: random.Random, sentences: Sequence[str], words: int) -> list[str]:
    """The sentences and some about nothing, in random order after the first."""
    first, *rest = _lengthened(rng, sentences, words)
    rng.shuffle(rest)
    return [first, *rest]


def _lengthened(rng: random.Random, sentences: Sequence[str], words: int) -> list[str]:
    """The sentences, and after them some about nothing."""
    sentences = list(sentences)
    while _count(sentences) < words:
        sentences.append(names.filler(rng))
    return sentences


def _count(sentences: Iterable[str]) -> int:
    """Words, by white space."""
    return sum(len(sentence.split()) for sentence in sentences)


# --- files ----------------------------------------------------------------------------


def write_release(
    folder: str | os.PathLike, records: Iterable[dict[str, Any]], *, split: str
) -> pathlib.Path:
    """Writes reviews as the release has them.

    Args:
      folder: where the folder of the split is made.
      records: of `records`.
      split: "train" or "test".

    Returns:
      The folder of the split, which appears whole or not at all.

    Raises:
      ValueError: if it is there already.
      OSError: if something cannot be written.
    """
    path = pathlib.Path(folder) / split
    if path.exists():
        raise ValueError(f"{path} exists; give another folder")
    with whole_folder(path) as part:
        for label in LABELS:
            (part / label).mkdir(parents=True)
        for record in records:
            _, label, name = record["id"].split("/")
            (part / label / f"{name}.txt").write_text(record["text"], encoding="utf-8")
    return path


MAKER = registry.register("invented_items", "imdb")(
    Maker(records, ImdbSizes, splits=("train", "test"), write_split=write_release)
)
