"""Records become inputs in the same way, whatever is asked for in which order."""

import finetuned_run
import numpy as np
import pytest

from etc_jax.datasets.records import Problems
from etc_jax.datasets.task import find_task
from etc_jax.formats.structured import StructuredSizes
from etc_jax.prediction.inputs import (
    RecordReader,
    make_input,
    tokenizer_of,
    told_of_cuts,
)
from etc_jax.tasks import wikihop
from etc_jax.training.errors import UserError

WIKIHOP_TASK = wikihop.DATA_SET.in_format()

NAME, LENGTHS = "wikihop", finetuned_run.LENGTHS["wikihop"]
BATCHES = ((0, 1), (2, 5), (9,))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    finetuned_run.tokenizer().save(path)
    return path.read_bytes()


@pytest.fixture
def files(tmp_path):
    """Two files; of eleven records the fourth cannot be read."""
    records = finetuned_run.records(NAME, 11)
    records[3] = {"id": "broken"}
    return [
        finetuned_run.write(tmp_path / "a.json", records[:6]),
        finetuned_run.write(tmp_path / "b.json", records[6:]),
    ]


def reader(files, saved):
    return RecordReader(
        find_task(NAME), files, tokenizer_json=saved, lengths=LENGTHS, batches=BATCHES
    )


def test_batches_hold_the_records_that_can_be_read(files, saved):
    readable = list(wikihop.records.read(files, Problems()))
    assert len(readable) == 10
    made = reader(files, saved)
    for step, numbers in enumerate(BATCHES):
        got = made.batch_at(step)
        assert [x.id for x in got] == [readable[n].id for n in numbers]
        for x, number in zip(got, numbers, strict=True):
            [want] = wikihop.choice_inputs.features(
                readable[number], finetuned_run.tokenizer(), StructuredSizes(*LENGTHS)
            )
            [got_window] = x.windows
            np.testing.assert_array_equal(got_window.tokens.long, want.tokens.long)


WORDS = "who " * 18


LABELLED = {"text": WORDS, "label": "x"}
LABELS = {"labels": ("x", "y")}
ASKED = {"id": "a", "question": "who " * 7, "context": WORDS}
PREFIXED = {"input": WORDS, "prefix": "who who who who"}
PAIR = {"query": WORDS, "passage": "who"}


@pytest.mark.parametrize(
    "name, format, sizes, options, value, cut",
    [
        # [CLS] and [SEP] with the 18 words; of written targets an end token alone.
        ("classification", "sequence", (16, 1), LABELS, LABELLED, ("records", 20, 16)),
        ("classification", "sequence", (20, 1), LABELS, LABELLED, None),
        *(
            ("text_to_text", "text_to_text", sizes, options, value, cut)
            for sizes, options, value, cut in [
                ((16, 4), {}, {"input": WORDS}, ("records", 19, 16)),
                ((19, 4), {}, {"input": WORDS}, None),
                ((19, 4), {"begin_token": True}, {"input": WORDS}, ("records", 20, 19)),
                ((40, 4), {"prefix_length": 4}, PREFIXED, ("prefixes", 5, 4)),
            ]
        ),
        # The context is cut into windows, that have all of it.
        (
            *("squad", "sequence", (16, 6), {"question_tokens": 5, "stride": 4}),
            *(ASKED, ("questions", 7, 5)),
        ),
        (
            "retrieval",
            "sequence",
            (40, 1),
            {"query_length": 8},
            PAIR,
            ("queries", 20, 8),
        ),
    ],
)
def test_what_has_no_room_is_told(name, format, sizes, options, value, cut):
    task = find_task(name, format).with_options(options)
    record = task.parse(value, lambda kind, message: None)
    sizes = type(task.sizes)(*sizes)
    made = make_input(task, record, finetuned_run.tokenizer(), sizes)
    assert (len(made.windows) == 1) == (name != "squad")
    if cut is None:
        assert made.cut == {} and told_of_cuts([made.cut]) == []
        return
    what, tokens, room = cut
    assert made.cut == {what: (tokens, room)}
    assert told_of_cuts([made.cut, {}]) == [
        f"1 of 2 {what} have more than the {room} tokens that the model reads, up to "
        f"{tokens}; they were cut"
    ]


def test_an_earlier_batch_can_be_asked_for_again(files, saved):
    made = reader(files, saved)
    first = [x.id for x in made.batch_at(0)]
    made.batch_at(2)
    assert [x.id for x in made.batch_at(0)] == first


def test_files_that_shrink_meanwhile_are_named(files, saved):
    made = reader(files, saved)
    made.batch_at(0)
    with open(files[1], "w") as file:
        file.write("[]")
    with pytest.raises(UserError, match="had a record 9, and have only 5 now"):
        made.batch_at(2)


def test_a_record_that_does_not_fit_is_an_input_without_a_window(files, saved):
    record = next(wikihop.records.read(files[:1]))
    got = make_input(WIKIHOP_TASK, record, tokenizer_of(saved), StructuredSizes(4, 4))
    assert got.windows == () and got.id == record.id
    kind, message = got.problem
    assert kind == "too large" and repr(record.id) in message
