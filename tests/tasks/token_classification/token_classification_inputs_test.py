"""Words as windows: each is predicted once, where its first piece stands."""

import itertools
import random

import multihop_samples
import numpy as np
import pytest
import tokenizers

from etc_jax.data.tokenizers.byte_bpe import ByteBpeTokenizer
from etc_jax.datasets.records import BadRecordError
from etc_jax.formats.sequence import SequenceSizes
from etc_jax.formats.structured import StructuredSizes
from etc_jax.tasks.token_classification import inputs
from etc_jax.tasks.token_classification.decoding import pool, tag_runs
from etc_jax.tasks.token_classification.document import Record
from etc_jax.tasks.token_classification.records import TokenClassificationOptions, parse
from etc_jax.tasks.token_classification.windows import cut

TOKENIZER = multihop_samples.tokenizer()
LABELS = ("B-x", "I-x", "O")
# "mills" has two pieces, and a zero-width space none.
SENTENCES = (("the", "mills", "\u200b"), ("old", "town"), ("mills", "burned", "."))
TAGS = (("O", "B-x", "I-x"), ("O", "B-x"), ("B-x", "O", "O"))
RECORD = Record("r", SENTENCES, TAGS, LABELS)


def sequence(record=RECORD, length=24, **options):
    return inputs.features(
        record,
        TOKENIZER,
        SequenceSizes(length, 1),
        options=TokenClassificationOptions(**options),
    )


def pieces(ids):
    return TOKENIZER.pieces(ids)


def test_a_record_that_fits_is_one_input():
    [window] = sequence()
    want = "[CLS] the mill ##s [MASK] old town mill ##s burned . [SEP]".split()
    assert pieces(window.tokens[:12]) == want and not window.tokens[12:].any()
    assert window.example_ids.sum() == 12 and window.global_index.tolist() == [0]
    # The first piece of a word has its tag, and others none.
    b, i, o = range(3)
    tags = [-1, o, b, -1, i, o, b, b, -1, o, o, -1]
    assert window.labels["tags"][:12].tolist() == tags
    assert (window.labels["tags"][12:] == -1).all()
    assert window.first_pieces.tolist() == [1, 2, 4, 5, 6, 7, 9, 10]


def test_all_pieces_can_learn_the_tag():
    [window] = sequence(all_pieces=True)
    b, i, o = range(3)
    tags = [-1, o, b, b, i, o, b, b, b, o, o, -1]
    assert window.labels["tags"][:12].tolist() == tags
    assert window.first_pieces.tolist() == [1, 2, 4, 5, 6, 7, 9, 10]


def test_windows_end_with_sentences_where_they_can():
    windows = sequence(length=9)  # room for 7 pieces: the first two sentences have 6
    assert [w.words for w in windows] == [range(5), range(5, 8)]
    assert [list(w.labels["tags"][w.first_pieces]) for w in windows] == [
        [2, 0, 1, 2, 0],
        [0, 2, 2],
    ]


def test_context_is_read_and_not_learnt():
    first, second = sequence(length=10, context=2)
    assert pieces(second.tokens[:8]) == "[CLS] old town mill ##s burned . [SEP]".split()
    assert second.words == range(5, 8)
    assert second.labels["tags"][:8].tolist() == [-1, -1, -1, 0, -1, 2, 2, -1]
    assert first.words == range(5)
    assert pieces(first.tokens[6:10]) == "town mill ##s [SEP]".split()


def test_every_word_is_predicted_once_whatever_the_lengths():
    rng = random.Random(0)
    for _ in range(2000):
        room = rng.randint(1, 12)
        context = rng.randint(0, (room - 1) // 2)
        lengths = [rng.randint(1, room) for _ in range(rng.randint(1, 30))]
        ends = sorted({*rng.sample(range(1, len(lengths) + 1), 1), len(lengths)})
        cuts = cut(lengths, ends, room=room, context=context)
        predicted = [word for _, words in cuts for word in words]
        assert predicted == list(range(len(lengths)))
        for read, words in cuts:
            assert read.start <= words.start < words.stop <= read.stop
            assert sum(lengths[i] for i in read) <= room
            for around in (
                range(read.start, words.start),
                range(words.stop, read.stop),
            ):
                assert sum(lengths[i] for i in around) <= context


def test_a_long_word_keeps_its_first_pieces():
    record = Record("r", (("abcdefgh", "the"),), None, ())
    first, second = sequence(record, length=6)
    assert pieces(first.tokens) == "[CLS] a ##b ##c ##d [SEP]".split()
    assert (first.words, second.words) == (range(1), range(1, 2))
    assert first.unusable == "no gold tags"


def test_tags_come_back_through_windows():
    for length, context in itertools.product((7, 9, 12, 24), (0, 1, 2)):
        windows = sequence(length=length, context=context)
        logits = np.zeros((len(windows), length, 3))
        for row, window in zip(logits, windows, strict=True):
            tags = [tag for sentence in TAGS for tag in sentence]
            for word, place in zip(window.words, window.first_pieces, strict=True):
                row[place, LABELS.index(tags[word])] = 1.0
        assert pool(tag_runs(logits, windows)) == [*map(list, TAGS)]


def test_words_of_a_text_are_tokenised_with_the_spaces_they_have():
    pytest.importorskip("nupunkt")
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    bytes_ = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer = ByteBpeTokenizer([*special[:4], *bytes_, special[4]], [])
    sizes = SequenceSizes(24, 1)
    for value, want in (
        ({"text": "a b-c."}, "<s> Ġ a Ġ b - c . </s>"),
        ({"tokens": ["a", "b", "-", "c", "."]}, "<s> Ġ a Ġ b Ġ - Ġ c Ġ . </s>"),
    ):
        record = parse(value, lambda *note: None)
        [window] = inputs.features(record, tokenizer, sizes)
        got = tokenizer.pieces(window.tokens[window.example_ids > 0])
        assert got == want.split()


def test_a_global_token_stands_for_each_sentence():
    sizes = StructuredSizes(16, 3)
    [window] = inputs.features(RECORD, TOKENIZER, sizes)
    want = "[CLS] the mill ##s [MASK] old town mill ##s burned .".split()
    assert pieces(window.tokens.long[:11]) == want
    # [CLS] and two: the third sentence shares the one of the second.
    links = window.structure.links[:11, 0].tolist()
    assert links == [-1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2]
    assert window.tokens.global_.tolist()[0] == TOKENIZER.special_id("cls")
    assert window.labels["tags"][window.first_pieces].tolist() == [
        2,
        0,
        1,
        2,
        0,
        0,
        2,
        2,
    ]
    # A window in the middle of a sentence has a token for its part.
    first, second = inputs.features(RECORD, TOKENIZER, StructuredSizes(8, 4))
    assert (first.words, second.words) == (range(5), range(5, 8))
    assert second.structure.links[:6, 0].tolist() == [-1, 1, 1, 1, 1, -1]


def test_what_cannot_be_an_input_is_named():
    with pytest.raises(ValueError, match="room for 4 tokens of a text, and context is"):
        sequence(length=6, context=2)
    with pytest.raises(BadRecordError, match="'r' has no token"):
        sequence(Record("r", (("\u200b",),), None, ()))
    with pytest.raises(ValueError, match="not all tags are known; give the option"):
        sequence(Record("r", (("the",),), (("O",),), ()))
    with pytest.raises(ValueError, match="no global token for a sentence"):
        inputs.features(RECORD, TOKENIZER, StructuredSizes(16, 1))
