"""Words that a text has from its source, against a search of every run."""

import random
import time

import pytest

from etc_jax.datasets.fragments import Mark, fragments, shared_marks


def plain_fragments(words, source, least):
    """Figure 3 of Grusky et al. 2018, without runs shorter than `least`."""
    runs, i = [], 0
    while i < len(words):
        best = (0, 0)
        for j in range(len(source)):
            length = 0
            while (
                i + length < len(words)
                and j + length < len(source)
                and words[i + length] == source[j + length]
            ):
                length += 1
            if length > best[0]:
                best = (length, j)
        length, j = best
        if length >= least:
            runs.append((i, j, length))
            i += length
        else:
            i += 1
    return runs


@pytest.mark.parametrize("least", [1, 2, 3])
def test_fragments_are_the_longest_runs_of_a_search_of_all(least):
    draw, seen = random.Random(least), 0
    for _ in range(300):
        words = draw.choices("abc", k=draw.choice([0, 1, 2, 8, 40]))
        source = draw.choices("abcd", k=draw.choice([0, 1, 3, 60]))
        found = fragments(words, source, least=least)
        assert [tuple(x) for x in found] == plain_fragments(words, source, least)
        seen += len(found)
    assert seen > 100


def test_marks_are_of_the_same_words_in_both_texts():
    passages = ["The old MILL burned.", "It was built (in Ton) by Ann Lee. It was."]
    text = "In short: the old mill burned, it was; built in Ton by Lee."
    marks, in_passages = shared_marks(text, passages)
    words = [(text[a:b], rank) for (a, b), rank in marks]
    assert words == [("the old mill burned, it was; built in Ton by", 1)]
    # A run that goes on in the next passage is marked in both.
    shown = [
        [(passage[a:b], rank) for (a, b), rank in of_passage]
        for passage, of_passage in zip(passages, in_passages, strict=True)
    ]
    assert shown == [
        [("The old MILL burned", 1)],
        [("It was built (in Ton) by", 1)],
    ]


def test_runs_that_overlap_in_the_source_are_one_mark():
    marks, [of_source] = shared_marks("b c d e x a b c d x b c d e", ["a b c d e"])
    assert [rank for _, rank in marks] == [1, 1, 1]
    assert of_source == [Mark((0, 9), 1)]


@pytest.mark.parametrize(
    "text, words",
    [
        ("Ann Lee", ["Ann Lee"]),
        ("Lee Ann", []),
        ("1790!", ["1790"]),
        ("", []),
        ("…", []),
    ],
)
def test_of_a_short_answer_all_words_are_needed(text, words):
    marks, [of_source] = shared_marks(text, ["By Ann Lee, 1790; Ann."])
    assert [text[a:b] for (a, b), _ in marks] == words
    assert len(of_source) == len(words)


def test_letters_that_grow_when_they_are_small_keep_their_place():
    passage = "İstanbul ve İzmir güzel şehirler"
    marks, [of_source] = shared_marks("x İZMIR güzel şehirler", [passage])
    assert passage[slice(*of_source[0].span)] == "İzmir güzel şehirler"
    assert marks[0].span == (2, 22)


def test_a_long_source_takes_little_time():
    draw = random.Random(0)
    names = [f"w{i}" for i in range(2000)]
    # As words of a language are: few of them often.
    source = [names[int(2000 * draw.random() ** 3)] for _ in range(16_000)]
    words = [x for i in range(50) for x in source[i * 300 : i * 300 + 20]]
    start = time.process_time()
    found = fragments(words, source)
    assert time.process_time() - start < 1.0
    assert sum(x.length for x in found) == len(words) == 1000
