"""The ablation of OpenKP: its rows, its pages, and what they can and cannot tell."""

import itertools
import json

import numpy as np
import pytest

from benchmarks.rows import openkp_ablation
from benchmarks.rows.openkp_ablation import PAGES, TRAIN_SERIES
from etc_jax.data.windows.cache import WindowReader
from etc_jax.tasks.synthetic import openkp as invented

COUNT = 60


@pytest.fixture(scope="module")
def caches(tmp_path_factory):
    return openkp_ablation.make_caches(tmp_path_factory.mktemp("openkp"), COUNT, 8)


def test_every_page_is_an_input(caches):
    for cache, count in zip(caches, (COUNT, 8), strict=True):
        assert cache.num_windows == count
        assert cache.header["left_out"] == {}
        assert cache.longest["long"] < openkp_ablation.SIZES.long_length
    with open(caches[1].path.parent / "validation.jsonl") as lines:
        assert len(list(lines)) == 8


def elements_of(page):
    """(text, whether it is marked as a keyphrase) of each element, in order."""
    for node in json.loads(page["VDOM"]):
        x, _, y, *_ = look = node["feature"]
        yield f" {node['text']} ", look[8] >= 26 and x <= 300 and y <= 700


def test_the_first_of_three_occurrences_is_the_marked_one_in_a_third_of_all():
    pages = itertools.islice(invented.records(200, seed=TRAIN_SERIES, sizes=PAGES), 200)
    first = []
    for page in pages:
        elements = list(elements_of(page))
        for words in page["KeyPhrases"]:
            phrase = f" {' '.join(words)} "
            marks = [marked for text, marked in elements if phrase in text]
            assert (len(marks), sum(marks)) == (3, 1)
            first.append(marks[0])
    assert len(first) > 250
    # Four standard deviations.
    assert abs(np.mean(first) - 1 / 3) < 4 * (2 / 9 / len(first)) ** 0.5


def test_labels_of_both_losses_are_occurrences_of_the_same_keyphrases(caches):
    sizes = openkp_ablation.SIZES
    reader = WindowReader(
        [caches[0]],
        lengths={"long": sizes.long_length, "global": sizes.global_length},
        batch_size=COUNT,
        seed=0,
        evaluation=True,
    )
    labels = reader.batch_at(0)["labels"]
    for starts, places in zip(labels["start"], labels["occurrences"], strict=True):
        for bit, start in enumerate(starts):
            found = np.flatnonzero(places >> bit & 1)
            assert len(found) == (3 if start >= 0 else 0)
            assert start < 0 or start == found[0]


def test_the_best_there_can_be_is_the_arithmetic_of_the_pages(caches):
    file = caches[1].path.parent / "validation.jsonl"
    got = openkp_ablation.upper_bound(caches[1], file)
    with open(file) as lines:
        counts = [len(json.loads(line)["KeyPhrases"]) for line in lines]
    # Of n keyphrases, three guesses find all: precision n/3, recall 1.
    wanted = np.mean([2 * (n / 3) / (n / 3 + 1) for n in counts])
    assert got["F1@3"] == pytest.approx(100 * wanted)
    assert got["P@1"] == 100.0
