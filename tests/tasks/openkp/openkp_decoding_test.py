import json

import numpy as np
from multihop_samples import tokenizer
from openkp_samples import record

from etc_jax.datasets.task import find_task
from etc_jax.formats.structured import StructuredSizes
from etc_jax.ops.ngrams import NO_NGRAM
from etc_jax.scoring import openkp as scoring
from etc_jax.tasks.openkp.decoding import (
    best_phrases,
    gold_outputs,
    official,
    official_gold,
)
from etc_jax.tasks.openkp.inputs import features

TASK = find_task("openkp")
SIZES = StructuredSizes(long_length=30, global_length=6)
WORDS = "Old Mill , the OLD mill burned".split(" ")


def logits(**runs: float) -> np.ndarray:
    """Of runs named as `at_3_for_2`: two words from word 3 on."""
    found = np.full((5, 12), NO_NGRAM)
    found[0, : len(WORDS)] = 0.0
    for name, value in runs.items():
        _, start, _, length = name.split("_")
        found[int(length) - 1, int(start)] = value
    return found


def windows(*changes):
    records = [record(**c) for c in changes]
    return [w for r in records for w in features(r, tokenizer(), SIZES)]


def test_the_best_runs_are_phrases_in_lower_case_without_repeats():
    got = best_phrases(
        logits(at_6_for_1=1, at_4_for_2=9, at_0_for_2=8, at_3_for_3=7), WORDS
    )
    assert got == [
        ["old", "mill"],
        ["the", "old", "mill"],
        ["burned"],
        ["old"],
        ["mill"],
    ]


def test_of_equal_runs_the_shorter_and_earlier_comes_first():
    got = best_phrases(logits(at_3_for_2=0.0), WORDS, most=9)
    assert got == [[w] for w in ("old", "mill", ",", "the", "burned")] + [
        ["the", "old"]
    ]


def test_runs_beyond_the_text_and_blank_ones_are_no_phrases():
    words = ["", "", "a"]
    assert best_phrases(np.ones((5, 12)), words) == [["a"], ["", "a"], ["", "", "a"]]


def test_runs_that_are_none_are_not_predicted():
    assert best_phrases(np.full((5, 12), NO_NGRAM), WORDS) == []
    assert best_phrases(logits(), ["Old", "Mill"]) == [["old"], ["mill"]]


def test_no_more_than_a_hundred_runs_are_looked_at():
    words = ["a"] * 120 + ["b"]
    found = np.full((5, 130), NO_NGRAM)
    found[0, :120], found[0, 120] = 2.0, 1.0
    assert best_phrases(found, words) == [["a"]]
    found[0, 99] = 0.0
    assert best_phrases(found, words) == [["a"]]
    found[0, 20:120] = 0.0
    assert best_phrases(found, words) == [["a"], ["b"]]


def test_each_window_has_its_phrases_by_url():
    made = windows({"url": "a"}, {"url": "b", "texts": ("Ton", "New York")})
    outputs = np.full((2, 5, 30), NO_NGRAM)
    outputs[0, 1, 0] = outputs[1, 1, 1] = 1.0
    got = TASK.answers(outputs, made)
    assert got["a"][0] == ["old", "mill"] and got["b"][0] == ["new", "york"]
    assert TASK.decode(outputs, made, (None,)) == [[got["a"]], [got["b"]]]


def test_the_file_is_a_line_a_page_that_the_scorer_reads(tmp_path):
    given = {"a": [["old", "mill"], ["ton"]], "b": []}
    TASK.write(given, tmp_path / "p.jsonl")
    lines = (tmp_path / "p.jsonl").read_text().splitlines()
    assert json.loads(lines[0]) == {
        "url": "a",
        "KeyPhrases": [["old", "mill"], ["ton"]],
    }
    gold = [{"url": "a", "KeyPhrases": [["Ton"]]}, {"url": "b", "KeyPhrases": [["x"]]}]
    got = scoring.score(gold, list(map(json.loads, lines)))
    assert got == scoring.score(gold, official(given)) and got.metrics["R@3"] == 0.5


def test_gold_is_what_the_record_has():
    assert official_gold(record(phrases=["new york", "Ton"])) == {
        "url": "http://x.org/mill",
        "KeyPhrases": [["new", "york"], ["Ton"]],
    }


def test_labels_as_outputs_give_the_keyphrases_back_in_their_order():
    made = windows({"phrases": ["Ton", "country of", "new york", "MILL"]})
    [got] = TASK.answers(gold_outputs(made), made).values()
    assert got[:3] == [["ton"], ["country", "of"], ["mill"]]
