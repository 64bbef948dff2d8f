"""Beam search over a model that gives logits token by token, in two dialects.

    transformers    the score of a text is its log probability / length ** penalty; of
                    the candidates for k beams, the first k may end
    t5x             ((5 + length) / 6) ** penalty in its place (Wu et al. 2016, section
                    7); all candidates may end, and what has not ended is returned only
                    where nothing has

Lengths are those of what was written, with the token that ends it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp

from etc_jax.base.rules import FINITE, Problem, at_least, choice
from etc_jax.ops import logit_rules

Array = jax.Array
Dialect = Literal["transformers", "t5x"]
DIALECTS = get_args(Dialect)
# The score of what is not there, as in both projects: less than any text's, but finite.
NONE = -1e9


@dataclasses.dataclass(frozen=True)
class Beams:
    """How to search.

    Attributes:
      num_beams: texts that go on side by side.
      length_penalty: power of the length; more than 0 is for longer texts.
      early_stopping: when the search of an input ends. True: when `num_beams` texts
        have ended; False: when the best beam, if it ended here, would not be among
        these; "never": when it could not come among them at any length.
      dialect: of `DIALECTS`.
    """

    num_beams: int
    length_penalty: float = 1.0
    early_stopping: bool | Literal["never"] = False
    dialect: Dialect = "transformers"

    def problems(self) -> Iterator[Problem]:
        """(field, message) for every value that no search can go by."""
        yield from at_least(1).problems(self, "num_beams")
        yield from FINITE.problems(self, "length_penalty")
        yield from choice((True, False, "never")).problems(self, "early_stopping")
        yield from choice(DIALECTS).problems(self, "dialect")

    def problems_with(
        self, vocab_size: int, max_tokens: int, rules: logit_rules.Rules
    ) -> Iterator[Problem]:
        """(field, message) for what a search cannot be with a model.

        Args:
          vocab_size: of the model.
          max_tokens: to be written at most.
          rules: of tokens.
        """
        # As many beams have as many times the vocabulary to go on with.
        if vocab_size < (needed := num_candidates(1, rules)):
            yield (
                "num_beams",
                f"is {self.num_beams}, but a search needs a vocabulary of {needed} "
                f"tokens or more, and the model has {vocab_size}; leave the beams out",
            )
        # A power of a length in float32 that is neither 0 nor infinite.
        largest = 80 / math.log(max(max_tokens, 2))
        if abs(self.length_penalty) > largest:
            yield (
                "length_penalty",
                f"is {self.length_penalty}; expected {-largest:.3g} to {largest:.3g}, "
                f"whose powers of {max_tokens} tokens are numbers of float32",
            )

    def penalty(self, length: Array | int, dtype: jnp.dtype) -> Array:
        """What log probabilities of texts of this length are divided by."""
        length = jnp.asarray(length, dtype)
        if self.dialect == "t5x":
            length = (5 + length) / 6
        return length**self.length_penalty


class Texts(NamedTuple):
    """k texts of each input, with the prompt before them.

    Attributes:
      tokens: int32 `[b, k, length]`.
      scores: float32 `[b, k]`.
    """

    tokens: Array
    scores: Array


class State(NamedTuple):
    """Of a search.

    Attributes:
      live: texts that go on; scores are their log probabilities.
      ended: texts that have ended, the best first.
      is_ended: bool `[b, k]`: the others of `ended` are not there yet.
      is_open: bool `[b]`: a text may still come among those that have ended.
      count: int32 scalar, tokens of the texts that go on, with the prompt.
    """

    live: Texts
    ended: Texts
    is_ended: Array
    is_open: Array
    count: Array


def start(prompt: Array, length: int, num_beams: int, dtype: jnp.dtype) -> State:
    """Before the first token.

    Args:
      prompt: int `[b, m]`, what the decoder was given.
      length: of the longest text, with the prompt.
      num_beams: k.
      dtype: of scores.
    """
    b, m = prompt.shape
    tokens = jnp.zeros((b, num_beams, length), jnp.int32)
    tokens = tokens.at[:, :, :m].set(prompt[:, None])
    none = jnp.full((b, num_beams), NONE, dtype)
    # All beams are the same, so the first one alone counts.
    live = Texts(tokens, none.at[:, 0].set(0.0))
    is_ended, is_open = jnp.zeros((b, num_beams), bool), jnp.ones((b,), bool)
    return State(live, Texts(tokens, none), is_ended, is_open, jnp.int32(m))


def choose(
    logits: Array,
    state: State,
    beams: Beams,
    rules: logit_rules.Rules,
    given: int,
    inputs: Array | None = None,
) -> tuple[State, Array]:
    """One token more.

    Args:
      logits: float `[b * k, vocabulary]` of the tokens after `state.live`.
      state: so far.
      beams: how to search.
      rules: of tokens; what ends is one of its `eos_ids`.
      given: tokens of the prompt.
      inputs: int `[b * k, n]`, see `logit_rules.apply`.

    Returns:
      (state, int32 `[b, k]`: which of the k texts each one goes on from).
    """
    candidates, parents, token = _candidates(logits, state, rules, given, inputs)
    at_end = state.count + 1 == state.live.tokens.shape[2]
    ends = jnp.asarray(logit_rules.is_in(rules.eos_ids, logits.shape[1]))[token]
    if beams.dialect == "transformers":
        ends = ends | at_end
    live, chosen = _best(
        candidates._replace(scores=candidates.scores + jnp.where(ends, NONE, 0.0)),
        beams.num_beams,
    )
    ended, is_ended = _with_ended(state, candidates, ends, beams, given)
    count = state.count + 1
    state = State(live, ended, is_ended, state.is_open, count)
    return (
        state._replace(is_open=state.is_open & _may_improve(state, beams, given)),
        jnp.take_along_axis(parents, chosen, axis=1),
    )


def goes_on(state: State, beams: Beams) -> Array:
    """Whether there is more to write; bool scalar."""
    is_open = state.is_open
    if beams.early_stopping is True:
        is_open = is_open & ~jnp.all(state.is_ended, axis=1)
    return jnp.any(is_open) & (state.count < state.live.tokens.shape[2])


def finish(state: State, beams: Beams) -> Texts:
    """The texts that were found, the best first."""
    if beams.dialect == "transformers":
        return state.ended
    has_ended = jnp.any(state.is_ended, axis=1)
    pairs = zip(state.ended, state.live, strict=True)
    ways = (has_ended[:, None, None], has_ended[:, None])
    return Texts(*(jnp.where(w, a, b) for w, (a, b) in zip(ways, pairs, strict=True)))


def _candidates(logits, state: State, rules, given: int, inputs):
    """(the likeliest texts, which text each goes on from, its last token).

    So many that k of them go on, whichever of the `eos_ids` the others end with.
    """
    b, k, length = state.live.tokens.shape
    logits = jax.nn.log_softmax(logits, axis=-1)
    flat = state.live.tokens.reshape(b * k, length)
    logits = logit_rules.apply(
        logits, rules, flat, state.count, given, length - 1, inputs
    )
    many = num_candidates(k, rules)
    of_each = min(many, logits.shape[1])
    # The likeliest of each text, [b * k, of_each], and of these the likeliest of all.
    scores, tokens = jax.lax.top_k(logits, of_each)
    scores = scores.reshape(b, k, of_each) + state.live.scores[:, :, None]
    scores, index = jax.lax.top_k(scores.reshape(b, -1), many)
    parents = index // of_each
    token = jnp.take_along_axis(tokens.reshape(b, -1), index, axis=1)
    # [b, k, length] -> [b, many, length]
    texts = jnp.take_along_axis(state.live.tokens, parents[:, :, None], axis=1)
    return Texts(texts.at[:, :, state.count].set(token), scores), parents, token


def num_candidates(num_beams: int, rules: logit_rules.Rules) -> int:
    """How many texts a search looks at in each step; k times the vocabulary has them.

    As in transformers, also where no token ends a text.
    """
    return num_beams * max(2, 1 + len(set(rules.eos_ids)))


def _best(texts: Texts, count: int) -> tuple[Texts, Array]:
    """(the texts of the highest scores, which these are: int `[b, count]`)."""
    scores, index = jax.lax.top_k(texts.scores, count)
    tokens = jnp.take_along_axis(texts.tokens, index[:, :, None], axis=1)
    return Texts(tokens, scores), index


def _with_ended(state: State, candidates: Texts, ends: Array, beams: Beams, given: int):
    """(the best texts that have ended, which of them are there)."""
    may = ends & state.is_open[:, None]
    if beams.dialect == "transformers":
        may = may & (jnp.arange(ends.shape[1]) < beams.num_beams)[None]
    if beams.early_stopping is True:
        may = may & ~jnp.all(state.is_ended, axis=1, keepdims=True)
    scores = candidates.scores / beams.penalty(
        state.count + 1 - given, candidates.scores.dtype
    )
    new = candidates._replace(scores=jnp.where(may, scores, NONE))
    # Those that were there come first among equals.
    both = jax.tree.map(
        lambda *x: jnp.concatenate(x, axis=1), (state.ended, state.is_ended), (new, may)
    )
    best, index = _best(both[0], beams.num_beams)
    return best, jnp.take_along_axis(both[1], index, axis=1)


def _may_improve(state: State, beams: Beams, given: int) -> Array:
    """bool `[b]`: whether the best live text could come among those that ended."""
    longest = state.live.tokens.shape[2]
    never = beams.early_stopping == "never" and beams.length_penalty > 0
    never = never or beams.dialect == "t5x"
    length = (longest if never else state.count) - given
    best = state.live.scores[:, 0]
    best = best / beams.penalty(length, best.dtype)
    worst = jnp.min(state.ended.scores, axis=1)
    # Of what is not there yet, the score is NONE.
    worst = jnp.where(jnp.all(state.is_ended, axis=1), worst, NONE)
    return best > worst


Step = Callable[[Any, Array], tuple[Array, Any]]
Follow = Callable[[Any, Array], Any]


def search(
    step: Step,
    follow: Follow,
    logits: Array,
    cache: Any,
    prompt: Array,
    *,
    max_tokens: int,
    beams: Beams,
    rules: logit_rules.Rules,
    inputs: Array | None = None,
) -> Texts:
    """The best texts after a prompt.

    Args:
      step: (cache, int `[b * k]` tokens) -> (logits of the next ones, cache).
      follow: (cache, int `[b, k]`) -> the cache in which each text goes on from that
        one of the k of its input.
      logits: float `[b * k, vocabulary]` after the prompt.
      cache: of the prompt, of k texts of each input.
      prompt: int `[b, m]`.
      max_tokens: to be written at most.
      beams: how to search.
      rules: of tokens.
      inputs: int `[b, n]`, see `logit_rules.apply`.

    Returns:
      k texts of each input, the best first, `[b, k, m + max_tokens]`.
    """
    prompt_length = prompt.shape[1]
    if inputs is not None:
        inputs = jnp.repeat(inputs, beams.num_beams, axis=0)

    def advance(logits, cache, state):
        state, parents = choose(logits, state, beams, rules, prompt_length, inputs)
        return follow(cache, parents), state

    def body(carry):
        cache, state = carry
        newest = jnp.take(state.live.tokens, state.count - 1, axis=2)
        logits, cache = step(cache, newest.ravel())
        return advance(logits, cache, state)

    first = start(prompt, prompt_length + max_tokens, beams.num_beams, logits.dtype)
    carry = advance(logits, cache, first)
    _, state = jax.lax.while_loop(lambda x: goes_on(x[1], beams), body, carry)
    return finish(state, beams)
