"""Text packed into rows of one sequence, for masked and for causal language models."""

import hashlib

import numpy as np
import pytest
from toy_text import cache_of, ids_of, make_cache, restored

from etc_jax.data.mixture import Mixture
from etc_jax.data.pretraining import masking
from etc_jax.data.text.packed import CAUSAL, MASKED, CausalRows, MaskedRows
from etc_jax.data.text.packing import pack
from etc_jax.data.text.reader import TextReader
from etc_jax.data.tokenizers.tokenizer import TokenIds

IDS = TokenIds(0, 1, 2, 3, (10, 90), 90)
WORDS = (3, 6, 9, 12, 30, 3, 6)  # of each document
LENGTH = 32


def text():
    """Documents whose number is in every token; words of two pieces, three a sentence.

    Token 10 * d + 10 begins a word of document d, the next id ends it.
    """
    words = np.repeat(np.arange(7), WORDS)
    tokens = np.stack([10 * words + 10, 10 * words + 11], 1).reshape(-1)
    documents, starts = [[6] * (n // 3) for n in WORDS], np.tile([True, False], 69)
    cache = cache_of(documents, words=starts, tokens=tokens, vocab_size=90)
    return packed(cache, LENGTH, max_sentence_tokens=LENGTH, min_sentences=1)


def packed(cache, length, **kwargs):
    return cache, pack(cache, long_length=length, global_length=None, **kwargs)


def masked_rows(ids=IDS, length=LENGTH, capacity=8, mlm=0.15):
    shares = masking.MaskingShares(mlm=mlm)
    return MaskedRows(ids, length=length, capacity=capacity, shares=shares)


def reader_of(rows, **options):
    return TextReader([text()], rows, batch_size=3, seed=0, **options)


@pytest.mark.parametrize(
    "rows", [masked_rows(), CausalRows(IDS, length=LENGTH)], ids=["masked", "causal"]
)
def test_documents_share_a_row_and_keep_apart(rows):
    reader = reader_of(rows, evaluation=True)
    batches = [reader.batch_at(step) for step in range(reader.steps_per_epoch)]
    tokens = [restored(b) if "mlm_weights" in b else b["tokens"] for b in batches]
    tokens = np.concatenate(tokens)
    ids = np.concatenate([b["example_ids"] for b in batches])
    assert ((tokens == IDS.pad) == (ids == 0)).all()
    seen = []
    for row, examples in zip(tokens, ids, strict=True):
        for example in set(examples[examples > 0].tolist()):
            [document] = set((row[examples == example] // 10 - 1).tolist())
            seen += [document] * int((examples == example).sum() / 2)
    assert sorted(seen) == np.repeat(np.arange(7), WORDS).tolist()
    assert (ids.max(axis=1) > 1).any()


def test_words_are_hidden_whole():
    reader, hidden = reader_of(masked_rows()), 0
    for step in range(10):
        batch = reader.batch_at(step)
        for places, weights, targets in zip(
            batch["mlm_positions"],
            batch["mlm_weights"],
            batch["mlm_targets"],
            strict=True,
        ):
            count = int(weights.sum())
            hidden += count
            places, targets = places[:count], targets[:count]
            np.testing.assert_array_equal(places[1::2], places[::2] + 1)
            np.testing.assert_array_equal(targets[1::2], targets[::2] + 1)
            assert not (targets[::2] % 10).any()
    assert hidden > 60


def test_what_is_chosen_and_has_no_room_is_counted():
    reader = reader_of(masked_rows(capacity=2, mlm=0.5), evaluation=True)
    batches = [reader.batch_at(step) for step in range(reader.steps_per_epoch)]
    lost = sum(int(batch["mlm_overflow"].sum()) for batch in batches)
    assert lost > 20 and reader.source_counts[0].mlm_overflow_tokens == lost


def test_each_token_predicts_the_next_one_of_its_document():
    reader = reader_of(CausalRows(IDS, length=LENGTH), evaluation=True)
    targets = 0
    for step in range(reader.steps_per_epoch):
        batch = reader.batch_at(step)
        tokens, ids, follows = (batch[k] for k in ("tokens", "example_ids", "targets"))
        for row, column in np.ndindex(tokens.shape):
            last = column + 1 == LENGTH
            inside = not last and ids[row, column] == ids[row, column + 1] > 0
            assert batch["target_weights"][row, column] == inside
            if inside:
                assert follows[row, column] == tokens[row, column + 1]
                targets += 1
    # A document of 60 tokens is two pieces.
    assert targets == 2 * sum(WORDS) - len(WORDS) - 1


# Of batches that commit fa1a099 built, where a row was taken from one of ETC.
BEFORE = {
    "train": "21e784039a46f6ae41bdc6901792028ae0f9e90663b4ccbf27cfc000ed4fd579",
    "evaluation": "78d1d8f93a34092f4f9f960300538c72d901846de07407b7b2e0137843db9c60",
    "mixture": "fb4360d5816218f2b0bf7fd6477e6416f4c47752867803ad5a7f6a1b43c10151",
}


def digest(reader, steps):
    found = hashlib.sha256()
    for batch in map(reader.batch_at, steps):
        for name in MASKED.fields:  # in the order of the digests
            array = batch[name]
            found.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    return found.hexdigest()


def test_masked_batches_are_those_of_earlier_versions():
    n, order = 96, {"batch_size": 4, "seed": 3}
    one = make_cache(60, longest=60, vocab_size=500)
    two = make_cache(20, longest=40, vocab_size=500, seed=1)
    rows = masked_rows(ids_of(one), n, masking.mlm_capacity(n, 0.2), mlm=0.2)
    texts = [packed(x, n, max_sentence_tokens=30, min_sentences=5) for x in (one, two)]
    train = TextReader(texts[:1], rows, **order)
    validation = TextReader(texts[:1], rows, evaluation=True, **order)
    mixture = Mixture((3.0, 1.0), seed=3)
    mixed = TextReader(texts, rows, mixture=mixture, **order)
    assert validation.steps_per_epoch == 55
    assert BEFORE == {
        "train": digest(train, (0, 1, 7, 200)),
        "evaluation": digest(validation, range(55)),
        "mixture": digest(mixed, (0, 1, 50)),
    }


@pytest.mark.parametrize("capacity", [0, LENGTH + 1])
def test_room_that_can_never_be_used_is_refused(capacity):
    with pytest.raises(ValueError, match=f"capacity is {capacity}, expected 1 to 32"):
        masked_rows(capacity=capacity)


def test_texts_without_a_mixture_are_refused():
    with pytest.raises(ValueError, match="has 1 weights, but there are 2 texts"):
        TextReader([text()] * 2, masked_rows(), batch_size=1, seed=0)


def test_schemas_are_those_of_the_batches():
    for schema, rows in ((MASKED, masked_rows()), (CAUSAL, CausalRows(IDS, length=32))):
        batch = reader_of(rows).batch_at(0)
        assert {k: x.dtype.name for k, x in batch.items()} == {
            k: field.dtype for k, field in schema.fields.items()
        }
