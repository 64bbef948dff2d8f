import dataclasses

import numpy as np
import pytest
from multihop_samples import HOTPOT, WIKIHOP, split_at_stops, tokenizer
from structured_batch import batch

from etc_jax import structure as st
from etc_jax.datasets.choice_inputs import (
    CandidateOptions,
    features as wikihop_features,
)
from etc_jax.datasets.records import BadRecordError
from etc_jax.formats.structured import Layout, StructuredSizes
from etc_jax.tasks.hotpotqa import records as hotpotqa_records
from etc_jax.tasks.hotpotqa.inputs import features as hotpotqa_features
from etc_jax.tasks.wikihop import records as wikihop_records

RULES = st.Rules(radius=7, max_distance=3, hard_g2l=True)


def no_note(kind, message):
    raise AssertionError(f"{kind}: {message}")


def hotpotqa(**options):
    record = hotpotqa_records.parse(HOTPOT, no_note)
    return hotpotqa_features(record, tokenizer(), StructuredSizes(80, 40), **options)[0]


def wikihop(**options):
    record = wikihop_records.parse(WIKIHOP, no_note)
    options.setdefault("split_fn", split_at_stops)
    return wikihop_features(record, tokenizer(), StructuredSizes(100, 50), **options)[0]


def words(window) -> list[str]:
    return [p for p in tokenizer().pieces(window.tokens.long) if p != "[PAD]"]


def pairs(window, rules=RULES):
    """{piece: (mask, labels)}, dense."""
    st.validate(window.structure, rules)
    long, glob = window.structure.long_tokens(), window.structure.global_tokens()
    rows, columns = st.as_rows, st.as_columns
    found = {
        "l2l": st.l2l(rules, rows(long), columns(long)),
        "l2g": st.l2g(rules, rows(long), columns(glob)),
        "g2l": st.g2l(rules, rows(glob), columns(long)),
        "g2g": st.g2g(rules, rows(glob), columns(glob)),
    }
    return {k: tuple(map(np.asarray, v)) for k, v in found.items()}


def test_long_tokens_see_their_own_context_only():
    window = hotpotqa()
    mask = pairs(window)["l2l"][0]
    ends = [i for i, w in enumerate(words(window)) if w in ("[CLS]", "?")]
    assert ends[0] == 0
    groups = np.zeros(len(mask), int)
    text = words(window)
    question = text.index("who"), text.index("ton")
    groups[question[0] : text.index("old")] = 1
    groups[text.index("old") : text.index("ton")] = 2
    groups[text.index("ton") : text.index("ann")] = 3
    groups[text.index("ann") : len(text)] = 4
    groups[len(text) :] = -1
    index = np.arange(len(mask))
    near = abs(index[:, None] - index) <= RULES.radius
    real = groups >= 0
    same = groups[:, None] == groups
    np.testing.assert_array_equal(mask, same & near & real & real[:, None])


def test_global_tokens_of_different_contexts_have_no_distance():
    window = hotpotqa()
    mask, labels = pairs(window)["g2g"]
    used = int((window.tokens.global_ > 0).sum())
    # CLS; 5 pieces of the question; 1 + 1 + 2, 1 + 1 + 1 and 1 + 1 + 2 of contexts.
    sizes = [1, words(window).index("old") - 1, 4, 3, 4]
    group = np.repeat(np.arange(5), sizes)
    assert used == len(group)
    far = labels[:used, :used] == RULES.other_order_label
    np.testing.assert_array_equal(far, group[:, None] != group)
    assert mask[:used, :used].all()
    assert not mask[used:].any() and not mask[:, used:].any()


def test_a_hard_mask_binds_all_globals_but_the_exempt_ones():
    window = hotpotqa()
    mask = pairs(window)["g2l"][0]
    n = len(words(window))
    assert mask[0, :n].all() and not mask[:, n:].any()
    links = window.structure.links
    for g in range(1, mask.shape[0]):
        np.testing.assert_array_equal(mask[g], (links == g).any(axis=-1))


def test_mentions_label_and_open_nothing():
    window = wikihop()
    columns = window.structure.links
    both = [
        pairs(w)
        for w in (window, wikihop(options=CandidateOptions(link_mentions=False)))
    ]
    for piece in ("l2l", "l2g", "g2l", "g2g"):
        np.testing.assert_array_equal(both[0][piece][0], both[1][piece][0])
    mention = columns[:, 2:] == np.arange(window.structure.global_length)
    changed = both[0]["l2g"][1] != both[1]["l2g"][1]
    tied = columns[:, :1] == np.arange(window.structure.global_length)
    np.testing.assert_array_equal(changed, mention & ~tied)
    assert changed.any()


@pytest.mark.parametrize("make", [hotpotqa, wikihop])
def test_the_flat_ablation_has_sentences_alone(make):
    if make is hotpotqa:
        flat = hotpotqa(flat=True)
    else:
        flat = wikihop(options=CandidateOptions(flat=True))
    full = make()
    for a, b in ((flat.tokens, full.tokens), (flat.types, full.types)):
        np.testing.assert_array_equal(a.long, b.long)
        np.testing.assert_array_equal(a.global_, b.global_)
    got = pairs(flat)
    n, g = len(words(full)), int((full.tokens.global_ > 0).sum())
    near = abs(np.arange(n)[:, None] - np.arange(n)) <= RULES.radius
    np.testing.assert_array_equal(got["l2l"][0][:n, :n], near)
    assert (got["g2g"][1][:g, :g] <= 2 * RULES.max_distance).all()
    own = full.structure.links[:n, 0] == np.arange(g)[:, None]
    np.testing.assert_array_equal(got["g2l"][0][:g, :n], own)


def test_a_batch_stacks_every_array():
    windows = [hotpotqa(), hotpotqa()]
    tokens, types, structure, labels = batch(windows)
    assert tokens.long.shape == types.long.shape == (2, 80)
    assert tokens.global_.shape == structure.exempt_g2l.shape == (2, 40)
    assert structure.links.shape == (2, 80, 2) and structure.parent is None
    assert labels["begin"].shape == (2,) and labels["support"].shape == (2, 40)
    st.validate(structure, RULES)
    with pytest.raises(ValueError, match="no window"):
        batch([])


def test_sizes_that_make_no_input_are_refused():
    for sizes, message in (
        ((0, 4), "long_length must be at least 1"),
        ((4, 0), "global_length must be at least 1"),
        ((4, 40_000), "global_length must be at least 1 and at most 32767"),
    ):
        with pytest.raises(ValueError, match=message):
            StructuredSizes(*sizes)


def test_a_layout_that_does_not_fit_is_refused():
    layout = Layout(StructuredSizes(2, 1))
    assert layout.fits(2) and not layout.fits(3) and not layout.fits(1, 2)
    layout.add_long([5, 6, 7], 1)
    with pytest.raises(BadRecordError, match="too large: 3 long and 0 global tokens"):
        layout.tokens()


def test_a_window_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        hotpotqa().unusable = "x"
