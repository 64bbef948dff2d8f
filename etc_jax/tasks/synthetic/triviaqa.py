"""TriviaQA-like items: a question, long documents, and the names of an answer.

    etc-jax synthetic --task=triviaqa --count=1000 --seed=0 --split=train --out=trivia

The files are those of the release's Wikipedia track: `qa/wikipedia-train.json`, and
below `evidence/wikipedia` a text for each document. A question asks for what a relation
leads to in an invented world. The document that tells it begins with sentences about
nothing, and names the answer more than once, now and then by a part of its name.
All others do the same with answers of their own, so that neither places nor numbers of
names give the answer away.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import random
from collections.abc import Iterable
from typing import Any

from etc_jax.base import registry
from etc_jax.base.rules import at_least, refuse
from etc_jax.base.whole_files import whole
from etc_jax.scoring.triviaqa import normalize
from etc_jax.tasks.synthetic import names, paths, telling, worlds
from etc_jax.tasks.synthetic.maker import Maker, series
from etc_jax.tasks.synthetic.telling import WorldDocument, WorldSentence
from etc_jax.tasks.synthetic.worlds import Entity, WorldSizes
from etc_jax.tasks.triviaqa.records import WIKIPEDIA

_PARAGRAPH_SENTENCES = 6


@dataclasses.dataclass(frozen=True)
class TriviaqaSizes(WorldSizes):
    """How large an item is, and how hard.

    Attributes:
      contexts: documents of a question.
      hops: as for all; most real questions are of one.
      apart: words about nothing after a document's first sentence.
      mentions: how often a document names each of its values once more.
    """

    contexts: int = 4
    hops: tuple[int, int] = (1, 1)
    apart: int = 150
    mentions: int = 2

    def __post_init__(self):
        super().__post_init__()
        refuse(at_least(0).problems(self, "apart", "mentions"))


def _record(number: int, seed: int, sizes: TriviaqaSizes) -> dict[str, Any]:
    # Text seeds are hashed whole, so that neighbours have nothing in common.
    rng = random.Random(f"triviaqa {seed} {number}")
    path = paths.random_path(rng, sizes, end_in_year=False)
    world, chain = worlds.world_with_chain(rng, sizes, path)
    question = telling.question_along(rng, sizes, path, chain[0])
    documents = telling.write_documents(rng, sizes, world)
    for document in documents:
        _add_mentions(rng, document, sizes.mentions)
        telling.set_apart(rng, document, sizes.apart)
    telling.pad(rng, documents, world, sizes.words)
    return {
        "Question": question,
        "QuestionId": f"syn_{seed}_{number}",
        "QuestionSource": "http://example.org/synthetic",
        "Answer": _answer(chain[-1]),
        "Documents": [_page(f"{seed}_{number}", document) for document in documents],
    }


# Documents are in the questions, as `etc_jax.tasks.triviaqa.records.parse` takes them.
records = series(_record, TriviaqaSizes)


def _page(item: str, document: WorldDocument) -> dict[str, Any]:
    title = document.entity.name
    return {
        "DocSource": "Synthetic",
        # Names come up again in other worlds.
        "Filename": f"{item}_{title.replace(' ', '_')}.txt",
        "Title": title,
        "Text": _text(document),
    }


def _add_mentions(rng: random.Random, document: WorldDocument, mentions: int) -> None:
    """Names each value of the document in sentences that state nothing."""
    values = [s.fact.value for s in document.sentences if s.fact]
    for value in values:
        # Years have no other names, and are no answers.
        for _ in range(mentions if isinstance(value, Entity) else 0):
            text = names.filler(rng, rng.choice(_spellings(value)))
            index = rng.randint(1, len(document.sentences))
            document.sentences.insert(index, WorldSentence(text))


def _spellings(entity: Entity) -> list[str]:
    """What texts call an entity: the name, and the part that no other name has."""
    words = entity.name.split()
    part = words[-1] if entity.kind == "person" else words[0]
    return [entity.name, part] if len(words) > 1 else [entity.name]


def _answer(entity: Entity) -> dict[str, Any]:
    aliases = [*_spellings(entity), f"{entity.name} ({entity.kind})"]
    return {
        "Aliases": aliases,
        "MatchedWikiEntityName": entity.name,
        "NormalizedAliases": [normalize(alias) for alias in aliases],
        "NormalizedMatchedWikiEntityName": normalize(entity.name),
        "NormalizedValue": normalize(entity.name),
        "Type": "WikipediaEntity",
        "Value": entity.name,
    }


def _text(document: WorldDocument) -> str:
    sentences = [sentence.text for sentence in document.sentences]
    starts = range(0, len(sentences), _PARAGRAPH_SENTENCES)
    return "\n\n".join(
        " ".join(sentences[i : i + _PARAGRAPH_SENTENCES]) for i in starts
    )


# --- files ----------------------------------------------------------------------------


def write_release(
    folder: str | os.PathLike, records: Iterable[dict[str, Any]], *, split: str
) -> pathlib.Path:
    """Writes questions and documents as the release of the Wikipedia track has them.

    Args:
      folder: where `qa` and `evidence` are, or are made.
      records: of `records`.
      split: "train" or "dev".

    Returns:
      The file of the questions, which appears whole or not at all.

    Raises:
      ValueError: if the questions are there already, or a document with other text.
      OSError: if something cannot be written.
    """
    folder = pathlib.Path(folder)
    evidence = folder / "evidence" / "wikipedia"
    path = folder / "qa" / f"wikipedia-{split}.json"
    if path.exists():
        raise ValueError(f"{path} exists; give another folder")
    for parent in (evidence, path.parent):
        parent.mkdir(parents=True, exist_ok=True)
    tail = {"Domain": WIKIPEDIA, "Split": split, "VerifiedEval": False, "Version": 1.0}
    with whole(path) as part, open(part, "w", encoding="utf-8") as file:
        file.write('{"Data": [')
        between = "\n"
        for record in records:
            question = _without_texts(record, evidence)
            file.write(between + json.dumps(question, ensure_ascii=False))
            between = ",\n"
        # As in the release, what the file is stands after the questions.
        file.write(f"\n], {json.dumps(tail)[1:]}\n")
    return path


def _without_texts(record: dict[str, Any], evidence: pathlib.Path) -> dict[str, Any]:
    """The question as the release has it; its texts become files."""
    pages = []
    for document in record["Documents"]:
        page = dict(document)
        path, text = evidence / page["Filename"], page.pop("Text")
        if path.exists() and path.read_text(encoding="utf-8") != text:
            raise ValueError(f"{path} has other text; give another folder or --seed")
        path.write_text(text, encoding="utf-8")
        pages.append(page)
    question = {k: x for k, x in record.items() if k != "Documents"}
    return {**question, "EntityPages": pages}


MAKER = registry.register("invented_items", "triviaqa")(
    Maker(records, TriviaqaSizes, splits=("train", "dev"), write_split=write_release)
)
