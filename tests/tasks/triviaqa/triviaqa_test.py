"""What TriviaQA tells the command lines."""

import numpy as np
import pytest
from multihop_samples import tokenizer
from triviaqa_samples import VALUE, record

from etc_jax.data.schema import stacked
from etc_jax.datasets.explained import Explained
from etc_jax.datasets.spans import Outputs
from etc_jax.formats.sequence import SequenceSizes
from etc_jax.tasks import triviaqa as tq

TQ_TASK = tq.DATA_SET.in_format()

TASK = TQ_TASK
SIZES = SequenceSizes(input_length=40, global_length=8)


@pytest.fixture
def windows():
    return TASK.features(record(), tokenizer(), SIZES, official_quirks=False)


def test_inputs_have_a_row_for_each_window(windows):
    inputs = stacked(windows * 3)
    names = ("tokens", "types", "example_ids", "global_index")
    assert {k: len(v) for k, v in inputs.items()} == dict.fromkeys(names, 3)
    # The places of the global tokens are those before the first separator.
    for row, places in zip(inputs["tokens"], inputs["global_index"], strict=True):
        real = places[places >= 0].tolist()
        pieces = tokenizer().pieces(row)
        assert real == list(range(pieces.index("[SEP]")))


def test_an_answer_is_shown_where_it_was_found(windows):
    [told] = TASK.explain(TASK.gold_outputs(windows), windows, None)
    assert isinstance(told, Explained)
    assert (told.id, told.question) == ("tc_1", VALUE["Question"])
    assert told.answer == "Ann Lee"
    assert [d.title.text for d in told.documents] == ["a.txt", "b.txt"]
    first, second = told.documents
    # Lines are passages, blank ones are left out.
    assert [p.text for p in first.passages] == [
        "The  Old Mill",
        "was owned by Ann Lee.",
    ]
    [support] = [p for p in first.passages if p.is_support]
    [(start, stop)] = support.marks
    assert support.text[start:stop] == "Ann Lee" and 0 < support.probability < 1
    assert not any(p.is_support or p.marks for p in second.passages)
    assert "Ann Lee" in told.text()


def test_an_answer_over_two_lines_is_marked_in_both(windows):
    [window] = windows
    start, end = np.zeros((2, 1, 40), np.float32)
    # "Mill" and "was" of the first document.
    start[0, 9] = end[0, 10] = 9.0
    [told] = TASK.explain(Outputs(start, end), [window], None)
    marked = [
        passage.text[slice(*mark)]
        for document in told.documents
        for passage in document.passages
        for mark in passage.marks
    ]
    assert told.answer == "Mill was" and marked == ["Mill", "was"]
