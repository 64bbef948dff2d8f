"""Invented OpenKP pages: of the official form, with keyphrases that only looks show."""

import collections
import json

import pytest
from golden_data import require_shared
from openkp_samples import write_lines

from etc_jax.datasets.records import Problems
from etc_jax.scoring import openkp as scoring
from etc_jax.tasks.openkp.records import FEATURES, num_found, read
from etc_jax.tasks.synthetic.openkp import OpenkpSizes, records

COUNT = 300
X, Y, FONT = (FEATURES.index(name) for name in ("x", "y", "font_size"))


@pytest.fixture(scope="module")
def items():
    return list(records(COUNT, seed=1))


@pytest.fixture(scope="module")
def read_items(items, tmp_path_factory):
    problems = Problems()
    path = write_lines(tmp_path_factory.mktemp("openkp"), items)
    found = list(read([path], problems))
    assert not problems.counts, problems.report()
    return found


def test_fields_are_those_of_the_official_files(items):
    folder = require_shared("data/invented_samples/openkp")
    lines = (folder / "OpenKPDev.jsonl").read_text(encoding="utf-8").splitlines()
    official = json.loads(lines[0])
    nodes = json.loads(official["VDOM"])
    for item in items:
        assert set(item) == set(official)
        for node in json.loads(item["VDOM"]):
            assert set(node) == set(nodes[0])
            assert len(node["feature"]) == len(nodes[0]["feature"])
            assert {type(x) for x in node["feature"]} == {float}


def test_pages_are_read_without_a_problem_and_have_their_keyphrases(read_items):
    assert len(read_items) == COUNT
    for page in read_items:
        assert 1 <= len(page.keyphrases) <= 3
        assert num_found(page) == len(page.keyphrases)
        assert len(page.text.split(" ")) >= 200


def _capitals(words: list[str]) -> tuple[str, ...]:
    """The phrase of an element of a phrase alone."""
    return tuple(w for w in words if w not in ("About", "All", "of", "and", "more"))


def _phrases_by(page, is_key) -> set[tuple[str, ...]]:
    words = page.text.split(" ")
    return {
        _capitals(words[start:end])
        for (start, end), look in zip(page.elements, page.features, strict=True)
        if is_key(look) and words[end - 1] != "."
    }


def test_the_three_looks_together_show_the_keyphrases(read_items):
    for page in read_items:
        found = _phrases_by(
            page, lambda look: look[FONT] > 20 and look[X] < 700 and look[Y] < 2000
        )
        assert found == set(page.keyphrases)


@pytest.mark.parametrize(
    "column, limit, sign", [(FONT, 20, -1), (X, 700, 1), (Y, 2000, 1)]
)
def test_no_look_shows_them_by_itself(read_items, column, limit, sign):
    found = [
        len(_phrases_by(page, lambda look: sign * (look[column] - limit) < 0))
        for page in read_items
    ]
    keyphrases = sum(len(page.keyphrases) for page in read_items)
    assert keyphrases / sum(found) < 0.6


def test_neither_number_nor_place_in_the_text_shows_them(read_items):
    """Guessing by the text alone is near the share of keyphrases among phrases."""
    figures = collections.Counter()
    for page in read_items:
        words = page.text.split(" ")
        phrases = sorted(_phrases_by(page, lambda look: True))
        text = f" {page.text} "
        rules = {
            "most often": lambda p: -text.count(f" {' '.join(p)} "),  # noqa: B023
            "first": lambda p: text.index(f" {' '.join(p)} "),  # noqa: B023
            "longest": lambda p: -len(" ".join(p)),
        }
        assert len(words) >= 200 and len(phrases) == len(page.keyphrases) + 5
        figures["chance"] += len(page.keyphrases) / len(phrases)
        for name, key in rules.items():
            figures[name] += min(phrases, key=key) in page.keyphrases
    chance = figures.pop("chance") / COUNT
    # Four standard deviations of a share of 300 pages.
    assert all(abs(hits / COUNT - chance) < 0.11 for hits in figures.values()), figures


def test_sizes_are_kept():
    sizes = OpenkpSizes(keyphrases=(2, 2), others=0, mentions=3, words=0)
    [page] = records(1, seed=0, sizes=sizes)
    assert len(json.loads(page["VDOM"])) == 2 + 2 * 3
    gold = [{"url": page["url"], "KeyPhrases": page["KeyPhrases"]}]
    assert scoring.score(gold, gold).metrics["R@3"] == 1.0
