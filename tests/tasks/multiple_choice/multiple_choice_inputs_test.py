"""Questions with options as a sequence for each option, and as WikiHop's inputs."""

import dataclasses

import multihop_samples
import numpy as np
import pytest

from etc_jax.datasets import choice_inputs
from etc_jax.datasets.choices import pool, rated
from etc_jax.datasets.decoding import with_records
from etc_jax.datasets.records import BadRecordError
from etc_jax.formats.sequence import SequenceSizes
from etc_jax.formats.structured import StructuredSizes
from etc_jax.tasks.multiple_choice import inputs, structured
from etc_jax.tasks.multiple_choice.decoding import pool_explained
from etc_jax.tasks.multiple_choice.inputs import ChoiceOptions
from etc_jax.tasks.multiple_choice.records import Record
from etc_jax.tasks.wikihop import records as wikihop_records

TOKENIZER = multihop_samples.tokenizer()
RECORD = Record(
    id="q",
    question="who was first  of the mill",
    options=("ann lee", "a baker", "town"),
    article="ann lee was a baker. she owned in ton.",
    title="",
    label=0,
    is_hard=False,
)
HEAD = "[CLS] who was first of the mill".split()
TEXT = "ann lee was a baker . she owned in ton .".split()


def sequence(length=40, g=4, record=RECORD, **options):
    made = ChoiceOptions(most_options=4, **options)
    return inputs.features(record, TOKENIZER, SequenceSizes(length, g), options=made)


def pieces(window, option):
    ids = window.tokens[:, option][window.example_ids[:, option] > 0]
    return TOKENIZER.pieces(ids)


def test_each_option_is_a_sequence_with_the_question_first():
    [window] = sequence()
    for number, option in enumerate(RECORD.options):
        want = [*HEAD, *option.split(), "[SEP]", *TEXT, "[SEP]"]
        assert pieces(window, number) == want
        types = window.types[: len(want), number].tolist()
        head = want.index("[SEP]") + 1
        assert types == [0] * head + [1] * (len(want) - head)
    # Nothing is where there is no option.
    assert not window.example_ids[:, 3].any() and not window.tokens[:, 3].any()
    assert window.is_candidate.tolist() == [True, True, True, False]
    # As many of the first tokens are global as there are places.
    assert window.global_index.tolist() == [[i, i, i, -1] for i in range(4)]
    wide = sequence(g=12)[0].global_index
    assert wide[:, 0].tolist() == [*range(9), -1, -1, -1]
    assert wide[:, 2].tolist() == [*range(8), -1, -1, -1, -1]
    assert window.labels["candidate"] == 0 and window.unusable is None


def test_only_the_article_is_cut():
    [window] = sequence(length=14)
    assert pieces(window, 0) == [*HEAD, "ann", "lee", "[SEP]", *TEXT[:3], "[SEP]"]
    # All options read the same of it.
    assert pieces(window, 2) == [*HEAD, "town", "[SEP]", *TEXT[:3], "[SEP]"]
    with pytest.raises(BadRecordError, match="8 tokens leave no room for the article"):
        sequence(length=11)


def test_a_long_article_goes_on_in_further_windows_if_wanted():
    windows = sequence(length=14, split_article=True)
    parts = [pieces(window, 1)[len(HEAD) + 3 : -1] for window in windows]
    assert parts == [TEXT[0:3], TEXT[3:6], TEXT[6:9], TEXT[9:]]
    assert all(window.labels["candidate"] == 0 for window in windows)
    # The mean of the scores decides; what a record has not does not.
    logits = np.zeros((4, 4))
    logits[0], logits[1:, 1], logits[:, 3] = [4, 0, 0, 0], 1.5, 99
    assert pool(rated(logits, windows)) == 2
    told = pool_explained(with_records(rated)(logits, windows))
    assert (told.answer, told.prediction, told.reference) == ("a baker", 2, "ann lee")
    assert sum(x.probability for x in told.candidates) == pytest.approx(1)
    assert [x.text for x in told.candidates] == ["a baker", "ann lee", "town"]
    want = np.exp([4.5 / 4, 1, 0]) / np.exp([4.5 / 4, 1, 0]).sum()
    got = [x.probability for x in told.candidates]
    np.testing.assert_allclose(got, want)


def test_more_options_than_there_is_room_for_are_named():
    record = dataclasses.replace(RECORD, options=tuple("abcde"))
    with pytest.raises(
        BadRecordError, match="has 5, .* give the option most_options=5"
    ):
        sequence(record=record)
    for name in ("question", "article"):
        record = dataclasses.replace(RECORD, **{name: "\u200b"})
        with pytest.raises(BadRecordError, match=f"the {name} of 'q' has no token"):
            sequence(record=record)
    record = dataclasses.replace(RECORD, options=("a", "\u200b"))
    with pytest.raises(BadRecordError, match="has one without a token"):
        sequence(record=record)


def test_structured_inputs_are_those_of_wikihop():
    split = multihop_samples.split_at_stops
    sizes = StructuredSizes(48, 24)
    [got] = structured.features(RECORD, TOKENIZER, sizes, split_fn=split)
    query = wikihop_records.Record(
        id="q",
        query=RECORD.question,
        documents=(RECORD.article,),
        candidates=RECORD.options,
        answer="ann lee",
        label=0,
    )
    [want] = choice_inputs.features(query, TOKENIZER, sizes, split_fn=split)
    for name, array in want.arrays().items():
        np.testing.assert_array_equal(got.arrays()[name], array, name)
    assert got.record is RECORD and got.labels["candidate"] == 0
    assert got.is_candidate.sum() == 3
    logits = np.where(got.is_candidate, [0, 0, 3, *[9] * 21], 9.0)[None]
    assert pool(rated(logits, [got])) == 3
    with pytest.raises(BadRecordError, match="too large"):
        structured.features(RECORD, TOKENIZER, StructuredSizes(8, 24), split_fn=split)
