"""Queries that are taken out of long passages."""

import json

import pytest

from etc_jax.cli.corpora import main
from etc_jax.data.text.cloze import Cloze, pairs
from etc_jax.data.text.corpus import Document
from etc_jax.data.text.long_texts import in_words
from etc_jax.data.text.sources import read_documents
from etc_jax.tasks.retrieval import DATA_SET


def book(name, count, words=10):
    """A document of so many paragraphs, no two of which are alike."""
    paragraphs = (
        " ".join(f"{name}{i}x{j}" for j in range(words if i % 3 else 4))
        for i in range(count)
    )
    return Document(name, tuple(paragraphs))


BOOKS = [book("a", 40), book("b", 7), book("c", 1)]


def made(**changes):
    cloze = Cloze(**{"length": 60, "least": 5, **changes})
    return list(pairs(BOOKS, in_words, cloze))


@pytest.mark.parametrize("queries", [1, 3])
def test_passages_and_queries_are_the_documents(queries):
    """A passage has what its queries lack, and no paragraph is lost."""
    every = made(queries=queries)
    found = {}
    for pair in every:
        document, number, _ = pair.id.rsplit("-", 2)
        rest, drawn = found.setdefault((document, int(number)), (pair.passage, []))
        assert pair.passage == rest and pair.query not in rest.split("\n\n")
        drawn.append(pair.query)
    assert {len(drawn) for _, drawn in found.values()} == {queries}
    # Of 60 words: 7 paragraphs of 4 or 10; the last document has one and gives none.
    assert [key for key in found if key[0] != "a"] == [("b", 0)]
    for document in BOOKS[:2]:
        there = [x for key, x in found.items() if key[0] == document.name]
        whole = {x for rest, drawn in there for x in (*rest.split("\n\n"), *drawn)}
        assert whole == {*document.paragraphs}
    sizes = [len(f"{rest} {' '.join(drawn)}".split()) for rest, drawn in found.values()]
    assert max(sizes) <= 60 and min(len(x.query.split()) for x in every) >= 5


def test_queries_stand_behind_and_seeds_differ():
    order = {p: i for d in BOOKS for i, p in enumerate(d.paragraphs)}
    for pair in made(after=40):
        first = order[pair.passage.split("\n\n")[0]]
        paragraphs = next(d for d in BOOKS if pair.query in d.paragraphs).paragraphs
        before = paragraphs[first : order[pair.query]]
        assert sum(len(x.split()) for x in before) >= 40
    assert made() == made() != made(seed=1)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"queries": 0}, "queries is 0; expected"),
        ({"after": 58}, "after is 58 and least 5, more than length = 60"),
        ({"least": 11}, "no passage of 60 has a paragraph of 11 or more"),
    ],
)
def test_what_cannot_be_is_named(changes, message):
    with pytest.raises(ValueError, match=message):
        made(**changes)


def test_the_command_writes_what_retrieval_reads(tmp_path, capsys):
    books, out = tmp_path / "books.jsonl", tmp_path / "pairs.jsonl.gz"
    rows = ({"id": d.name, "text": "\n\n".join(d.paragraphs)} for d in BOOKS)
    books.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    argv = ["cloze", "--length=60", "--least=5", "--queries=2", f"--out={out}"]
    assert main([*argv, str(books)]) == 0
    records = list(DATA_SET.read([out]))
    said = capsys.readouterr().out
    assert f"{len(records)} queries of {len(records) // 2} passages" in said
    source = list(read_documents(str(books)))
    want = pairs(source, in_words, Cloze(length=60, least=5, queries=2))
    assert [(x.id, x.query, x.passage) for x in records] == [
        (x.id, x.query, x.passage) for x in want
    ]
    assert main([*argv, str(books)]) == 2 and "exists" in capsys.readouterr().err
    sides = []
    for split in ("train", "validation"):
        side = tmp_path / f"{split}.jsonl"
        given = [f"--out={side}", f"--split={split}", "--validation=0.5"]
        assert main([*argv[:4], *given, str(books)]) == 0
        sides.append({x.id for x in DATA_SET.read([side])})
    assert (
        sides[0]
        and sides[1]
        and sorted(sides[0] | sides[1]) == sorted(x.id for x in records)
    )
