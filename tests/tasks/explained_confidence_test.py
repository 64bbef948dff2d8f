"""The probability of an answer as a whole, and the gold answer, of single data sets."""

import answers_page_samples as samples
import finetuned_run
import numpy as np
import pytest

from etc_jax.datasets.explained import any_of
from etc_jax.datasets.task import find_task
from etc_jax.formats.structured import StructuredSizes


def no_note(kind, message):
    raise AssertionError(f"{kind}: {message}")


def explained(task, value, logits):
    record = task.parse(value, no_note)
    windows = task.features(record, finetuned_run.tokenizer(), type(task.sizes)(24, 1))
    return task.pool_explained(task.explain(np.array([logits]), windows, None))


def softmax(logits):
    odds = np.exp(logits)
    return odds / odds.sum(0)


def test_a_label_has_its_softmax():
    task = find_task("classification", "sequence")
    task = task.with_options({"labels": ("a", "b", "c")})
    told = explained(task, {"text": "the town", "label": "c"}, [0.0, 1.0, -1.0])
    assert (told.answer, told.reference) == ("b", "c")
    assert told.confidence == pytest.approx(np.e / (1 + np.e + 1 / np.e))
    assert [(x.text, x.is_gold) for x in told.candidates] == [
        ("b", False),
        ("a", False),
        ("c", True),
    ]


def test_a_set_of_labels_has_the_product_of_its_decisions():
    task = find_task("classification", "sequence")
    task = task.with_options({"labels": ("a", "b", "c"), "multi_label": True})
    told = explained(task, {"text": "the town", "label": ["a"]}, [2.0, 1.0, -3.0])
    assert (told.answer, told.reference) == ("a, b", "a")
    p = 1 / (1 + np.exp([-2.0, -1.0, 3.0]))
    assert told.confidence == pytest.approx(p[0] * p[1] * (1 - p[2]))


@pytest.mark.parametrize("number", [0, 1])
def test_an_answer_of_hotpotqa_has_that_of_its_type_and_ends(number):
    task = find_task("hotpotqa", "structured")
    record = task.parse(samples.HOTPOT[number], no_note)
    windows = task.features(record, samples.TOKENIZER, StructuredSizes(2048, 128))
    outputs = task.gold_outputs(windows)
    outputs = outputs._replace(
        answer_type=outputs.answer_type / 20, span=outputs.span / 5
    )
    [told] = task.explain(outputs, windows, task.setting)
    labels = windows[0].labels
    wanted = softmax(outputs.answer_type[0])[labels["answer_type"]]
    if number == 0:  # the other one is "yes"
        begin, end = softmax(outputs.span[0]).T
        wanted *= begin[labels["begin"]] * end[labels["end"]]
    assert told.answer == told.reference == record.answer
    assert told.confidence == pytest.approx(wanted) and 0 < wanted < 0.95
    gold = [p.text for d in told.documents for p in d.passages if p.is_gold]
    assert len(gold) == 2


def test_many_right_answers_are_cut_short():
    assert any_of(["a", "b", "a", ""]) == "a / b"
    assert any_of(list("abcdefg")) == "a / b / c / d / e / 2 more"
