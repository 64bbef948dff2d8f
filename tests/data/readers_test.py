"""What all readers of batches promise, whatever they read."""

import pickle

import jax
import numpy as np
import pytest
from causal_pairs import PIECES, WORDS, write
from random_params import assert_equal
from toy_text import AMPLE, ids_of, make_cache, make_plan, take
from window_samples import SOURCE, make_rich_window, make_tokenizer, make_windows
from written_windows import write_windows

from etc_jax.data.bytes.duplication import DuplicationReader
from etc_jax.data.bytes.images import ImageReader
from etc_jax.data.bytes.masked import MaskedBytes
from etc_jax.data.bytes.stream import ByteEvaluation, ByteReader, StreamSlice
from etc_jax.data.mixture import Mixture
from etc_jax.data.pretraining.denoising import Spans
from etc_jax.data.pretraining.masking import MaskingShares
from etc_jax.data.pretraining.readers import MixtureReader, PretrainingReader
from etc_jax.data.text.concatenation import Concatenation
from etc_jax.data.text.denoised import DenoisedRows, Denoising, Marks
from etc_jax.data.text.packed import CausalRows, MaskedRows
from etc_jax.data.text.packing import pack
from etc_jax.data.text.pairs import PairReader
from etc_jax.data.text.reader import TextReader
from etc_jax.data.tokenizers.wordpiece import WordPieceTokenizer
from etc_jax.data.windows.cache import WindowReader
from etc_jax.data.workers import dumps
from etc_jax.datasets import pair_cache

ROWS, N = 4, 64
# Not one after the other, and the same again.
STEPS = (9, 0, 31, 9)
TEXT = make_cache(30, longest=20, vocab_size=500)
OTHER = make_cache(10, longest=20, vocab_size=500, seed=1)
STREAM = StreamSlice(np.random.default_rng(0).integers(0, 256, 5000, np.uint8), 9, 4800)
IMAGES = np.random.default_rng(0).integers(0, 256, (5, 12), np.uint8)


def windows(folder, make_fn=None, **how):
    made = make_windows(7, **({"make_fn": make_fn} if make_fn else {}))
    cache = write_windows(made, make_tokenizer(), folder / str(make_fn), SOURCE)
    return WindowReader([cache], lengths={"long": 40, "global": 12}, **how)


def pairs(folder, packed, **how):
    values = [{"input": " ".join(WORDS[:n]), "target": WORDS[n]} for n in (1, 4, 2)]
    file = write(folder / "a.jsonl", values * 5)
    cache = pair_cache.prepared([file], WordPieceTokenizer(PIECES), folder / "pairs")
    return PairReader(cache, lengths={"input": 9, "target": 3}, packed=packed, **how)


def packed(cache):
    sizes = {"long_length": N, "max_sentence_tokens": 40, "min_sentences": 1}
    return cache, pack(cache, global_length=None, **sizes)


def concatenated(cache):
    sizes = {"max_sentence_tokens": 40, "min_sentences": 1}
    return cache, Concatenation(cache, long_length=N, **sizes)


def denoised(kind, **options):
    task = Denoising(kind, Spans(0.3), **options)
    marks = Marks(1, 2, 3, tuple(range(4, 104)))
    sizes = {"input_length": N + 2, "target_length": N + 2}
    return DenoisedRows(marks, task, **sizes)


def pretraining(how, *caches):
    texts, ids = [(cache, make_plan(cache)) for cache in caches], ids_of(TEXT)
    if len(texts) == 1:
        return PretrainingReader(*texts[0], ids, AMPLE, **how)
    return MixtureReader(texts, Mixture((3.0, 1.0), seed=5), ids, AMPLE, **how)


def masked_bytes(evaluation, **how):
    if evaluation:
        plain = ByteEvaluation(STREAM, length=40, scored=9, batch_size=ROWS)
    else:
        plain = ByteReader(STREAM, length=40, batch_size=ROWS, seed=3)
    return MaskedBytes(plain, capacity=6, **how)


CAUSAL = CausalRows(ids_of(TEXT), length=N)
MASKED = MaskedRows(ids_of(TEXT), length=N, capacity=8, shares=MaskingShares())
# Name -> a reader made anew; `how` has batch_size and seed, and evaluation.
BOTH = {
    "windows": lambda folder, how: windows(folder, **how),
    "rich windows": lambda folder, how: windows(folder, make_rich_window, **how),
    "flat windows": lambda folder, how: windows(folder, flat=True, **how),
    "pairs": lambda folder, how: pairs(folder, packed=False, **how),
    "packed pairs": lambda folder, how: pairs(folder, packed=True, **how),
    "causal": lambda folder, how: TextReader([packed(TEXT)], CAUSAL, **how),
    "masked": lambda folder, how: TextReader([packed(TEXT)], MASKED, **how),
    "concatenated": lambda folder, how: TextReader([concatenated(TEXT)], MASKED, **how),
    "spans": lambda folder, how: TextReader([packed(TEXT)], denoised("spans"), **how),
    "infilling": lambda folder, how: TextReader(
        [concatenated(TEXT)], denoised("infilling"), **how
    ),
    "gap sentences": lambda folder, how: TextReader(
        [packed(TEXT)], denoised("gap_sentences", gap_choice="random"), **how
    ),
    "pretraining": lambda folder, how: pretraining(how, TEXT),
    "images": lambda folder, how: ImageReader(IMAGES, length=12, **how),
    "masked bytes": lambda folder, how: masked_bytes(**how),
    "duplication": lambda folder, how: DuplicationReader(
        length=12, num_symbols=99, **how
    ),
}
# Those that are of training alone.
MIXED = {"mixture": Mixture((2.0, 1.0), seed=5)}
TRAINING = {
    "mixture": lambda folder, how: pretraining(how, TEXT, OTHER),
    "mixture of packed": lambda folder, how: TextReader(
        [packed(TEXT), packed(OTHER)], denoised("spans"), **MIXED, **how
    ),
    "mixture of concatenated": lambda folder, how: TextReader(
        [concatenated(TEXT), concatenated(OTHER)], CAUSAL, **MIXED, **how
    ),
    "bytes": lambda folder, how: ByteReader(STREAM, length=40, **how),
}
# A number that is out of range is named by all that are given one.
CASES = [*((name, side) for name in BOTH for side in (False, True))]
CASES += [(name, False) for name in TRAINING]


def made(name, folder, evaluation, **changes):
    how = {"batch_size": ROWS, "seed": 3} | changes
    if name in TRAINING:
        return TRAINING[name](folder, how)
    return BOTH[name](folder, {**how, "evaluation": evaluation})


def steps_of(reader, name, evaluation):
    """(steps to be tried, how many there are or None)."""
    if not evaluation or name == "duplication":
        return STEPS, None
    reader = getattr(reader, "_windows", reader)  # of masked bytes
    count = getattr(reader, "steps", None) or reader.steps_per_epoch
    return (count - 1, 0, count - 1), count


@pytest.mark.parametrize("name, evaluation", CASES)
def test_a_batch_is_a_function_of_the_step_and_of_its_rows(name, evaluation, tmp_path):
    reader, fresh = (made(name, tmp_path, evaluation) for _ in range(2))
    steps, count = steps_of(reader, name, evaluation)
    first, *_, last = batches = [reader.batch_at(step) for step in steps]
    assert_equal(first, last)
    pairs_of_leaves = zip(*map(jax.tree.leaves, batches[:2]), strict=True)
    assert any(np.any(x != y) for x, y in pairs_of_leaves)
    assert_equal(fresh.batch_at(steps[0]), first)
    for rows in (slice(0, 2), slice(2, 4), [2, 0], np.array([1]), slice(0, 0)):
        assert_equal(fresh.batch_at(steps[0], rows), take(first, rows))
    for beyond in (-1, *([count] if count else [])):
        expected = f"0\\.\\.{count - 1}" if count else "0 or more"
        message = f"no batch for step {beyond}; expected {expected}"
        with pytest.raises(IndexError, match=message):
            reader.batch_at(beyond)


@pytest.mark.parametrize("name, evaluation", CASES)
def test_another_process_builds_the_same(name, evaluation, tmp_path):
    reader = made(name, tmp_path, evaluation)
    steps, _ = steps_of(reader, name, evaluation)
    reader.batch_at(steps[0])  # so that it has an order at hand
    again = pickle.loads(dumps(reader, tmp_path))
    for step in steps[:3]:
        assert_equal(again.batch_at(step), reader.batch_at(step))


@pytest.mark.parametrize("name", [*BOTH, *TRAINING])
@pytest.mark.parametrize(
    "changes, message",
    [({"batch_size": 0}, "batch_size is 0; exp"), ({"seed": -1}, "seed is -1; exp")],
)
def test_numbers_out_of_range_are_named(name, changes, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        made(name, tmp_path, False, **changes)
