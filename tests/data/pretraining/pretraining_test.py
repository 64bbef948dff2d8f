"""Readers: batches by step, for epochs, processes and mixtures."""

import dataclasses

import numpy as np
import pytest
from random_params import assert_equal
from toy_text import (
    AMPLE,
    G,
    N,
    cache_of,
    ids_of,
    make_cache,
    make_plan,
    make_reader,
    original,
    take,
)

from etc_jax.data.mixture import Mixture
from etc_jax.data.pretraining import masking
from etc_jax.data.pretraining.examples import PretrainingSizes
from etc_jax.data.pretraining.readers import MixtureReader, PretrainingReader
from etc_jax.structure import Rules, validate
from etc_jax.structure.builders import packed_documents


@pytest.fixture(scope="module")
def cache():
    return make_cache(100, longest=60)


@pytest.fixture(scope="module")
def plan(cache):
    return make_plan(cache)


def test_shapes_and_types(cache, plan):
    sizes = PretrainingSizes(N, G, 48, 64, 8)
    batch = make_reader(cache, plan, sizes).batch_at(0)
    shapes = {k: v.shape for k, v in batch.items() if isinstance(v, np.ndarray)}
    assert shapes == {
        "long_tokens": (8, N),
        "global_tokens": (8, G),
        "mlm_positions": (8, 48),
        "mlm_targets": (8, 48),
        "mlm_weights": (8, 48),
        "mlm_overflow": (8,),
        "cpc_long_tokens": (8, 64),
        "cpc_global_tokens": (8, 8),
        "cpc_positions": (8, 8),
        "cpc_weights": (8, 8),
        "cpc_documents": (8, 8),
        "cpc_overflow": (8,),
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
    reader = make_reader(cache, plan, evaluation=True, batch_size=plan.num_windows)
    batch = reader.batch_at(0)
    lengths = np.diff(plan.segment_offsets)
    for row in range(plan.num_windows):
        pieces = [lengths[first:stop] for _, first, stop in plan.window(row)]
        expected = packed_documents(pieces, long_length=N, global_length=G)
        assert_equal(take(batch["structure"], row), expected)
        masked = batch["cpc_positions"][row][batch["cpc_weights"][row] > 0]
        own = [[n] for n in np.concatenate(pieces)[masked]]
        expected = packed_documents(own, long_length=N, global_length=G)
        assert_equal(take(batch["cpc_structure"], row), expected)


def test_every_token_is_read_once_an_epoch(cache, plan):
    reader, found = make_reader(cache, plan), [[], []]
    size = reader.num_examples
    for step in range(-(-2 * size // 8)):
        batch = reader.batch_at(step)
        for row in range(8):
            if (epoch := (8 * step + row) // size) < 2:
                found[epoch].append(original(batch, row)[0])
    for epoch in found:
        np.testing.assert_array_equal(
            np.sort(np.concatenate(epoch)), _kept_tokens(cache)
        )
    assert reader.counts.examples == 8 * (step + 1)


def test_a_row_is_the_text_of_its_window(cache, plan):
    reader = make_reader(cache, plan, evaluation=True, batch_size=plan.num_windows)
    batch = reader.batch_at(0)
    for row in range(plan.num_windows):
        tokens, sentences = original(batch, row)
        expected = np.concatenate(
            [
                cache.tokens[plan.segment_offsets[a] : plan.segment_offsets[b]]
                for _, a, b in plan.window(row)
            ]
        )
        np.testing.assert_array_equal(tokens, expected)
        assert (np.diff(sentences) >= 0).all()


def test_global_tokens_and_documents_name_the_masked_sentences(cache, plan):
    batch = make_reader(cache, plan, evaluation=True).batch_at(1)
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


def _by_window(reader, epoch):
    """{first token of a window: its masked text}, in the order of one epoch."""
    batch = reader.batch_at(epoch)  # one batch is one epoch here
    return {
        int(original(batch, row)[0][0]): batch["long_tokens"][row].tobytes()
        for row in range(reader.num_examples)
    }


def test_epochs_and_seeds_differ_in_order_and_in_masks(cache, plan):
    first = make_reader(cache, plan, batch_size=plan.num_windows)
    other = make_reader(cache, plan, batch_size=plan.num_windows, seed=4)
    seen = [_by_window(first, 0), _by_window(first, 1), _by_window(other, 0)]
    in_order = [
        int(cache.tokens[plan.segment_offsets[plan.window(i)[0, 1]]])
        for i in range(plan.num_windows)
    ]
    orders = {tuple(s) for s in (in_order, *seen)}
    assert len(orders) == 4 and {tuple(sorted(o)) for o in orders} == {
        tuple(sorted(in_order))
    }
    for window in in_order:
        assert len({masked[window] for masked in seen}) == 3


def test_a_sentence_starts_a_word_even_where_a_word_was_cut():
    cache = cache_of([[100] * 7], words=0.0)  # seven sentences, each one word
    plan = make_plan(cache)
    starts = [
        (plan.read(cache, i).word_starts, plan.read(cache, i).lengths)
        for i in range(plan.num_windows)
    ]
    assert plan.num_windows > 1 and sum(len(lengths) for _, lengths in starts) == 21
    for found, lengths in starts:
        assert np.flatnonzero(found).tolist() == np.cumsum([0, *lengths])[:-1].tolist()


def test_evaluation_is_one_epoch_with_padding_at_the_end(cache, plan):
    reader = make_reader(cache, plan, evaluation=True, batch_size=6)
    assert reader.num_examples % 6
    batches = [reader.batch_at(s) for s in range(reader.steps_per_epoch)]
    found = [original(b, r)[0] for b in batches for r in range(6)]
    assert np.unique(np.concatenate(found)).size == plan.counts.tokens
    last = take(batches[-1], slice(reader.num_examples % 6, None))
    assert not last["mlm_weights"].any() and not last["cpc_weights"].any()
    assert not last["long_tokens"].any() and not last["global_tokens"].any()
    assert not last["structure"].long_example_ids.any()


def test_what_exceeds_a_capacity_is_left_alone_and_counted(cache, plan):
    ample, tight = (
        make_reader(cache, plan, sizes, evaluation=True, batch_size=plan.num_windows)
        for sizes in (AMPLE, PretrainingSizes(N, G, 16, 24, 2))
    )
    full, small = ample.batch_at(0), tight.batch_at(0)
    left = full["cpc_weights"].sum() - small["cpc_weights"].sum()
    np.testing.assert_array_equal(
        small["cpc_overflow"],
        full["cpc_weights"].sum(1) - small["cpc_weights"].sum(1),
    )
    assert tight.counts.cpc_overflow_sentences == left > 0
    assert ample.counts.cpc_overflow_sentences == 0
    assert ample.counts.mlm_overflow_tokens == 0
    assert tight.counts.mlm_overflow_tokens > 0
    assert tight.counts.examples == plan.num_windows
    for row in range(plan.num_windows):
        # What is masked has a target: the text can be restored in full.
        for batch in (full, small):
            tokens, _ = original(batch, row)
            assert (tokens > 103).all()
    used = small["structure"].long_example_ids > 0
    changed = (small["long_tokens"] == 103) & used
    chosen = small["mlm_weights"].sum() + (small["cpc_long_tokens"] > 0).sum()
    assert changed.sum() <= chosen


def test_mlm_overflow_counts_the_tokens_without_room(cache, plan):
    shares = masking.MaskingShares(cpc=0.0, mlm=0.5)
    kwargs = {"evaluation": True, "batch_size": plan.num_windows, "shares": shares}
    wide = make_reader(cache, plan, PretrainingSizes(N, G, N), **kwargs).batch_at(0)
    reader = make_reader(cache, plan, PretrainingSizes(N, G, 20), **kwargs)
    narrow = reader.batch_at(0)
    lost = wide["mlm_weights"].sum(1) - narrow["mlm_weights"].sum(1)
    np.testing.assert_array_equal(narrow["mlm_overflow"], lost)
    assert not wide["mlm_overflow"].any()
    assert reader.counts.mlm_overflow_tokens == lost.sum() > 0


def _kept_tokens(cache):
    """The tokens of the documents that are long enough, ascending."""
    kept = np.diff(cache.document_offsets) >= 7
    lengths = np.diff(cache.sentence_offsets[cache.document_offsets])
    return np.asarray(cache.tokens)[np.repeat(kept, lengths)]


@pytest.fixture(scope="module")
def texts():
    """Two texts with the ids of one vocabulary, apart from each other."""
    many, few = make_cache(60, longest=60), make_cache(20, longest=40, seed=1)
    size = many.num_tokens
    vocab_size = 104 + size + few.num_tokens
    caches = [
        dataclasses.replace(
            c, tokens=c.tokens + shift, header={"vocab_size": vocab_size}
        )
        for c, shift in ((many, 0), (few, size))
    ]
    return [(c, make_plan(c)) for c in caches]


def _mixture_reader(texts, weights=(3.0, 1.0), **kwargs):
    kwargs = {"batch_size": 8, "seed": 3} | kwargs
    ids = ids_of(texts[0][0])
    return MixtureReader(texts, Mixture(weights, seed=5), ids, AMPLE, **kwargs)


def test_a_mixture_reads_each_text_epoch_by_epoch(texts):
    border = texts[1][0].tokens.min()
    reader, mixture = _mixture_reader(texts), Mixture((3.0, 1.0), seed=5)
    found = {(source, epoch): [] for source in (0, 1) for epoch in (0, 1)}
    step = 0
    while True:
        batch = reader.batch_at(step)
        for row in range(8):
            tokens, _ = original(batch, row)
            source, index = mixture.locate(8 * step + row)
            assert ((tokens >= border) == (source == 1)).all()
            epoch = index // texts[source][1].num_windows
            found.setdefault((source, epoch), []).append(tokens)
        done = [len(found[s, 1]) == texts[s][1].num_windows for s in (0, 1)]
        if all(done):
            break
        step += 1
    for (source, epoch), windows in found.items():
        if epoch < 2:
            np.testing.assert_array_equal(
                np.sort(np.concatenate(windows)), _kept_tokens(texts[source][0])
            )
    counts = reader.source_counts
    assert sum(c.examples for c in counts) == 8 * (step + 1)
    assert counts[0].windows == texts[0][1].num_windows


def test_texts_of_a_mixture_have_documents_and_masks_of_their_own(texts):
    cache, plan = texts[0]
    twice = _mixture_reader([(cache, plan), (cache, plan)], (1.0, 1.0))
    border, seen, seen_at = cache.num_documents, {}, []
    for step in range(2 * plan.num_windows // 8):
        batch = twice.batch_at(step)
        for row in range(8):
            source = twice._mixture.locate(8 * step + row)[0]
            masked = batch["cpc_documents"][row][batch["cpc_weights"][row] > 0]
            assert ((masked >= border) == (source == 1)).all()
            window = int(original(batch, row)[0][0])
            seen.setdefault(window, {})[source] = batch["long_tokens"][row].tobytes()
            seen_at.append((window, source))
    both = [x for x in seen.values() if len(x) == 2]
    assert len(both) > 20 and all(x[0] != x[1] for x in both)
    # The order of the windows is another one too.
    orders = [[w for w, x in seen_at if x == source] for source in (0, 1)]
    length = min(map(len, orders))
    assert length > 20 and orders[0][:length] != orders[1][:length]


def test_a_mixture_of_one_text_is_that_text(texts):
    (cache, plan), *_ = texts
    alone = _mixture_reader(texts[:1], (1.0,))
    for step in (0, 9):
        assert_equal(alone.batch_at(step), make_reader(cache, plan).batch_at(step))


def test_without_cpc_nothing_is_there_for_it(cache, plan):
    shares = masking.MaskingShares(cpc=0.0)
    sizes = PretrainingSizes.default(N, G, shares)
    batch = make_reader(cache, plan, sizes, shares=shares).batch_at(0)
    assert set(batch) == {
        "long_tokens",
        "global_tokens",
        "structure",
        "mlm_positions",
        "mlm_targets",
        "mlm_weights",
        "mlm_overflow",
    }
    used = batch["structure"].global_example_ids > 0
    np.testing.assert_array_equal(batch["global_tokens"], used)
    chosen = batch["mlm_weights"].sum() / (batch["structure"].links >= 0).sum()
    assert chosen == pytest.approx(0.15, abs=0.01)
    found = [original(batch, row)[0] for row in range(8)]
    assert min(map(np.min, found)) > 103


def test_what_does_not_go_together_is_an_error(cache, plan):
    with pytest.raises(ValueError, match="make the plan from this cache"):
        make_reader(make_cache(5, longest=60), plan)
    with pytest.raises(ValueError, match="sizes.long_length is 128"):
        make_reader(cache, plan, PretrainingSizes.default(128, G))
    wrong = dataclasses.replace(ids_of(cache), vocab_size=500)
    with pytest.raises(ValueError, match="ids are of a vocabulary of 500"):
        PretrainingReader(cache, plan, wrong, AMPLE, batch_size=8, seed=0)
    no_cpc = masking.MaskingShares(cpc=0.0)
    with pytest.raises(ValueError, match="shares.cpc is 0.0, but sizes.cpc_long_lengt"):
        make_reader(cache, plan, shares=no_cpc)
    with pytest.raises(ValueError, match="shares.cpc is 0.1, but sizes.cpc_long_lengt"):
        make_reader(cache, plan, PretrainingSizes(N, G, N))
    blocks = make_plan(cache, global_tokens="fixed_blocks", tokens_per_block=10)
    with pytest.raises(ValueError, match="'fixed_blocks', but CPC masks sentences"):
        make_reader(cache, blocks)
    with pytest.raises(ValueError, match="the mixture has 2 weights, but there are 1"):
        _mixture_reader([(cache, plan)])
