import dataclasses

import jax
import numpy as np
import pytest

from etc_jax.builders import packed_documents
from etc_jax.data import masking, packing
from etc_jax.data.cache import TokenCache
from etc_jax.data.examples import PretrainingSizes, read_window
from etc_jax.data.pretraining import PretrainingReader, cpc_pool
from etc_jax.data.tokenizer import TokenIds
from etc_jax.structure import Rules, validate

N, G = 256, 40
# Room for everything that can be masked.
AMPLE = PretrainingSizes(N, G, mlm_capacity=N, cpc_long_length=N, cpc_global_length=G)


def _ids(cache):
    vocab_size = cache.header["vocab_size"]
    return TokenIds(0, 1, 2, 103, first_regular=104, vocab_size=vocab_size)


def _cache(num_documents, *, longest, vocab_size=None):
    """Random documents. Without `vocab_size` each token has an id of its own."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(3, longest, num_documents)
    lengths = 1 + rng.gamma(2.0, 5.0, sizes.sum()).astype(int)
    offsets = np.cumsum([0, *lengths])
    words = rng.random(offsets[-1]) < 0.7
    words[offsets[:-1]] = True
    tokens = 104 + np.arange(offsets[-1], dtype=np.uint32)
    if vocab_size is not None:
        tokens = rng.integers(104, vocab_size, offsets[-1]).astype(np.uint32)
    return TokenCache.from_arrays(
        tokens,
        words,
        offsets,
        np.cumsum([0, *sizes]),
        vocab_size=vocab_size or 104 + len(tokens),
    )


def _pack(cache):
    return packing.pack(cache, long_length=N, global_length=G, max_sentence_tokens=40)


@pytest.fixture(scope="module")
def cache():
    return _cache(100, longest=60)


@pytest.fixture(scope="module")
def plan(cache):
    return _pack(cache)


def _reader(cache, plan, sizes=AMPLE, **kwargs):
    kwargs = {"batch_size": 8, "seed": 3} | kwargs
    return PretrainingReader(cache, plan, _ids(cache), sizes, **kwargs)


def _assert_equal(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


def _take(batch, rows):
    return jax.tree.map(lambda x: x[rows], batch)


def _original(batch, row):
    """(tokens, sentence of each) before masking, from the batch alone."""
    example = _take(batch, row)
    tokens = example["long_tokens"].copy()
    real = example["mlm_weights"] > 0
    tokens[example["mlm_positions"][real]] = example["mlm_targets"][real]
    links = example["structure"].links[:, 0]
    own = example["cpc_structure"].links[:, 0]
    for j in np.flatnonzero(example["cpc_weights"]):
        masked = links == example["cpc_positions"][j]
        assert (tokens[masked] == 103).all()
        tokens[masked] = example["cpc_long_tokens"][own == j]
    used = example["structure"].long_example_ids > 0
    return tokens[used], links[used]


def test_shapes_and_types(cache, plan):
    sizes = PretrainingSizes(N, G, 48, 64, 8)
    batch = _reader(cache, plan, sizes).batch_at(0)
    shapes = {k: v.shape for k, v in batch.items() if isinstance(v, np.ndarray)}
    assert shapes == {
        "long_tokens": (8, N),
        "global_tokens": (8, G),
        "mlm_positions": (8, 48),
        "mlm_targets": (8, 48),
        "mlm_weights": (8, 48),
        "cpc_long_tokens": (8, 64),
        "cpc_global_tokens": (8, 8),
        "cpc_positions": (8, 8),
        "cpc_weights": (8, 8),
        "cpc_documents": (8, 8),
    }
    for name in shapes:
        floating = name.endswith("weights")
        assert batch[name].dtype == (np.float32 if floating else np.int32)
    assert batch["structure"].links.shape == (8, N, 1)
    assert batch["cpc_structure"].links.shape == (8, 64, 1)
    for name in ("structure", "cpc_structure"):
        assert batch[name].links.dtype == np.int16
        validate(batch[name], Rules(radius=4))


def test_structure_is_that_of_packed_documents(cache, plan):
    reader = _reader(cache, plan, evaluation=True, batch_size=plan.num_windows)
    batch = reader.batch_at(0)
    lengths = np.diff(plan.sentence_offsets)
    for row in range(plan.num_windows):
        pieces = [lengths[first:stop] for _, first, stop in plan.window(row)]
        expected = packed_documents(pieces, long_length=N, global_length=G)
        _assert_equal(_take(batch["structure"], row), expected)
        masked = batch["cpc_positions"][row][batch["cpc_weights"][row] > 0]
        own = [[n] for n in np.concatenate(pieces)[masked]]
        expected = packed_documents(own, long_length=N, global_length=G)
        _assert_equal(_take(batch["cpc_structure"], row), expected)


def test_every_token_is_read_once_an_epoch(cache, plan):
    reader = _reader(cache, plan)
    num_rows, batch_size = reader.num_examples, 8
    found = []
    for position in range(num_rows, 2 * num_rows):  # the second epoch
        step, row = divmod(position, batch_size)
        tokens, _ = _original(reader.batch_at(step, rows=[row]), 0)
        found.append(tokens)
    found = np.concatenate(found)
    kept = np.repeat(
        np.diff(cache.document_offsets) >= 7,
        np.diff(cache.sentence_offsets[cache.document_offsets]),
    )
    np.testing.assert_array_equal(np.sort(found), np.asarray(cache.tokens)[kept])


def test_a_row_is_the_text_of_its_window(cache, plan):
    reader = _reader(cache, plan, evaluation=True, batch_size=plan.num_windows)
    batch = reader.batch_at(0)
    for row in range(plan.num_windows):
        tokens, sentences = _original(batch, row)
        expected = np.concatenate(
            [
                cache.tokens[plan.sentence_offsets[a] : plan.sentence_offsets[b]]
                for _, a, b in plan.window(row)
            ]
        )
        np.testing.assert_array_equal(tokens, expected)
        assert (np.diff(sentences) >= 0).all()


def test_global_tokens_and_documents_name_the_masked_sentences(cache, plan):
    batch = _reader(cache, plan, evaluation=True).batch_at(1)
    document_of = np.repeat(
        np.arange(cache.num_documents),
        np.diff(cache.sentence_offsets[cache.document_offsets]),
    )
    for row in range(8):
        real = batch["cpc_weights"][row] > 0
        masked = batch["cpc_positions"][row][real]
        assert len(masked) and (np.diff(masked) > 0).all()
        used = batch["structure"].global_example_ids[row] > 0
        expected = np.where(used, 1, 0)
        expected[masked] = 2
        np.testing.assert_array_equal(batch["global_tokens"][row], expected)
        np.testing.assert_array_equal(batch["cpc_global_tokens"][row], real)
        own = batch["cpc_structure"].links[row, :, 0]
        for j in range(len(masked)):
            # Ids are places in the text, so they tell the document.
            first = batch["cpc_long_tokens"][row][own == j][0] - 104
            assert batch["cpc_documents"][row, j] == document_of[first]
        assert (batch["cpc_documents"][row][~real] == -1).all()
        assert (
            batch["long_tokens"][row][batch["structure"].links[row, :, 0] < 0] == 0
        ).all()


def test_batches_do_not_depend_on_history(cache, plan):
    steps = [0, 5, 31, 2]
    reader = _reader(cache, plan)
    first = {s: reader.batch_at(s) for s in steps}
    for s in reversed(steps):
        _assert_equal(reader.batch_at(s), first[s])
        _assert_equal(_reader(cache, plan).batch_at(s), first[s])


def _by_window(reader, epoch):
    """{first token of a window: its masked text}, in the order of one epoch."""
    batch = reader.batch_at(epoch)  # one batch is one epoch here
    return {
        int(_original(batch, row)[0][0]): batch["long_tokens"][row].tobytes()
        for row in range(reader.num_examples)
    }


def test_epochs_and_seeds_differ_in_order_and_in_masks(cache, plan):
    first = _reader(cache, plan, batch_size=plan.num_windows)
    other = _reader(cache, plan, batch_size=plan.num_windows, seed=4)
    seen = [_by_window(first, 0), _by_window(first, 1), _by_window(other, 0)]
    in_order = [
        int(cache.tokens[plan.sentence_offsets[plan.window(i)[0, 1]]])
        for i in range(plan.num_windows)
    ]
    orders = {tuple(s) for s in (in_order, *seen)}
    assert len(orders) == 4 and {tuple(sorted(o)) for o in orders} == {
        tuple(sorted(in_order))
    }
    for window in in_order:
        assert len({masked[window] for masked in seen}) == 3


def test_a_sentence_starts_a_word_even_where_a_word_was_cut():
    words = np.zeros(700, bool)
    words[::100] = True  # seven sentences, each one word of 100 tokens
    offsets = np.arange(0, 701, 100)
    cache = TokenCache.from_arrays(
        np.full(700, 104, np.uint16), words, offsets, np.array([0, 7]), vocab_size=105
    )
    plan = _pack(cache)
    starts = [
        (read_window(cache, plan, i).word_starts, read_window(cache, plan, i).lengths)
        for i in range(plan.num_windows)
    ]
    assert plan.num_windows > 1 and sum(len(lengths) for _, lengths in starts) == 21
    for found, lengths in starts:
        assert np.flatnonzero(found).tolist() == np.cumsum([0, *lengths])[:-1].tolist()


@pytest.mark.parametrize(
    "rows", [slice(0, 4), slice(4, 8), [1, 6], np.array([7]), slice(3, 3)]
)
def test_rows_of_one_process_are_those_of_the_whole(cache, plan, rows):
    reader = _reader(cache, plan)
    _assert_equal(reader.batch_at(9, rows), _take(reader.batch_at(9), rows))


def test_evaluation_is_one_epoch_with_padding_at_the_end(cache, plan):
    reader = _reader(cache, plan, evaluation=True, batch_size=6)
    assert reader.num_examples % 6
    batches = [reader.batch_at(s) for s in range(reader.steps_per_epoch)]
    found = [_original(b, r)[0] for b in batches for r in range(6)]
    assert np.unique(np.concatenate(found)).size == plan.counts.tokens
    last = _take(batches[-1], slice(reader.num_examples % 6, None))
    assert not last["mlm_weights"].any() and not last["cpc_weights"].any()
    assert not last["long_tokens"].any() and not last["global_tokens"].any()
    assert not last["structure"].long_example_ids.any()
    with pytest.raises(IndexError, match="no batch for step"):
        reader.batch_at(reader.steps_per_epoch)


@pytest.fixture(scope="module")
def many_examples():
    """2,400 examples of text in a vocabulary of 1,000, and where their words start."""
    cache = _cache(200, longest=80, vocab_size=1000)
    reader = _reader(cache, _pack(cache), batch_size=60)
    return [reader.batch_at(s) for s in range(40)]


def _three_errors(values):
    return 3 * np.std(values) / len(values) ** 0.5


def test_share_of_masked_sentences(many_examples):
    counts = np.concatenate([b["cpc_weights"].sum(1) for b in many_examples])
    sentences = np.concatenate(
        [(b["structure"].global_example_ids > 0).sum(1) for b in many_examples]
    )
    # Where 10 % is less than one sentence, at least one is masked all the same.
    surplus = (counts - 0.1 * sentences)[sentences >= 10]
    assert len(counts) == 2400 and len(surplus) > 2000
    assert abs(surplus.mean()) < _three_errors(surplus)


def test_share_of_mlm_tokens_among_the_rest(many_examples):
    surplus = []
    for b in many_examples:
        links = b["structure"].links[..., 0]
        rest = (links >= 0).sum(1) - (b["cpc_structure"].links[..., 0] >= 0).sum(1)
        surplus.append(b["mlm_weights"].sum(1) - 0.15 * rest)
    surplus = np.concatenate(surplus)
    assert abs(surplus.mean()) < _three_errors(surplus)


def test_shares_of_mask_random_and_kept(many_examples):
    shown, targets = [], []
    for b in many_examples:
        at = np.take_along_axis(b["long_tokens"], b["mlm_positions"], 1)
        shown.append(at[b["mlm_weights"] > 0])
        targets.append(b["mlm_targets"][b["mlm_weights"] > 0])
    shown, targets = np.concatenate(shown), np.concatenate(targets)
    again = 0.1 / (1000 - 104)  # a random id that is the original one
    for share, expected in (
        (shown == 103, 0.8),
        (shown == targets, 0.1 + again),
        ((shown != 103) & (shown != targets), 0.1 - again),
    ):
        assert abs(share.mean() - expected) < _three_errors(share)
    assert shown.min() >= 103


def test_words_are_masked_whole(cache, plan):
    all_words = cache.word_starts(0, cache.num_tokens)
    all_words[plan.sentence_offsets[:-1]] = True
    word_of = np.cumsum(all_words) - 1
    size = np.bincount(word_of)
    reader = _reader(cache, plan)
    for step in range(10):
        batch = reader.batch_at(step)
        for row in range(8):
            real = batch["mlm_weights"][row] > 0
            # Ids are places in the text, so targets tell their words.
            words = word_of[batch["mlm_targets"][row][real] - 104]
            masked, count = np.unique(words, return_counts=True)
            np.testing.assert_array_equal(count, size[masked])


def test_what_exceeds_a_capacity_is_left_alone_and_counted(cache, plan):
    ample, tight = (
        _reader(cache, plan, sizes, evaluation=True, batch_size=plan.num_windows)
        for sizes in (AMPLE, PretrainingSizes(N, G, 16, 24, 2))
    )
    full, small = ample.batch_at(0), tight.batch_at(0)
    left = full["cpc_weights"].sum() - small["cpc_weights"].sum()
    assert tight.counts.cpc_overflow_sentences == left > 0
    assert ample.counts.cpc_overflow_sentences == 0
    assert ample.counts.mlm_overflow_tokens == 0
    assert tight.counts.mlm_overflow_tokens > 0
    assert tight.counts.examples == plan.num_windows
    for row in range(plan.num_windows):
        # What is masked has a target: the text can be restored in full.
        for batch in (full, small):
            tokens, _ = _original(batch, row)
            assert (tokens > 103).all()
    used = small["structure"].long_example_ids > 0
    changed = (small["long_tokens"] == 103) & used
    chosen = small["mlm_weights"].sum() + (small["cpc_long_tokens"] > 0).sum()
    assert changed.sum() <= chosen


def test_mlm_overflow_counts_the_tokens_without_room(cache, plan):
    shares = masking.MaskingShares(cpc=0.0, mlm=0.5)
    kwargs = {"evaluation": True, "batch_size": plan.num_windows, "shares": shares}
    wide = _reader(cache, plan, **kwargs)
    narrow = _reader(cache, plan, dataclasses.replace(AMPLE, mlm_capacity=20), **kwargs)
    lost = (
        wide.batch_at(0)["mlm_weights"].sum() - narrow.batch_at(0)["mlm_weights"].sum()
    )
    assert narrow.counts.mlm_overflow_tokens == lost > 0


@pytest.mark.parametrize("count", [40, 256])
def test_pool_masks_exactly_its_sentences(cache, plan, count):
    batches = cpc_pool(
        cache, plan, _ids(cache), AMPLE, batch_size=8, count=count, seed=1
    )
    assert sum(b["cpc_weights"].sum() for b in batches) == count
    sentences, documents = [], []
    for b in batches:
        assert b["long_tokens"].shape == (8, N)
        masked = (b["global_tokens"] == 2).sum(1)
        total = (b["global_tokens"] > 0).sum(1)
        np.testing.assert_array_equal(masked, b["cpc_weights"].sum(1))
        assert (masked <= np.maximum(1, 0.1 * total)).all()
        documents += b["cpc_documents"][b["cpc_weights"] > 0].tolist()
        for row in np.flatnonzero(masked):
            _original(b, row)  # checks that masked sentences are mask ids
            own = b["cpc_structure"].links[row, :, 0]
            text = b["cpc_long_tokens"][row]
            sentences += [tuple(text[own == j]) for j in range(masked[row])]
    assert len(set(sentences)) == count and min(map(len, sentences)) >= 8
    kept = plan.counts.documents
    assert len(set(documents)) >= min(count, kept) - 5  # some have no long sentence
    again = cpc_pool(cache, plan, _ids(cache), AMPLE, batch_size=8, count=count, seed=1)
    _assert_equal(batches, again)


def test_pool_larger_than_the_text_is_an_error(cache, plan):
    with pytest.raises(ValueError, match="a CPC pool of 1000000 needs"):
        cpc_pool(cache, plan, _ids(cache), AMPLE, batch_size=8, count=10**6)


def test_pool_takes_a_repeated_sentence_once():
    words = np.ones(200, bool)
    tokens = np.tile(np.arange(104, 114, dtype=np.uint16), 20)  # one sentence 20 times
    tokens[:10] += 10  # and another one
    cache = TokenCache.from_arrays(
        tokens, words, np.arange(0, 201, 10), np.array([0, 10, 20]), vocab_size=200
    )
    plan = _pack(cache)
    (batch,) = cpc_pool(cache, plan, _ids(cache), AMPLE, batch_size=8, count=2)
    assert batch["cpc_weights"].sum() == 2
    with pytest.raises(ValueError, match="256 tokens, got 2; lower count"):
        cpc_pool(cache, plan, _ids(cache), AMPLE, batch_size=8, count=3)


def test_what_does_not_go_together_is_an_error(cache, plan):
    with pytest.raises(ValueError, match="make the plan from this cache"):
        _reader(_cache(5, longest=60), plan)
    with pytest.raises(ValueError, match="sizes.long_length is 128"):
        _reader(cache, plan, PretrainingSizes.default(128, G))
    wrong = dataclasses.replace(_ids(cache), vocab_size=500)
    with pytest.raises(ValueError, match="ids are of a vocabulary of 500"):
        PretrainingReader(cache, plan, wrong, AMPLE, batch_size=8, seed=0)
    with pytest.raises(ValueError, match="batch_size must be at least 1"):
        _reader(cache, plan, batch_size=0)
    with pytest.raises(ValueError, match="seed must be 0 or more"):
        _reader(cache, plan, seed=-1)
    with pytest.raises(IndexError, match="no batch for step -1"):
        _reader(cache, plan).batch_at(-1)


def test_default_sizes_and_their_checks():
    # 15 % of 4096 times 1.25 is 768; 10 % times 1.5 of 4096 and 512: 614.4, 76.8.
    assert PretrainingSizes.default(4096, 512) == PretrainingSizes(
        4096, 512, 768, 616, 80
    )
    assert PretrainingSizes.default(64, 8).cpc_long_length == 64
    assert PretrainingSizes.default(512, 64, mlm_capacity=7).mlm_capacity == 7
    with pytest.raises(ValueError, match="mlm_capacity is 0, expected 1 or more"):
        PretrainingSizes(8, 8, 0, 8, 8)
    with pytest.raises(ValueError, match="cpc_long_length is 9, but more than 8"):
        PretrainingSizes(8, 8, 8, 9, 8)
