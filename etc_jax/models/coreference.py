"""Coreference as a choice of an antecedent for each span (Lee et al. 2017, 2018).

The model of Lee et al. 2018 as Joshi et al. 2019 put it on an encoder of tokens: all
spans get a score, the best are kept, each of them is paired with the earlier ones that
a bilinear score finds likely, and these pairs get the full score. Left out are
higher-order inference, features of speakers and genre, and the rule that kept spans do
not cross, which is a loop over spans that no accelerator does well.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from etc_jax.layers.common import Dense, Embed, truncated_normal
from etc_jax.layers.dropout import Dropout

# The score of an antecedent that is none.
MASKED = -1e30
# Distances 0, 1, 2, 3, 4, 5-7, 8-15, 16-31, 32-63 and 64 or more, in spans.
_DISTANCES = (1, 2, 3, 4, 5, 8, 16, 32, 64)


class SpanPairs(NamedTuple):
    """The kept spans of a document, and the likely antecedents of each.

    Attributes:
      top_spans: int32 `[k]`, candidates that are kept, in ascending order.
      top_mask: bool `[k]`, False after the last kept one.
      mention_scores: float32 `[k]`, of being a mention at all.
      antecedents: int32 `[k, c]`, kept spans (indices of `top_spans`), each below its
        row, in ascending order; 0 where there is none.
      antecedent_mask: bool `[k, c]`.
      scores: float32 `[k, 1 + c]`, of having no antecedent, which is 0, and of each
        antecedent; `MASKED` where there is none.
    """

    top_spans: jax.Array
    top_mask: jax.Array
    mention_scores: jax.Array
    antecedents: jax.Array
    antecedent_mask: jax.Array
    scores: jax.Array


def distance_bucket(distance: jax.Array) -> jax.Array:
    """int `[...]` of 0 or more -> int `[...]`, the bucket of each, 0 to 9."""
    # right: 0 to 4 -> themselves, 5 to 7 -> 5, 8 to 15 -> 6, 64 or more -> 9.
    return jnp.searchsorted(jnp.array(_DISTANCES), distance, side="right")


# --- spans ----------------------------------------------------------------------------


class _Source(NamedTuple):
    """What rows of spans are made of.

    Attributes:
      rows: `[t, d]`.
      looks: float32 `[t]`, logits of being the head of a span.
      widths: `[max_tokens, feature_dim]`, by the number of further tokens.
    """

    rows: jax.Array
    looks: jax.Array
    widths: jax.Array


def _span_rows(source: _Source, first: jax.Array, last: jax.Array) -> jax.Array:
    """First row, last row, mean weighted by `looks`, width: `[s]` -> `[s, e]`."""
    rows, looks, widths = source
    # [1, max_tokens]
    further = jnp.arange(len(widths))[None]
    # [s]; a span that is too long is no candidate, but has a row like the others.
    width = jnp.minimum(last - first, len(widths) - 1)
    # [s, max_tokens], rows of the tokens from the first one on.
    index = jnp.minimum(first[:, None] + further, len(rows) - 1)
    logits = jnp.where(further <= width[:, None], looks[index], MASKED)
    # Over the tokens of the span alone: [s, max_tokens]
    weights = jax.nn.softmax(logits, axis=1).astype(rows.dtype)
    # [s, w], [s, w, d] -> [s, d]
    mean = jnp.einsum("sw,swd->sd", weights, rows[index])
    # [s, 3 * d + feature_dim]
    return jnp.concatenate([rows[first], rows[last], mean, widths[width]], axis=1)


# --- chunks ---------------------------------------------------------------------------


def _scanned(body: type[nn.Module]) -> Callable[..., nn.Module]:
    """A module of (carry, chunk, shared), over chunks that are computed again later."""
    return nn.scan(
        # The loop itself keeps the two computations apart.
        nn.remat(body, prevent_cse=False),
        # One module for all chunks; each draws its own dropout.
        variable_broadcast="params",
        split_rngs={"params": False, "dropout": True},
        # Chunks a step at a time; `shared` whole.
        in_axes=(0, nn.broadcast),
    )


def _by_chunks(chunks_fn: Callable, arrays: tuple[jax.Array, ...], length: int):
    """What is made of rows, a chunk of them at a time.

    Args:
      chunks_fn: `[chunks, length, ...]` each -> `[chunks, length, ...]`.
      arrays: `[rows, ...]` each; the last chunk is filled up with zeros.
      length: rows of a chunk, at most.

    Returns:
      `[rows, ...]`.
    """
    number = len(arrays[0])
    length = min(length, number)
    chunks = -(-number // length)

    def cut(x: jax.Array) -> jax.Array:
        # [rows, ...] -> [chunks, length, ...]
        more = [(0, chunks * length - number)] + [(0, 0)] * (x.ndim - 1)
        return jnp.pad(x, more).reshape(chunks, length, *x.shape[1:])

    # [chunks, length, ...] -> [rows, ...], without what filled up the last one.
    out = chunks_fn(tuple(map(cut, arrays)))
    return out.reshape(chunks * length, *out.shape[2:])[:number]


class _Ffnn(nn.Module):
    """One hidden layer and a logit: `[..., e]` -> float32 `[...]`."""

    ffnn_dim: int
    dropout_rate: float
    stddev: float
    dtype: jnp.dtype
    deterministic: bool

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        # [..., e] -> [..., ffnn_dim]
        hidden = Dense((self.ffnn_dim,), self.stddev, self.dtype, name="wi")(x)
        dropout = Dropout(self.dropout_rate)
        hidden = dropout(jax.nn.relu(hidden), deterministic=self.deterministic)
        # [..., ffnn_dim] -> float32 [...]
        return Dense((1,), self.stddev, jnp.float32, name="wo")(hidden)[..., 0]


class _MentionScores(nn.Module):
    """Scan body: first and last rows `[s]` -> scores `[s]`."""

    make_ffnn: Callable[[], nn.Module]

    @nn.compact
    def __call__(self, carry, chunk, source: _Source):
        return carry, self.make_ffnn()(_span_rows(source, *chunk))


class _PairScores(nn.Module):
    """Scan body: rows `[s, e]`, antecedents and buckets `[s, c]` -> scores `[s, c]`."""

    make_ffnn: Callable[[], nn.Module]

    @nn.compact
    def __call__(self, carry, chunk, shared):
        (rows, antecedents, buckets), (top_rows, distances) = chunk, shared
        # [k, e] at [s, c] -> [s, c, e]
        antecedent = top_rows[antecedents]
        span = jnp.broadcast_to(rows[:, None], antecedent.shape)
        # [s, c, 3 * e + feature_dim]
        x = jnp.concatenate(
            [span, antecedent, span * antecedent, distances[buckets]], axis=-1
        )
        return carry, self.make_ffnn()(x)


# --- head -----------------------------------------------------------------------------


class SpanPairHead(nn.Module):
    """Rows of tokens to kept spans and the scores of their antecedents.

    Attributes:
      ffnn_dim: hidden width of both feed-forward scores.
      feature_dim: width of the embeddings of a span's width and a pair's distance.
      dropout_rate: of the hidden rows.
      max_tokens: of a span; a longer one is no candidate.
      top_ratio: kept spans for each word of the document.
      max_spans: kept spans at most.
      max_antecedents: c, of each kept span.
      chunk_length: spans, and pairs, whose rows are in memory at a time.
      initializer_range: standard deviation of the parameters' truncated normal.
      dtype: of the rows; scores are float32.
      deterministic: no dropout.
    """

    ffnn_dim: int = 3000
    feature_dim: int = 20
    dropout_rate: float = 0.3
    max_tokens: int = 30
    top_ratio: float = 0.4
    max_spans: int = 1600
    max_antecedents: int = 50
    chunk_length: int = 1024
    initializer_range: float = 0.02
    dtype: jnp.dtype = jnp.float32
    deterministic: bool = True

    @nn.compact
    def __call__(
        self,
        rows: jax.Array,
        first: jax.Array,
        last: jax.Array,
        mask: jax.Array,
        num_words: jax.Array,
    ) -> SpanPairs:
        """Scores the spans of one document.

        `k` is the smallest of `max_spans`, m and ceil(top_ratio * t): a text has no
        more words than tokens. Of these, ceil(top_ratio * num_words) are kept.

        Args:
          rows: `[t, d]`, the encoder's rows of all parts of the document, end to end.
          first: int `[m]`, the row of each candidate's first token, in the order of
            the text.
          last: int `[m]`, the row of its last token.
          mask: bool `[m]`, False for padding.
          num_words: int `[]`, of the document.

        Raises:
          ValueError: if the shapes disagree.
        """
        same = first.shape == last.shape == mask.shape == (first.size,)
        if rows.ndim != 2 or not same or not first.size:
            raise ValueError(
                f"rows {rows.shape}, first {first.shape}, last {last.shape}, mask "
                f"{mask.shape}; expected [t, d] of one document, and [m] three times, "
                "m not 0"
            )
        # Rows [t, d], logits of heads [t], widths [max_tokens, feature_dim].
        source = self._source(rows.astype(self.dtype))
        mask = mask & (last - first < self.max_tokens)
        # float32 [m]
        scores = self._mention_scores(source, first, last)
        room = min(self.max_spans, len(first), math.ceil(self.top_ratio * len(rows)))
        # k = room: [k], [k]
        top, top_mask = self._top_spans(scores, mask, num_words, room)
        # [k, e] with e = 3 * d + feature_dim
        top_rows = self._top_rows(source, first[top], last[top])
        scores = scores[top]
        # [k] -> [k, k]: how likely each pair is, without the feed-forward score.
        coarse = self._coarse_scores(top_rows) + scores[:, None] + scores[None]
        # [k, c], [k, c]
        antecedents, antecedent_mask = self._likely(coarse, top_mask)
        # [k, k] at [k, c] -> [k, c]
        full = jnp.take_along_axis(coarse, antecedents, axis=1)
        full += self._pair_scores(top_rows, antecedents)
        full = jnp.where(antecedent_mask, full, MASKED)
        # Having no antecedent scores 0, which the others are measured against.
        none = jnp.zeros((len(top), 1), jnp.float32)
        # [k, 1 + c]
        full = jnp.concatenate([none, full], axis=1)
        return SpanPairs(top, top_mask, scores, antecedents, antecedent_mask, full)

    def _source(self, rows: jax.Array) -> _Source:
        stddev = self.initializer_range
        # [t, d] -> [t, 1]
        looks = Dense((1,), stddev, jnp.float32, name="head_attention")(rows)
        widths = self._table("width_embedder", self.max_tokens)
        return _Source(rows, looks[:, 0], widths)

    def _table(self, name: str, rows: int) -> jax.Array:
        """`[rows, feature_dim]`, all rows of an embedding."""
        init, width = truncated_normal(self.initializer_range), self.feature_dim
        embed = Embed(rows, width, embedding_init=init, dtype=self.dtype, name=name)
        return embed(jnp.arange(rows))

    def _ffnn(self) -> Callable[[], nn.Module]:
        sizes = (self.ffnn_dim, self.dropout_rate, self.initializer_range)
        last = (self.dtype, self.deterministic)
        return functools.partial(_Ffnn, *sizes, *last, name="ffnn")

    def _mention_scores(self, source: _Source, first, last) -> jax.Array:
        """float32 `[m]`."""
        module = _scanned(_MentionScores)(self._ffnn(), name="mention")

        def score_fn(chunks):
            return module(None, chunks, source)[1]

        return _by_chunks(score_fn, (first, last), self.chunk_length)

    def _top_rows(self, source: _Source, first, last) -> jax.Array:
        """`[k, 3 * d + feature_dim]`."""
        row_fn = jax.checkpoint(lambda chunk: _span_rows(source, *chunk))
        return _by_chunks(
            lambda chunks: jax.lax.map(row_fn, chunks), (first, last), self.chunk_length
        )

    def _top_spans(self, scores, mask, num_words, k) -> tuple[jax.Array, jax.Array]:
        """Indices of the spans of the highest scores, in ascending order: `[k]`, mask.

        Those after the last one are the last candidate.
        """
        number = len(scores)
        # A choice has no gradient; the scores of what is chosen have.
        ranked = jnp.where(mask, jax.lax.stop_gradient(scores), -jnp.inf)
        # [m] -> [k], from the highest score on.
        best, index = jax.lax.top_k(ranked, k)
        wanted = jnp.ceil(self.top_ratio * num_words)
        # Static shapes: k places for every document, of which some may stay empty.
        is_top = (jnp.arange(k) < wanted) & (best > -jnp.inf)
        # What is not kept becomes `number` and so comes last.
        order = jnp.sort(jnp.where(is_top, index, number))
        return jnp.minimum(order, number - 1), order < number

    def _coarse_scores(self, top_rows: jax.Array) -> jax.Array:
        """The bilinear score of each pair: float32 `[k, k]`."""
        sizes = (top_rows.shape[1:], self.initializer_range, self.dtype)
        mapped = Dense(*sizes, use_bias=False, name="coarse")(top_rows)
        # [k, e], [k, e] -> [k, k]
        return jnp.einsum(
            "ie,je->ij", mapped, top_rows, preferred_element_type=jnp.float32
        )

    def _likely(self, coarse, top_mask) -> tuple[jax.Array, jax.Array]:
        """Earlier spans of the highest scores, in ascending order: `[k, c]`, mask."""
        k = len(coarse)
        # bool [k, k]: spans are in the order of the text.
        earlier = jnp.tril(jnp.ones((k, k), bool), -1)
        allowed = earlier & top_mask[:, None] & top_mask[None]
        ranked = jnp.where(allowed, jax.lax.stop_gradient(coarse), -jnp.inf)
        # [k, k] -> [k, c]
        best, index = jax.lax.top_k(ranked, min(self.max_antecedents, k))
        # As in `_top_spans`: empty places last, and ascending in each row.
        order = jnp.sort(jnp.where(best > -jnp.inf, index, k), axis=1)
        return jnp.where(order < k, order, 0), order < k

    def _pair_scores(self, top_rows, antecedents) -> jax.Array:
        """The feed-forward score of each pair: float32 `[k, c]`."""
        k, c = antecedents.shape
        # [k, 1] - [k, c] -> [k, c]; empty places hold 0.
        buckets = distance_bucket(jnp.maximum(jnp.arange(k)[:, None] - antecedents, 0))
        # [10, feature_dim]
        distances = self._table("distance_embedder", len(_DISTANCES) + 1)
        module = _scanned(_PairScores)(self._ffnn(), name="antecedent")

        def score_fn(chunks):
            return module(None, chunks, (top_rows, distances))[1]

        # `chunk_length` counts pairs here: c of them in each row.
        chunk_length = max(1, self.chunk_length // c)
        return _by_chunks(score_fn, (top_rows, antecedents, buckets), chunk_length)
