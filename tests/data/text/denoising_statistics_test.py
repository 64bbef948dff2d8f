"""10,000 examples of each denoising task: shares, spans, and that nothing is lost."""

import dataclasses
import functools
import itertools
from math import comb

import numpy as np
import pytest
from scipy import stats

from etc_jax import config as config_lib
from etc_jax.configs.text_to_text import denoising as configs
from etc_jax.data.pretraining.denoising import Spans
from etc_jax.data.pretraining.masking import generator
from etc_jax.data.text.denoised import DenoisedRows, Denoising, Marks
from etc_jax.data.text.packing import PackedWindow
from etc_jax.objectives.jobs.denoising import task_of

BEGIN, END, MASK, FIRST_TOKEN, FIRST_SENTINEL = 0, 1, 2, 3, 1_000_000
# Draws are those of one seed: a test that has passed will pass.
LEAST_P = 1e-3
FULL = pytest.mark.full


def cases(*named, full=()):
    """(variant of --config=denoising, tokens of an input, examples) as parameters.

    A length of None is that of the config.
    """
    return pytest.mark.parametrize(
        "variant, length, count",
        [
            *itertools.starmap(pytest.param, named),
            *(pytest.param(*case, marks=FULL) for case in full),
        ],
    )


def task_and_length(variant, length):
    """(what is missing, tokens of an input) of a config, or that length."""
    config = config_lib.from_config_dict(configs.get_config(variant))
    return task_of(config.objective), length or config.data.input_length


@functools.cache
def window_of(length, seed):
    """A text in which each token has an id of its own, in sentences of 1 to 49."""
    lengths = np.random.default_rng(seed).integers(1, 50, length)
    ends = np.minimum(np.cumsum(lengths), length)
    lengths = np.diff(ends[: np.searchsorted(ends, length) + 1], prepend=0)
    tokens = np.arange(length, dtype=np.int32) + FIRST_TOKEN
    one_document = np.ones_like(lengths)
    starts = np.ones(length, bool)
    return PackedWindow(tokens, starts, lengths, one_document, one_document)


def examples(task, length, count):
    """(window, what is read, what is to be written) of so many texts."""
    sentinels = tuple(range(FIRST_SENTINEL, FIRST_SENTINEL + length))
    rows = DenoisedRows(
        Marks(BEGIN, END, MASK, sentinels),
        task,
        input_length=length,
        target_length=2 * length,
    )
    for number in range(count):
        window = window_of(rows.text_length, number % 100)
        found, cut = rows.example(window, generator(7, 0, number))
        read, written = found
        assert not cut and len(read) <= length
        assert read[0] == written[0] == BEGIN and read[-1] == written[-1] == END
        yield window, read[1:-1], written[1:-1]


def after_sentinels(side):
    """(tokens before the first sentinel, {sentinel: tokens up to the next one})."""
    at, tokens = np.flatnonzero(side >= FIRST_SENTINEL).tolist(), side.tolist()
    bounds = [*at, len(tokens)]
    runs = {tokens[i]: tokens[i + 1 : j] for i, j in itertools.pairwise(bounds)}
    return tokens[: bounds[0]], runs


def refilled(read, written):
    """The text of span corruption, span by span."""
    out, kept = after_sentinels(read)
    nothing, spans = after_sentinels(written)
    assert not nothing and spans.keys() == kept.keys()
    for sentinel, tokens in kept.items():
        out += spans[sentinel] + tokens
    return out


def p_of_lengths(found, pmf):
    """p of a chi-square test of independent lengths against a distribution.

    Lengths of which fewer than 10 are expected are taken together.
    """
    expected = len(found) * np.array([pmf(x) for x in range(max(found) + 1)])
    rare = expected < 10
    got = np.bincount(found, minlength=len(expected))
    bins = [*got[~rare], got[rare].sum()]
    wanted = [*expected[~rare], len(found) - expected[~rare].sum()]
    return stats.chisquare(bins, wanted).pvalue


def random_part(total, count):
    """P(a part has l) of `total` in `count` parts, each way as likely as any other."""
    ways = comb(total - 1, count - 1)
    return lambda x: comb(total - x - 1, count - 2) / ways if 1 <= x < total else 0.0


def spans_of(task, length, count):
    """Checks every example; (missing tokens of a text, lengths of its spans) of all."""
    lengths = []
    for window, read, written in examples(task, length, count):
        assert refilled(read, written) == window.tokens.tolist()
        at = np.flatnonzero(written >= FIRST_SENTINEL)
        in_order = FIRST_SENTINEL + np.arange(len(at))
        assert np.array_equal(written[at], in_order)
        assert np.array_equal(read[read >= FIRST_SENTINEL], in_order)
        lengths.append(np.diff(at, append=len(written)) - 1)
        # The share of every text is exact, up to a token.
        missing = int(lengths[-1].sum())
        assert abs(missing - task.spans.density * len(window.tokens)) <= 0.5
    return missing, lengths


@cases(
    ("t5", None, 10_000),
    full=[
        ("fixed3", None, 10_000),
        ("average5", None, 10_000),
        ("8k,average5", None, 10_000),
        ("fixed3", 2048, 10_000),
    ],
)
def test_spans_of_one_mean_are_random_segments(variant, length, count):
    """Raffel et al. 2020: as many spans as the mean says, with borders at random."""
    task, length = task_and_length(variant, length)
    missing, lengths = spans_of(task, length, count)
    number = round(missing / task.spans.mean_length)
    assert {len(x) for x in lengths} == {number}
    # The first span of each text: those of one text have one sum.
    firsts = [x[0] for x in lengths]
    assert p_of_lengths(firsts, random_part(missing, number)) > LEAST_P


@cases(
    ("", 2048, 1000),
    ("8k", 512, 3000),
    full=[("", None, 10_000), ("8k", None, 10_000), ("", 2048, 10_000)],
)
def test_a_third_of_the_texts_has_each_of_three_means(variant, length, count):
    task, length = task_and_length(variant, length)
    missing, lengths = spans_of(task, length, count)
    by_number = {round(missing / mean): [] for mean in task.spans.mixed_means}
    for x in lengths:
        by_number[len(x)].append(x[0])
    assert stats.chisquare([len(x) for x in by_number.values()]).pvalue > LEAST_P
    for number, firsts in by_number.items():
        assert p_of_lengths(firsts, random_part(missing, number)) > LEAST_P


def poisson_of_one_or_more(mean):
    """The pmf of a Poisson distribution in which 0 became 1."""
    pmf = stats.poisson(mean).pmf
    return lambda x: {0: 0.0, 1: pmf(0) + pmf(1)}.get(x, pmf(x))


@pytest.mark.parametrize(
    "length, share, count",
    [
        (512, 0.3, 3000),
        pytest.param(16_384, 0.0625, 10_000, marks=FULL),
        pytest.param(8192, 0.125, 10_000, marks=FULL),
    ],
)
def test_spans_drawn_alone_are_those_of_poisson(length, share, count):
    task = Denoising("spans", Spans(share, "poisson", 3.0))
    _, lengths = spans_of(task, length, count)
    # The last one is cut, so that the first ones are independent.
    firsts = np.concatenate([x[:10] for x in lengths])
    assert p_of_lengths(firsts, poisson_of_one_or_more(3.0)) > LEAST_P


def mean_number(budget, mean):
    """Draws of a Poisson distribution until their sum is `budget`, in the mean."""
    pmf = stats.poisson(mean).pmf(np.arange(budget + 1))
    numbers = np.zeros(budget + 1)
    for b in range(1, budget + 1):
        numbers[b] = (1 + pmf[1:b] @ numbers[b - 1 : 0 : -1]) / (1 - pmf[0])
    return numbers[budget]


@cases(
    ("bart", 512, 2000),
    full=[("bart", None, 10_000), ("bart", 8192, 1000), ("bart", 16_384, 1000)],
)
def test_infilling_writes_the_whole_text_and_masks_poisson_spans(
    variant, length, count
):
    """Lewis et al. 2020, section 2.2: 30 % of the tokens, spans of Poisson(3)."""
    task, length = task_and_length(variant, length)
    assert task.permute_sentences
    task = dataclasses.replace(task, permute_sentences=False)
    spans, masks = [], []
    for window, read, written in examples(task, length, count):
        assert np.array_equal(written, window.tokens)
        at = np.flatnonzero(read == MASK)
        masks.append(len(at))
        kept = np.delete(read, at)
        missing = len(written) - len(kept)
        assert missing == round(task.spans.density * len(written))
        # Tokens count upwards: what a mask stands for is the step over it.
        around = np.concatenate([[FIRST_TOKEN - 1], read, [written[-1] + 1]])
        steps = around[at + 2] - around[at] - 1
        assert steps.min() >= 0 and steps.sum() == missing
        assert (np.diff(kept) > 0).all() and np.diff(at).min() > 1
        # Their order is random, so that any one is as good as another.
        spans.append(int(steps[0]))
    mean = task.spans.mean_length
    # One of each text: those of one have one sum, and the last one drawn is cut.
    assert p_of_lengths(spans, stats.poisson(mean).pmf) > LEAST_P
    error = np.std(masks) / count**0.5
    assert abs(np.mean(masks) - mean_number(missing, mean)) < 4 * error


@cases(("bart", 512, 500), full=[("bart", None, 10_000)])
def test_sentences_of_infilling_are_read_in_another_order(variant, length, count):
    task, length = task_and_length(variant, length)
    moved = 0
    for window, read, written in examples(task, length, count):
        assert np.array_equal(written, window.tokens)
        kept = read[read != MASK] - FIRST_TOKEN
        sentence = np.repeat(np.arange(len(window.lengths)), window.lengths)[kept]
        runs = sentence[np.flatnonzero(np.diff(sentence, prepend=-1))]
        # Each sentence is in one piece, and its tokens are in order.
        assert len(set(runs.tolist())) == len(runs)
        assert (np.diff(kept)[np.diff(sentence) == 0] > 0).all()
        moved += bool((np.diff(runs) < 0).any())
    assert moved == count


def with_gaps_refilled(window, read, written):
    """The text of gap sentences, sentence by sentence."""
    read_at, written_at, out = 0, 0, []
    for length in window.lengths.tolist():
        if read[read_at] == MASK:
            out.append(written[written_at : written_at + length])
            read_at, written_at = read_at + 1, written_at + length
        else:
            out.append(read[read_at : read_at + length])
            read_at += length
    assert (read_at, written_at) == (len(read), len(written))
    return np.concatenate(out)


@cases(
    ("gaps", 512, 2000),
    full=[("gaps", 2048, 10_000), ("gaps", None, 10_000), ("gaps,8k", None, 10_000)],
)
def test_gap_sentences_are_a_share_and_refill_the_text(variant, length, count):
    """Zhang et al. 2020, section 3.1: whole sentences, one mask each."""
    task, length = task_and_length(variant, length)
    for window, read, written in examples(task, length, count):
        gaps, sentences = int((read == MASK).sum()), len(window.lengths)
        assert gaps == max(1, round(task.spans.density * sentences))
        text = with_gaps_refilled(window, read, written)
        assert np.array_equal(text, window.tokens)
