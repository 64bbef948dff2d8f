"""Denoising as seqio Tasks: the windows of a cache, drawn from seqio's seeds."""

import itertools

import numpy as np
import pytest
from seqio_samples import (
    forget_tasks,
)
from toy_text import reconstructed

from etc_jax.data.pretraining.denoising import Corrupted, Spans
from etc_jax.data.pretraining.masking import generator
from etc_jax.data.text.denoised import DenoisedRows, Denoising
from etc_jax.data.text.reader import planned
from etc_jax.data.tokenizers.tokenizer import grown, open_tokenizer
from etc_jax.objectives.jobs.denoising import marks_of

INPUT, TARGET, SEED = 64, 80, 3
PACKING = {"max_sentence_tokens": 32}
SPANS = Denoising("spans", Spans(0.2, "mixed", mixed_means=(2.0, 3.0)))
TASKS = {
    "spans": SPANS,
    "infilling": Denoising("infilling", Spans(0.3), permute_sentences=False),
    "gap_sentences": Denoising("gap_sentences", Spans(0.3), gap_choice="random"),
}


@pytest.fixture(scope="module")
def more(tokenizer):
    return grown(tokenizer, [f"<extra_id_{i}>" for i in range(10)])


@pytest.fixture(scope="module")
def cache(sio, more, notes, tmp_path_factory):
    files = {"train": f"{notes}/*.jsonl*"}
    sio.pretraining.register_files("grown", files, more, text_field="body")
    folder = tmp_path_factory.mktemp("caches")
    made = sio.export.export("grown", "train", folder)["grown"]
    forget_tasks(sio)
    return made


@pytest.fixture
def tasks(sio, cache):
    """A Task of each kind."""
    for name, task in TASKS.items():
        register(sio, {"train": cache}, name, task)
    yield list(TASKS)
    forget_tasks(sio)


def register(sio, caches, name, task=SPANS, **options):
    options = {"input_length": INPUT, "target_length": TARGET, **PACKING} | options
    return sio.denoising.register_denoising(name, caches, task, **options)


def examples(sio, name, **options):
    options = {"split": "train", "shuffle": False, "seed": SEED} | options
    task = sio.seqio.get_mixture_or_task(name)
    return list(task.get_dataset(**options).as_numpy_iterator())


def rows_of(tokenizer, task, length=INPUT):
    marks = marks_of(tokenizer, tokenizer.vocab_size, begin_token=False)
    return DenoisedRows(marks, task, input_length=length, target_length=TARGET)


def windows_of(cache, rows, packing="concatenated", **options):
    options = {"long_length": rows.text_length, **PACKING, **options}
    plan = planned(cache, packing, **options)
    windows = plan.in_epoch(SEED, 0)
    return [windows.read(cache, i) for i in range(plan.num_windows)]


def text_of(example, kind, tokenizer):
    """The text of an example, with nothing else than the example at hand."""
    end, mask = (tokenizer.special_id(role) for role in ("sep", "mask"))
    read, written = example["inputs"], example["targets"]
    assert read[-1] == written[-1] == end
    read, written = read[:-1], written[:-1]
    if kind == "spans":
        sentinels = [tokenizer.added_ids[f"<extra_id_{i}>"] for i in range(10)]
        found = Corrupted(read, written)
        return reconstructed(found, sentinels).tolist()
    if kind == "infilling":
        # What is left is a part of the text, in its order.
        left = iter(written.tolist())
        assert all(token in left for token in read[read != mask].tolist())
        return written.tolist()
    # Of several gaps it is not told where one ends: the tokens, in any order.
    return [*read[read != mask].tolist(), *written.tolist()]


@pytest.mark.parametrize("packing", ["best_fit", "concatenated"])
@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.full(but=["infilling-concatenated"])
def test_each_window_of_the_cache_is_an_example_token_for_token(
    sio, cache, more, kind, packing
):
    register(sio, {"train": cache}, kind, TASKS[kind], packing=packing)
    windows = windows_of(cache, rows_of(more, TASKS[kind]), packing)
    found = [text_of(x, kind, more) for x in examples(sio, kind)]
    assert len(found) == len(windows) > 20
    for text, window in zip(found, windows, strict=True):
        expected = window.tokens.tolist()
        if kind == "gap_sentences":
            text, expected = sorted(text), sorted(expected)
        assert text == expected
    again = [text_of(x, kind, more) for x in examples(sio, kind, shuffle=True)]
    assert sorted(map(sorted, again)) == sorted(map(sorted, found))
    assert list(map(sorted, again)) != list(map(sorted, found))
    forget_tasks(sio)


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.full
def test_batches_of_seqio_are_rows_of_the_objective(sio, cache, more, tasks, kind):
    """The same function, given a window and a generator, made both."""
    rows = rows_of(more, TASKS[kind])
    windows = windows_of(cache, rows)[:8]
    dataset = sio.seqio.get_dataset(
        kind,
        {"inputs": INPUT, "targets": TARGET},
        dataset_split="train",
        shuffle=False,
        seed=SEED,
        feature_converter=sio.seqio.EncDecFeatureConverter(pack=False),
    )
    got = next(dataset.batch(len(windows)).as_numpy_iterator())
    # The seeds that seqio gives the first preprocessor that asks for some.
    streams = [
        sio.tf.data.Dataset.random(seed).as_numpy_iterator()
        for seed in (SEED, SEED + 1)
    ]
    batch = rows.empty(len(windows))
    for row, (window, first, second) in enumerate(
        zip(windows, *(itertools.islice(s, len(windows)) for s in streams), strict=True)
    ):
        rows.fill(batch, row, window, generator(int(first), 0, int(second)))
    np.testing.assert_array_equal(got["encoder_input_tokens"], batch["input_tokens"])
    np.testing.assert_array_equal(got["decoder_target_tokens"], batch["target_tokens"])
    weights = batch["target_example_ids"]
    np.testing.assert_array_equal(got["decoder_loss_weights"], weights)
    shifted = np.pad(batch["target_tokens"], ((0, 0), (1, 0)))[:, :-1]
    # Behind the end token nothing is learnt.
    np.testing.assert_array_equal(
        got["decoder_input_tokens"] * weights, shifted * weights
    )


def test_what_the_rows_leave_out_is_no_example(sio, cache, more, caplog):
    task = Denoising("gap_sentences", Spans(0.3))
    short = {"input_length": 21, "max_sentence_tokens": 20}
    with caplog.at_level("WARNING"):
        register(sio, {"train": cache}, "short", task, **short)
        found = examples(sio, "short")
    rows = rows_of(more, task, 21)
    windows = windows_of(cache, rows, max_sentence_tokens=20)
    wanted = [sorted(w.tokens) for w in windows if not rows.is_whole(w)]
    assert 0 < len(wanted) < len(windows)
    assert [sorted(text_of(x, "gap_sentences", more)) for x in found] == wanted
    assert all(len(x["targets"]) > 1 for x in found)
    assert "windows left out so far, of which nothing can be missing: 1" in caplog.text
    with pytest.raises(ValueError, match="split 'train': nothing of the first 64 wind"):
        one = {"input_length": 2, "max_sentence_tokens": 1, "packing": "best_fit"}
        register(sio, {"train": cache}, "none", task, **one)
    forget_tasks(sio)


def test_decoders_learn_of_the_vocabulary_where_a_text_ends(sio, cache, more, tasks):
    [example, *_] = examples(sio, "infilling")
    features = sio.seqio.get_mixture_or_task("infilling").output_features
    vocabulary, ids = features["targets"].vocabulary, example["targets"].tolist()
    assert vocabulary.eos_id == ids[-1]
    # What comes after it is no text.
    assert vocabulary.decode([*ids, *ids]) == more.decode(ids)


@pytest.mark.full
def test_draws_are_those_of_the_seed_and_other_ones_in_each_epoch(sio, tasks):
    def inputs(**options):
        return [x["inputs"].tolist() for x in examples(sio, "spans", **options)]

    once, twice = inputs(), inputs(num_epochs=2)
    assert once == inputs() != inputs(seed=4)
    assert twice[: len(once)] == once != twice[len(once) :]
    assert inputs(shuffle=True) == inputs(shuffle=True)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.full(but=["2"])
def test_shards_have_each_window_once(sio, cache, more, tasks, count):
    wanted = [sorted(w.tokens) for w in windows_of(cache, rows_of(more, SPANS))]
    shards = [
        [
            sorted(text_of(example, "spans", more))
            for example in examples(
                sio,
                "spans",
                shuffle=True,
                shard_info=sio.seqio.ShardInfo(index=index, num_shards=count),
            )
        ]
        for index in range(count)
    ]
    assert sorted(sum(shards, [])) == sorted(wanted)
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


@pytest.mark.full
def test_a_mixture_mixes_in_exact_rates(sio, more, tasks):
    sio.pretraining.register_mixture({"spans": 3, "infilling": 1}, name="mixed")
    dataset = sio.seqio.get_mixture_or_task("mixed").get_dataset(
        split="train", num_epochs=None, seed=1
    )
    found = list(dataset.take(1000).as_numpy_iterator())
    first = more.added_ids["<extra_id_0>"]
    assert sum(int(x["targets"][0] == first) for x in found) == 750
    assert sio.pretraining.rates_of("mixed") == {"spans": 0.75, "infilling": 0.25}


def test_what_does_not_fit_together_is_refused(sio, cache, tokenizer, tasks, notes):
    with pytest.raises(ValueError, match=r"\['inputs'\] is 32, but .* for 64 tokens"):
        examples(sio, "spans", sequence_length={"inputs": 32, "targets": TARGET})
    with pytest.raises(ValueError, match="may have 25 spans, but there are 10 sent"):
        many = Denoising("spans", Spans(0.4, "fixed", 1.0))
        register(sio, {"train": cache}, "many", many)
    with pytest.raises(ValueError, match="caches is empty"):
        register(sio, {}, "none")
    with pytest.raises(ValueError, match="windows for 9999 shards; use fewer"):
        shard = sio.seqio.ShardInfo(index=0, num_shards=9999)
        examples(sio, "spans", shard_info=shard)
    files = {"train": f"{notes}/*.jsonl*"}
    sio.pretraining.register_files("plain", files, tokenizer, text_field="body")
    with pytest.raises(ValueError, match="has a Task 'plain' of another kind"):
        register(sio, {"train": cache}, "plain")
    with pytest.raises(ValueError, match="'spans' is not a Task of documents"):
        sio.pretraining.register_files("spans", files, tokenizer, text_field="body")
    with pytest.raises(ValueError, match="have different tokenizers"):
        sio.pretraining.register_mixture({"spans": 1, "plain": 1}, name="mixed")


def test_vocabularies_that_seqio_would_misread_are_refused(
    sio, cache, more, notes, tmp_path
):
    pieces = more.base.pieces(range(more.base.vocab_size))
    pieces[:2] = reversed(pieces[:2])
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    other = open_tokenizer(tmp_path / "vocab.txt")
    files = {"train": f"{notes}/*.jsonl*"}
    sio.pretraining.register_files("other", files, other, text_field="body")
    made = sio.export.export("other", "train", tmp_path)["other"]
    with pytest.raises(ValueError, match="padding has id 1 in this vocabulary, but"):
        register(sio, {"train": made}, "padded")
    with pytest.raises(ValueError, match="have different tokenizers .train .*, valid"):
        register(sio, {"train": cache, "validation": made}, "both")
    forget_tasks(sio)


@pytest.mark.full
def test_a_task_is_registered_again_in_its_own_place(sio, cache, tasks):
    first = examples(sio, "spans")
    register(sio, {"train": cache}, "spans", Denoising("spans", Spans(0.05)))
    assert sum(len(x["targets"]) for x in first) > 1.5 * sum(
        len(x["targets"]) for x in examples(sio, "spans")
    )
