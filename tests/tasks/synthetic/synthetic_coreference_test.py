"""Invented stories: of the official form, and followed from their words alone."""

import re

import pytest

from etc_jax.datasets.records import Problems
from etc_jax.scoring import coreference
from etc_jax.tasks.coreference import read
from etc_jax.tasks.coreference.records import Record
from etc_jax.tasks.synthetic.__main__ import main
from etc_jax.tasks.synthetic.coreference import (
    PRONOUNS,
    THINGS,
    StorySizes,
    records,
    write,
)

COUNT = 60
POSSESSIVES = {forms[2] for forms in PRONOUNS.values()}
KIND_OF = {form: kind for kind, forms in PRONOUNS.items() for form in forms}


@pytest.fixture(scope="module")
def stories() -> list[Record]:
    return list(records(COUNT, seed=1))


class Reader:
    """Says what each mention means from the words alone, one after another."""

    def __init__(self, record: Record):
        self.words = [w for s in record.sentences for w in s]
        self.person_of: dict[str, str] = {}  # by first name and by trade
        self.last: dict[str, str] = {}
        self.found: dict[str, list[tuple[int, int]]] = {}
        self._meet(" ".join(self.words))
        self._at = 0
        while self._at < len(self.words):
            self._step()

    def _meet(self, text: str) -> None:
        """Persons are brought in by name, trade and a possessive."""
        opening = r"(?:days|lived) (\w+) \w+ (?:was|,) a (\w+) , (?:and|with) (\w+)"
        for name, trade, possessive in re.findall(opening, text):
            self.person_of[name] = self.person_of[f"the {trade}"] = name
            self.last[name] = KIND_OF[possessive]  # a name is no pronoun's kind
        self.kind_of_person = dict(self.last)
        self.last = {}

    def _step(self) -> None:
        at, word = self._at, self.words[self._at]
        low, following = word.lower(), self.words[at + 1 : at + 3]
        if low in KIND_OF:
            owner = self.last[KIND_OF[low]]
            self._say(owner, at, at)
            if low in POSSESSIVES and following[0] in THINGS:
                self._say(following[0], at, at + 1)
        elif word in self.person_of:
            is_full = following[0][0].isupper()
            self._say(word, at, at + is_full)
        elif low == "the":
            self._described(at, following)
        self._at += 1

    def _described(self, at: int, following: list[str]) -> None:
        first, second = following
        if (trade := f"the {first}") in self.person_of:
            self._say(self.person_of[trade], at, at + 1)
        elif first in THINGS:
            self._say(first, at, at + 1)
        elif second in THINGS:
            self._say(second, at, at + 2)

    def _say(self, name: str, first: int, last: int) -> None:
        self.found.setdefault(name, []).append((first, last))
        self.last[self.kind_of_person.get(name, "it")] = name
        self._at = max(self._at, last)

    def clusters(self):
        return [spans for spans in self.found.values() if len(spans) > 1]


def test_files_are_read_as_they_were_made(tmp_path, stories):
    path = tmp_path / "train.v4_gold_conll"
    write(stories, path)
    problems = Problems()
    assert list(read(path, problems)) == stories
    assert problems.counts.total() == 0
    rows = [x.split() for x in path.read_text().split("\n") if x and x[0] != "#"]
    assert {len(row) for row in rows} == {13}


def test_who_keeps_track_of_the_words_finds_everything(stories):
    gold = {r.id: r.clusters for r in stories}
    found = {r.id: Reader(r).clusters() for r in stories}
    assert coreference.score(gold, found).metrics["conll_f1"] == 1.0


def test_equal_words_alone_find_little(stories):
    """All mentions, clusters by spelling: pronouns and names are to be joined."""
    found = {}
    for record in stories:
        words = [w.lower() for s in record.sentences for w in s]
        by_text = {}
        for span in (s for c in record.clusters for s in c):
            by_text.setdefault(tuple(words[span[0] : span[1] + 1]), []).append(span)
        found[record.id] = [c for c in by_text.values() if len(c) > 1]
    gold = {r.id: r.clusters for r in stories}
    assert coreference.score(gold, found).metrics["conll_f1"] < 0.6


def test_stories_have_what_makes_them_hard(stories):
    pronouns = nested = 0
    for record in stories:
        words = [w.lower() for s in record.sentences for w in s]
        spans = [s for c in record.clusters for s in c]
        pronouns += sum(a == b and words[a] in KIND_OF for a, b in spans)
        nested += sum((a, a) in spans for a, b in spans if b > a)
        assert len(record.sentences) == 23
    assert pronouns > 10 * COUNT and nested > COUNT


def test_sizes_are_kept_and_checked():
    large = StorySizes(persons=6, things=5, sentences=200)
    [story] = records(1, seed=0, sizes=large)
    assert len(story.sentences) == 206 and len(story.clusters) == 11


def test_the_command_writes_a_split_of_a_release(tmp_path, capsys):
    argv = ["--task=coreference", "--count=3", "--seed=1", "--split=test"]
    argv.append(f"--out={tmp_path}")
    assert main([*argv, "--start=2", "--sentences=5"]) == 0
    path = tmp_path / "test.english.v4_gold_conll"
    wrote, following = capsys.readouterr().out.splitlines()
    assert wrote == f"wrote 3 records to {path}"
    assert following.endswith(f"--out=prepared/{path.parent.name} {path}")
    want = records(3, seed=1, sizes=StorySizes(sentences=5), start=2)
    assert [r.id for r in read([path])] == [r.id for r in want]
    assert main([*argv, "--persons=1"]) == 2
    assert "persons must be 2 to" in capsys.readouterr().err
