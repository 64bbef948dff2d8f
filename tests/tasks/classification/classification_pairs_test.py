"""Two texts with one label: their layout, and which of them is cut."""

import numpy as np
import pytest
from multihop_samples import split_at_stops, tokenizer
from tokenizer_samples import byte_bpe

from etc_jax.data.windows.token_types import QUESTION_TYPE, SENTENCE_TYPE
from etc_jax.datasets.records import BadRecordError
from etc_jax.formats.sequence import SequenceSizes
from etc_jax.formats.structured import StructuredSizes
from etc_jax.tasks.classification.explained import documents_of
from etc_jax.tasks.classification.inputs import features, kept_tokens, record_length
from etc_jax.tasks.classification.records import Record

FIRST, SECOND = "the old mill stands.", "it is old. it is the mill."


def record(text=FIRST, second=SECOND):
    return Record("a", text, second, "y", ("x", "y"))


def window(made, model, length=32):
    [found] = features(made, model, SequenceSizes(length, 1))
    return found


def tokens(found, model):
    return model.pieces(found.tokens[: found.example_ids.sum()])


def test_berts_texts_have_types_and_robertas_two_separators():
    bert = tokenizer()
    found = window(record("the old mill", "it is"), bert)
    assert tokens(found, bert) == "[CLS] the old mill [SEP] it is [SEP]".split()
    assert found.types.tolist() == [0] * 5 + [1] * 3 + [0] * 24
    roberta = byte_bpe()
    found = window(record("the cat", "the"), roberta)
    assert tokens(found, roberta) == [
        "<s>",
        "the",
        "Ġcat",
        "</s>",
        "</s>",
        "the",
        "</s>",
    ]
    assert not found.types.any()
    assert record_length(record("the cat", "the"), roberta) == 7


@pytest.mark.parametrize(
    "first, second", [(0, 5), (5, 0), (3, 9), (9, 3), (8, 8), (7, 6)]
)
@pytest.mark.parametrize("room", range(2, 18))
def test_the_longer_text_is_cut_token_by_token(first, second, room):
    want = [first, second]
    while sum(want) > room:
        want[int(want[1] >= want[0])] -= 1
    got = kept_tokens(room, [first, second])
    # Of two that are cut to the same length either may have one token more.
    assert sorted(got) == sorted(want)
    assert got[0] <= first and got[1] <= second


def test_what_is_read_of_both_is_known():
    found = window(record(), tokenizer(), length=10)
    read = [document.passages[0].text for document in documents_of(found)]
    assert read == ["the old mill stands", ".", "it is old", ". it is the mill."]
    assert (found.num_chars, found.num_second) == (19, 9)
    whole = documents_of(window(record(), tokenizer()))
    assert [x.title.text for x in whole] == ["Text", "Second text"]


def test_structured_texts_are_groups_apart():
    sizes = StructuredSizes(32, 8)
    [found] = features(
        record(),
        tokenizer(),
        sizes,
        split_fn=lambda x: [s for t in x for s in split_at_stops(t)],
    )
    first, second = 1 + 5, 4 + 5  # [CLS] is with the first
    n = first + second
    assert found.types.long[:n].tolist() == (
        [SENTENCE_TYPE] * first + [QUESTION_TYPE] * second
    )
    groups = found.structure.long_segment_ids
    assert groups[:n].tolist() == [1] * first + [2] * second and not groups[n:].any()
    assert found.structure.links[:n, 0].tolist() == [-1] + [1] * 5 + [2] * 4 + [3] * 5
    assert found.structure.global_example_ids.sum() == 4
    assert (found.num_chars, found.num_second) == (len(FIRST), len(SECOND))


def test_both_structured_texts_have_a_global_token_however_few_there_are():
    [found] = features(
        record(SECOND, SECOND),
        tokenizer(),
        StructuredSizes(12, 3),
        split_fn=lambda x: [s for t in x for s in split_at_stops(t)],
    )
    assert found.structure.links[:12, 0].tolist() == [-1] + [1] * 6 + [2] * 5
    np.testing.assert_array_equal(found.structure.global_example_ids, 1)
    assert (found.num_chars, found.num_second) == (len("it is old. it is"), 13)


@pytest.mark.parametrize("second", ["\u200b", "\ufeff"])
def test_a_text_without_a_token_is_no_pair(second):
    with pytest.raises(BadRecordError, match="no text: 'a' has no token"):
        window(record(second=second), tokenizer())


def test_lengths_without_room_for_both_are_refused():
    with pytest.raises(ValueError, match="leaves no room for a text; .* least 5"):
        window(record(), tokenizer(), length=4)
    with pytest.raises(ValueError, match="leave no room for a text; expected 3"):
        features(record(), tokenizer(), StructuredSizes(2, 8))
