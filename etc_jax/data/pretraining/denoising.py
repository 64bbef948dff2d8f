"""Texts with something missing, and what was there: for encoder-decoders.

All functions are of token ids in numpy, and of a generator that makes an example a
function of its position. Span corruption (Raffel et al. 2020, section 3.1.4), spans
of one length or of several (Xiong et al. 2022, section 2.3); text infilling with
sentences in another order (Lewis et al. 2020, section 2.2); gap sentences (Zhang et al.
2020, section 3.1).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np

from etc_jax.base.rules import choice

SpanLengths = Literal["fixed", "poisson", "mixed"]
GapChoice = Literal["independent", "sequential", "random", "lead"]


class Corrupted(NamedTuple):
    """A text with something missing.

    Attributes:
      input: int `[n]`, what is read.
      target: int `[m]`, what is to be written.
    """

    input: np.ndarray
    target: np.ndarray


@dataclasses.dataclass(frozen=True)
class Spans:
    """Which spans of a text are missing.

    Attributes:
      density: share of the tokens.
      lengths: "fixed": the mean is `mean_length`, as T5 draws them; "mixed": the mean
        of a text is drawn of `mixed_means`; "poisson": each span is drawn alone.
      mean_length: tokens of a span.
      mixed_means: tokens of a span, of which each text draws one: BART-LS' code has 4,
        8 and 12.
    """

    density: float = 0.0625
    lengths: SpanLengths = "fixed"
    mean_length: float = 3.0
    mixed_means: tuple[float, ...] = (4.0, 8.0, 12.0)

    def count_noise(self, length: int) -> int:
        """Missing tokens of a text of two or more."""
        return min(max(round(length * self.density), 1), length - 1)

    def most(self, length: int) -> int:
        """Spans of a text of so many tokens, at most."""
        noise = self.count_noise(length)
        if self.lengths == "poisson":
            return min(noise, length - noise)
        # The shortest mean gives the most spans.
        means = self.mixed_means if self.lengths == "mixed" else (self.mean_length,)
        return max(_num_spans(noise, length, mean) for mean in means)

    def draw(self, rng: np.random.Generator, length: int) -> np.ndarray:
        """bool `[length]`, the missing tokens; the first one is there.

        A text of fewer than two tokens is whole.
        """
        if length < 2:
            return np.zeros(length, bool)
        noise = self.count_noise(length)
        if self.lengths == "poisson":
            missing = _poisson_parts(rng, noise, self.mean_length, length - noise)
        else:
            mean = self.mean_length
            if self.lengths == "mixed":
                mean = rng.choice(self.mixed_means)
            missing = _parts(rng, noise, _num_spans(noise, length, mean))
        shown = _parts(rng, length - noise, len(missing))
        # There, missing, there, missing, ...
        lengths = np.stack([shown, missing], axis=1).ravel()
        return np.repeat(np.arange(len(lengths)) % 2 == 1, lengths)


def _num_spans(noise: int, length: int, mean: float) -> int:
    return min(max(round(noise / mean), 1), noise, length - noise)


def _parts(rng: np.random.Generator, total: int, count: int) -> np.ndarray:
    """`count` positive numbers with a sum, each such list as likely as any other."""
    # Cuts between neighbours, each at most once: so no part is empty.
    borders = np.sort(rng.choice(total - 1, count - 1, replace=False)) + 1
    return np.diff(borders, prepend=0, append=total)


def _poisson_parts(
    rng: np.random.Generator, total: int, mean: float, most: int
) -> np.ndarray:
    """Poisson lengths of 1 or more with a sum, of which the last is cut."""
    lengths = np.maximum(rng.poisson(mean, total), 1)
    ends = np.cumsum(lengths)
    count = min(int(np.searchsorted(ends, total)) + 1, most)
    lengths = lengths[:count]
    # The last span takes what is over or missing.
    lengths[-1] += total - ends[count - 1]
    return lengths


def span_starts(missing: np.ndarray) -> np.ndarray:
    """bool `[n]`, the first token of each span of missing ones, bool `[n]`."""
    return missing & ~np.concatenate([[False], missing[:-1]])


def span_corruption(
    tokens: np.ndarray, missing: np.ndarray, sentinels: Sequence[int]
) -> Corrupted:
    """T5's task: each missing span becomes a sentinel, and is written after it.

    Args:
      tokens: int `[n]`.
      missing: bool `[n]`.
      sentinels: ids, in order; as many as there are spans.

    Raises:
      ValueError: if there are too few sentinels.
    """
    starts = span_starts(missing)
    count = int(starts.sum())
    if count > len(sentinels):
        raise ValueError(
            f"{count} spans are missing, but there are {len(sentinels)} sentinels; "
            "make spans longer, or add sentinels to the vocabulary"
        )
    sentinels = np.asarray(sentinels, tokens.dtype)
    marked = tokens.copy()
    marked[starts] = sentinels[:count]
    # Of a span its first position has the sentinel, and the others go.
    read = marked[~missing | starts]
    firsts = np.flatnonzero(starts)
    # Each span after its sentinel, between tokens that then go.
    target = np.insert(tokens, firsts, sentinels[:count])
    in_target = np.insert(missing, firsts, True)
    return Corrupted(read, target[in_target])


def infilling(
    rng: np.random.Generator,
    tokens: np.ndarray,
    *,
    share: float,
    mean_length: float,
    mask: int,
) -> np.ndarray:
    """BART's text infilling: spans, some of them empty, become one mask each.

    Lengths are of a Poisson distribution; an empty span puts a mask between tokens.

    Args:
      rng: of the draws.
      tokens: int `[n]`.
      share: of the tokens that go, at most; less only where no span fits any more.
      mean_length: of the Poisson distribution; 3 in the paper.
      mask: id.
    """
    n = len(tokens)
    budget, lengths = round(share * n), []
    while budget > 0:
        length = min(int(rng.poisson(mean_length)), budget)
        lengths.append(length)
        budget -= length
    lengths = np.array(lengths, np.int64)
    if not len(lengths):
        return tokens
    # Spans do not touch: each order of spans and kept tokens with one of these between
    # two spans is as likely as any other, as far as there are enough of them.
    num_shown = n - int(lengths.sum())
    borders = np.sort(
        rng.choice(num_shown + 1, min(len(lengths), num_shown + 1), replace=False)
    )
    rng.shuffle(lengths)
    lengths = lengths[: len(borders)]
    gaps = np.diff(borders, prepend=0, append=num_shown)
    out, at = [], 0
    for gap, length in zip(gaps, [*lengths, 0], strict=True):
        out.append(tokens[at : at + gap])
        at += int(gap + length)
        out.append(np.array([mask], tokens.dtype))
    # After the last gap there is no span; of too few places, some tokens are left.
    return np.concatenate([*out[:-1], tokens[at:]])


def in_another_order(
    rng: np.random.Generator, tokens: np.ndarray, lengths: np.ndarray
) -> np.ndarray:
    """Sentences in a random order; `lengths` are theirs, int `[sentences]`."""
    parts = np.split(tokens, np.cumsum(lengths)[:-1])
    return np.concatenate([parts[i] for i in rng.permutation(len(parts))])


def gap_sentences(
    tokens: np.ndarray, lengths: np.ndarray, chosen: np.ndarray, mask: int
) -> Corrupted:
    """Pegasus' task: chosen sentences become a mask each, and are to be written.

    Args:
      tokens: int `[n]`.
      lengths: int `[sentences]`, with the sum n.
      chosen: bool `[sentences]`.
      mask: id that stands for a sentence.
    """
    parts = np.split(tokens, np.cumsum(lengths)[:-1])
    gap = np.array([mask], tokens.dtype)
    read = [gap if out else part for part, out in zip(parts, chosen, strict=True)]
    gone = [part for part, out in zip(parts, chosen, strict=True) if out]
    return Corrupted(np.concatenate(read), np.concatenate(gone) if gone else tokens[:0])


def choose_sentences(
    rng: np.random.Generator,
    tokens: np.ndarray,
    lengths: np.ndarray,
    *,
    count: int,
    how: GapChoice,
    unique: bool = True,
) -> np.ndarray:
    """Which sentences are the gaps: bool `[sentences]` (Zhang et al. 2020).

    Args:
      rng: of the draws, and of none but for "random".
      tokens: int `[n]`.
      lengths: int `[sentences]`, with the sum n, each 1 or more.
      count: sentences to choose; never all of them.
      how: "independent": those of the highest ROUGE-1 F1 with all others; "sequential":
        one by one, that with which all chosen have the highest F1 with the rest;
        "random"; "lead": the first.
      unique: a token counts once in a sentence and once in the rest.
    """
    total = len(lengths)
    chosen = np.zeros(total, bool)
    count = min(count, total - 1)
    if count < 1:
        return chosen
    if how == "lead":
        chosen[:count] = True
    elif how == "random":
        chosen[rng.permutation(total)[:count]] = True
    elif how == "independent":
        counts = _counts(tokens, lengths)
        scores = _f1_of_each(counts, np.zeros(total, bool), unique)
        # Of equal ones the first.
        chosen[np.argsort(-scores, kind="stable")[:count]] = True
    elif how == "sequential":
        counts = _counts(tokens, lengths)
        for _ in range(count):
            scores = _f1_of_each(counts, chosen, unique)
            # Below every F1: not chosen again.
            scores[chosen] = -1
            chosen[np.argmax(scores)] = True
    else:
        choice(get_args(GapChoice)).check(how=how)
    return chosen


class _Counts(NamedTuple):
    """Tokens of sentences, each kind once in a sentence.

    Attributes:
      sentence: int `[kinds of all sentences]`.
      kind: int, which token, as a number below `num_kinds`.
      count: how often it is in the sentence.
      num_sentences, num_kinds: of both.
    """

    sentence: np.ndarray
    kind: np.ndarray
    count: np.ndarray
    num_sentences: int
    num_kinds: int


def _counts(tokens: np.ndarray, lengths: np.ndarray) -> _Counts:
    kinds, kind = np.unique(tokens, return_inverse=True)
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    # One number for (sentence, kind), so that one sort counts all.
    pairs, count = np.unique(sentence * len(kinds) + kind, return_counts=True)
    # Back from one number to (sentence, kind).
    sentence, kind = np.divmod(pairs, len(kinds))
    return _Counts(sentence, kind, count, len(lengths), len(kinds))


def _f1_of_each(counts: _Counts, chosen: np.ndarray, unique: bool) -> np.ndarray:
    """ROUGE-1 F1 of the chosen with each sentence and the rest: `[sentences]`."""
    c = counts

    def of_kinds(keep: np.ndarray) -> np.ndarray:
        return np.bincount(c.kind[keep], c.count[keep], c.num_kinds)

    in_chosen = of_kinds(chosen[c.sentence])
    in_rest = of_kinds(~chosen[c.sentence])
    # With the sentence's own: [kinds of all sentences], before and after it moves.
    before = in_chosen[c.kind], in_rest[c.kind]
    after = before[0] + c.count, before[1] - c.count
    if unique:
        in_chosen, in_rest = np.minimum(in_chosen, 1), np.minimum(in_rest, 1)
        before, after = ([np.minimum(x, 1) for x in pair] for pair in (before, after))

    def of_all(change: np.ndarray, start: float) -> np.ndarray:
        return start + np.bincount(c.sentence, change, c.num_sentences)

    size = of_all(after[0] - before[0], in_chosen.sum())
    others = of_all(after[1] - before[1], in_rest.sum())
    common = of_all(
        np.minimum(*after) - np.minimum(*before), np.minimum(in_chosen, in_rest).sum()
    )
    # 2 P R / (P + R), of P = common / size and R = common / others.
    return 2 * common / np.maximum(size + others, 1)
