"""What may be written next: rules on the logits of tokens, given those before.

All of them are those of transformers, in its order: see `apply`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array
# Of factors of logits in float32: neither 0 nor infinite, nor are the products.
SMALLEST, LARGEST = 1e-30, 1e30


@dataclasses.dataclass(frozen=True)
class Rules:
    """Which tokens are ruled out, or made less likely.

    Attributes:
      repetition_penalty: more than 1 makes tokens that are there already less likely
        (Keskar et al. 2019, section 4.1); logits above 0 are divided by it, others
        multiplied.
      no_repeat_ngram: no sequence of so many tokens is written twice (Paulus et al.
        2018, section 2.5); 0: any may be.
      encoder_no_repeat_ngram: no sequence of so many tokens of the input is written.
      bad_words: sequences of tokens that are not written; one of `eos_ids` alone may
        be.
      min_tokens: to be written before one of `eos_ids`.
      eos_ids: tokens that end a text; (): none does.
      forced_bos_ids: the first token after the one that the decoder begins with is one
        of these; (): any.
      forced_eos_ids: so is the last token, where the length is reached; (): any.
      suppress_tokens: that are never written.
      begin_suppress_tokens: that are not written first, or second after a forced one.
    """

    repetition_penalty: float = 1.0
    no_repeat_ngram: int = 0
    encoder_no_repeat_ngram: int = 0
    bad_words: tuple[tuple[int, ...], ...] = ()
    min_tokens: int = 0
    eos_ids: tuple[int, ...] = ()
    forced_bos_ids: tuple[int, ...] = ()
    forced_eos_ids: tuple[int, ...] = ()
    suppress_tokens: tuple[int, ...] = ()
    begin_suppress_tokens: tuple[int, ...] = ()

    def problems(self) -> Iterator[tuple[str, str]]:
        """(field, message) for every value that no model can be written with."""
        if not SMALLEST <= self.repetition_penalty <= LARGEST:
            value = self.repetition_penalty
            yield (
                "repetition_penalty",
                f"is {value}; expected {SMALLEST:g} to {LARGEST:g}; 1 is none",
            )
        for name in ("no_repeat_ngram", "encoder_no_repeat_ngram", "min_tokens"):
            if (value := getattr(self, name)) < 0:
                yield name, f"is {value}; expected 0 (any) or more"
        if () in self.bad_words:
            yield "bad_words", "has a sequence of no tokens; leave it out"

    def problems_with(
        self, vocab_size: int, max_tokens: int, start: int, start_ids: tuple[int, ...]
    ) -> Iterator[tuple[str, str]]:
        """(field, message) for what a model cannot write by these rules.

        Args:
          vocab_size: of the model.
          max_tokens: to be written at most.
          start: tokens of the prompt.
          start_ids: those of them that are known.
        """
        named = {
            name: getattr(self, name) for name in _ID_FIELDS if getattr(self, name)
        }
        named["bad_words"] = tuple(token for word in self.bad_words for token in word)
        for name, ids in named.items():
            if outside := [i for i in ids if not 0 <= i < vocab_size]:
                yield (
                    name,
                    f"has id {outside[0]}; expected rows of the token table, 0 to "
                    f"{vocab_size - 1}",
                )
                return
        yield from self._dead_ends(vocab_size, max_tokens, start, set(start_ids))

    def _dead_ends(self, size, max_tokens, start, start_ids):
        """Places at which all tokens are ruled out, whatever the model."""
        never = set(self.suppress_tokens)
        words = self._single_words()
        for name in ("forced_bos_ids", "forced_eos_ids"):
            if (ids := set(getattr(self, name))) and ids <= never:
                yield name, f"are {sorted(ids)}, all of which suppress_tokens rules out"
        usable = set(range(size)) - never - words
        ends = set(self.eos_ids)
        first_tokens = usable - set(self.begin_suppress_tokens)
        if self.min_tokens:
            first_tokens = first_tokens - ends
        if not usable or (
            not first_tokens and not (self.forced_bos_ids and start == 1)
        ):
            yield (
                "suppress_tokens",
                "and bad_words, begin_suppress_tokens and min_tokens leave none of the "
                f"{size} tokens to write; rule out fewer",
            )
        elif self.no_repeat_ngram == 1:
            fresh = usable - start_ids
            inside = len(fresh - ends)
            # A text that may end has a way out: its end is no second one.
            needed = self.min_tokens if fresh & ends else max_tokens
            needed -= bool(self.forced_eos_ids) and needed == max_tokens
            if needed > inside:
                yield (
                    "no_repeat_ngram",
                    f"is 1, but {needed} tokens are to be written without an end, and "
                    f"there are {inside} that are not written yet; lower the length, "
                    "or raise it to 2",
                )

    def _single_words(self) -> set[int]:
        """Tokens that are bad words by themselves; the end of a text is none."""
        return {word[0] for word in self.bad_words if len(word) == 1} - {*self.eos_ids}


_ID_FIELDS = (
    *("eos_ids", "forced_bos_ids", "forced_eos_ids"),
    *("suppress_tokens", "begin_suppress_tokens"),
)


def apply(
    logits: Array,
    rules: Rules,
    tokens: Array,
    count: Array,
    start: int,
    last: int,
    inputs: Array | None = None,
) -> Array:
    """Logits after all rules.

    Args:
      logits: float `[r, vocabulary]`, or their log softmax.
      rules: that hold.
      tokens: int `[r, length]`, of which the first `count` are written.
      count: int scalar.
      start: tokens that were given, not written: the prompt of the decoder.
      last: place of the last token that there is room for.
      inputs: int `[r, n]`, what the encoder read, -1 in padding; None: no encoder.

    Returns:
      float `[r, vocabulary]`, -inf for what is ruled out.
    """
    size = logits.shape[1]
    # Place of each token, [length], below `count` where it is written.
    written = jnp.arange(tokens.shape[1]) < count
    if rules.repetition_penalty != 1:
        logits = _penalized(logits, rules.repetition_penalty, tokens, written)
    if n := rules.no_repeat_ngram:
        banned = _completes(tokens, written[None], tokens, count, n, size)
        logits = jnp.where(banned, -jnp.inf, logits)
    if (n := rules.encoder_no_repeat_ngram) and inputs is not None:
        banned = _completes(inputs, inputs >= 0, tokens, count, n, size)
        logits = jnp.where(banned, -jnp.inf, logits)
    if rules.bad_words:
        logits = jnp.where(_ends_bad_word(rules, tokens, count, size), -jnp.inf, logits)
    if rules.min_tokens and rules.eos_ids:
        short = count - start < rules.min_tokens
        logits = jnp.where(short & is_in(rules.eos_ids, size), -jnp.inf, logits)
    for forced, position in ((rules.forced_bos_ids, 1), (rules.forced_eos_ids, last)):
        if forced:
            only = jnp.where(is_in(forced, size), 0.0, -jnp.inf).astype(logits.dtype)
            logits = jnp.where(count == position, only, logits)
    if rules.suppress_tokens:
        logits = jnp.where(is_in(rules.suppress_tokens, size), -jnp.inf, logits)
    if rules.begin_suppress_tokens:
        begin = start + (start == 1 and bool(rules.forced_bos_ids))
        banned = is_in(rules.begin_suppress_tokens, size) & (count == begin)
        logits = jnp.where(banned, -jnp.inf, logits)
    return logits


def is_in(ids: tuple[int, ...], size: int) -> np.ndarray:
    """bool `[size]`: which of the ids below `size` are some."""
    mask = np.zeros(size, bool)
    mask[list(ids)] = True
    return mask


def _penalized(logits: Array, penalty: float, tokens: Array, written: Array) -> Array:
    present = _marked(tokens, written[None], logits.shape[1])
    less = jnp.where(logits < 0, logits * penalty, logits / penalty)
    return jnp.where(present, less, logits)


def _marked(tokens: Array, which: Array, size: int) -> Array:
    """bool `[r, size]`: the ids that stand where `which` is true."""
    row = jnp.arange(tokens.shape[0])[:, None]
    none = jnp.zeros((tokens.shape[0], size), bool)
    # Each id of [r, n] is one of `size`.
    return none.at[row, tokens].max(jnp.broadcast_to(which, tokens.shape))


def _completes(
    text: Array, is_token: Array, tokens: Array, count: Array, n: int, size: int
) -> Array:
    """bool `[r, size]`: the ids that would end an n-gram of a text.

    Args:
      text: int `[r, m]`.
      is_token: bool `[r, m]` or `[1, m]`: which tokens of it are.
      tokens: see `apply`; their last n - 1 are the beginning of the n-gram.
      count: see `apply`.
      n: tokens of an n-gram.
      size: of the vocabulary.
    """
    starts = text.shape[1] - n + 1
    if starts < 1:
        return jnp.zeros((tokens.shape[0], size), bool)
    # An n-gram at each place, whose end is there: [r or 1, starts].
    same = is_token[:, n - 1 :] & (count >= n - 1)
    for i in range(n - 1):
        same = same & (text[:, i : i + starts] == _newest(tokens, count, n - 1 - i))
    return _marked(text[:, n - 1 :], same, size)


def _newest(tokens: Array, count: Array, back: int) -> Array:
    """int `[r, 1]`: the token that was written `back` tokens ago, 1 for the last."""
    return jnp.take(tokens, jnp.maximum(count - back, 0), axis=1)[:, None]


def _ends_bad_word(rules: Rules, tokens: Array, count: Array, size: int) -> Array:
    """bool `[r, size]`: the ids that would end one of the bad words."""
    banned = jnp.asarray(is_in(tuple(rules._single_words()), size)[None])
    banned = jnp.broadcast_to(banned, (tokens.shape[0], size))
    lengths = {len(word) for word in rules.bad_words}
    for n in sorted(lengths - {1}):
        words = np.array([word for word in rules.bad_words if len(word) == n])
        same = count >= n - 1
        for i in range(n - 1):
            # [r, words of n tokens]
            same = same & (_newest(tokens, count, n - 1 - i) == words[None, :, i])
        ends = jnp.broadcast_to(jnp.asarray(words[:, -1]), same.shape)
        banned = banned | _marked(ends, same, size)
    return banned
