"""Rules of tokens, on texts short enough to be looked at."""

import jax.numpy as jnp
import numpy as np
import pytest

from etc_jax.ops import logit_rules
from etc_jax.ops.logit_rules import Rules

SIZE = 8


def ruled_out(rules: Rules, text, start=1, last=9, inputs=None) -> set[int]:
    """The ids that may not follow a text."""
    tokens = np.zeros((1, 10), np.int32)
    tokens[0, : len(text)] = text
    inputs = None if inputs is None else jnp.array([inputs])
    found = logit_rules.apply(
        jnp.zeros((1, SIZE)), rules, tokens, jnp.int32(len(text)), start, last, inputs
    )
    return set(np.flatnonzero(np.isneginf(found[0])).tolist())


@pytest.mark.parametrize(
    "rules, text, banned",
    [
        # The end alone is no bad word; the beginning of a longer one is none either.
        ({"bad_words": ((5,), (2,), (3, 4, 6)), "eos_ids": (2,)}, [0, 3], {5}),
        ({"bad_words": ((5,), (3, 4, 6), (4, 7))}, [0, 3, 4], {5, 6, 7}),
        # There are not as many tokens as before the last one of the word.
        ({"bad_words": ((0, 0, 6),)}, [0], set()),
        ({"suppress_tokens": (1, 7)}, [0, 3], {1, 7}),
        ({"begin_suppress_tokens": (1, 7)}, [0], {1, 7}),
        ({"begin_suppress_tokens": (1, 7)}, [0, 3], set()),
        # The first token is forced, so that the second one is the begin.
        ({"begin_suppress_tokens": (1,), "forced_bos_ids": (4,)}, [0, 4], {1}),
        ({"forced_bos_ids": (4,)}, [0], {*range(SIZE)} - {4}),
        ({"forced_eos_ids": (4, 5)}, [0] * 9, {*range(SIZE)} - {4, 5}),
        ({"min_tokens": 2, "eos_ids": (2, 3)}, [0, 4], {2, 3}),
        ({"min_tokens": 2, "eos_ids": (2, 3)}, [0, 4, 4], set()),
        ({"no_repeat_ngram": 2}, [3, 4, 3], {4}),
    ],
)
def test_what_a_rule_rules_out(rules, text, banned):
    assert ruled_out(Rules(**rules), text) == banned


@pytest.mark.parametrize(
    "n, text, banned", [(1, [0], {3, 4, 5}), (2, [0, 3], {4, 5}), (3, [3], set())]
)
def test_nothing_of_the_input_is_copied_but_its_padding(n, text, banned):
    inputs = [3, 4, 3, 5, -1, -1]
    rules = Rules(encoder_no_repeat_ngram=n)
    assert ruled_out(rules, text, inputs=inputs) == banned
    assert ruled_out(rules, text) == set()


@pytest.mark.parametrize(
    "rules, message",
    [
        ({"suppress_tokens": tuple(range(SIZE))}, "suppress_tokens and bad_words"),
        (
            {"suppress_tokens": (0, 1, 2, 3), "bad_words": ((4,), (5,), (6,), (7,))},
            "leave none of the 8 tokens to write",
        ),
        (
            {"begin_suppress_tokens": tuple(range(1, SIZE)), "eos_ids": (0,)}
            | {"min_tokens": 1},
            "leave none of the 8 tokens",
        ),
        ({"forced_eos_ids": (3,), "suppress_tokens": (3,)}, "forced_eos_ids are [3]"),
        ({"no_repeat_ngram": 1}, "9 tokens are to be written without an end"),
        ({"no_repeat_ngram": 1, "eos_ids": (0,)}, "there are 7 that are not written"),
        ({"bad_words": ((3, 8),)}, "bad_words has id 8; expected rows of the token t"),
        ({"eos_ids": (-1,)}, "eos_ids has id -1"),
    ],
)
def test_rules_that_leave_no_token_are_told(rules, message):
    found = [" ".join(x) for x in Rules(**rules).problems_with(SIZE, 9, 1, (0,))]
    assert len(found) == 1 and message in found[0]


@pytest.mark.parametrize(
    "rules",
    [
        # A text may end before its tokens are all there.
        {"no_repeat_ngram": 1, "eos_ids": (3,)},
        {"suppress_tokens": tuple(range(1, SIZE))},
        {"begin_suppress_tokens": tuple(range(SIZE)), "forced_bos_ids": (4,)},
        {"forced_eos_ids": (3, 4), "suppress_tokens": (3,)},
    ],
)
def test_rules_that_leave_one_token_are_not(rules):
    assert not list(Rules(**rules).problems_with(SIZE, 9, 1, (0,)))
