import functools

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as hs

from etc_jax import structure as st
from etc_jax.structure import builders

RULES = st.Rules(radius=2, max_distance=2, hard_g2l=True, hard_l2g=True)


@functools.partial(jax.jit, static_argnames="rules")
def pairs(structure, rules=RULES):
    """`{piece: (mask, labels)}` of all pairs."""
    tokens = {"l": structure.long_tokens(), "g": structure.global_tokens()}
    return {
        name: getattr(st, name)(
            rules, st.as_rows(tokens[name[0]]), st.as_columns(tokens[name[2]])
        )
        for name in ("l2l", "l2g", "g2g", "g2l")
    }


def test_packed_documents_by_hand():
    # Document 1: sentences of 2 and 1 tokens; document 2: one of 3.
    got = builders.packed_documents([[2, 1], [3]], long_length=8, global_length=4)
    np.testing.assert_array_equal(got.long_example_ids, [1, 1, 1, 2, 2, 2, 0, 0])
    np.testing.assert_array_equal(got.global_example_ids, [1, 1, 2, 0])
    np.testing.assert_array_equal(got.links[:, 0], [0, 0, 1, 2, 2, 2, -1, -1])
    assert got.links.dtype == np.int16


def test_without_lengths_there_is_no_padding():
    got = builders.plain_text([2, 0, 3])
    assert (got.long_length, got.global_length) == (5, 3)
    np.testing.assert_array_equal(got.links[:, 0], [0, 0, 2, 2, 2])
    assert builders.packed_documents([]).long_length == 0


@settings(max_examples=5, deadline=None, derandomize=True)
@given(
    hs.lists(
        hs.lists(hs.integers(0, 4), min_size=1, max_size=3), min_size=1, max_size=3
    )
)
def test_packed_documents_equal_separate_ones(documents):
    # Of one length each, so that nothing is compiled again.
    lengths = {"long_length": 36, "global_length": 9}
    packed = pairs(builders.packed_documents(documents, **lengths))
    tokens = globals_ = 0
    for document in documents:
        alone = builders.plain_text(document, long_length=12, global_length=3)
        size = {"l": sum(document), "g": len(document)}
        start = {"l": tokens, "g": globals_}
        at = {name: slice(start[name], start[name] + size[name]) for name in "lg"}
        for name, (mask, label) in pairs(alone).items():
            rows, columns = at[name[0]], at[name[2]]
            real = np.s_[: size[name[0]], : size[name[2]]]
            whole_mask, whole_label = (np.asarray(x) for x in packed[name])
            np.testing.assert_array_equal(whole_mask[rows, columns], mask[real])
            np.testing.assert_array_equal(whole_label[rows, columns], label[real])
            # Nothing outside the document is seen from it.
            assert whole_mask[rows].sum() == np.asarray(mask).sum()
        tokens, globals_ = tokens + size["l"], globals_ + size["g"]


def test_fixed_blocks_by_hand():
    got = builders.fixed_blocks(5, 2, long_length=8, global_length=5)
    np.testing.assert_array_equal(got.long_example_ids, [1, 1, 1, 1, 1, 0, 0, 0])
    np.testing.assert_array_equal(got.global_example_ids, [1, 1, 1, 0, 0])
    np.testing.assert_array_equal(got.links[:, 0], [0, 0, 1, 1, 2, 2, 3, 3])


def test_a_tree_by_hand():
    contexts = [
        builders.Context((builders.Sentence(2), builders.Sentence(1))),
        builders.Context((builders.Sentence(2),)),
    ]
    got = builders.tree(contexts, long_length=6, global_length=6)
    # Globals: context 0, its two sentences, context 1, its sentence, padding.
    np.testing.assert_array_equal(got.order_ids, [0, 0, 0, 1, 1, -1])
    np.testing.assert_array_equal(got.parent, [-1, 0, 0, -1, 3, -1])
    np.testing.assert_array_equal(got.links[:, 0], [1, 1, 2, 4, 4, -1])
    np.testing.assert_array_equal(got.links[:, 1], [0, 0, 0, 3, 3, -1])
    np.testing.assert_array_equal(got.long_segment_ids, [0, 0, 0, 1, 1, -1])
    answer = pairs(got)
    l2l = np.asarray(answer["l2l"][0])
    assert l2l[2, 1] and not l2l[2, 3]  # neighbours, but of another context
    g2g, labels = (np.asarray(x) for x in answer["g2g"])
    assert g2g[0, 3] and labels[0, 3] == 7  # seen, in another order
    assert labels[1, 2] == 1
    g2l = np.asarray(answer["g2l"][0])
    # The context sees all its tokens, a sentence its own.
    np.testing.assert_array_equal(g2l[0], [1, 1, 1, 0, 0, 0])
    np.testing.assert_array_equal(g2l[2], [0, 0, 1, 0, 0, 0])


def test_an_empty_tree():
    got = builders.tree([])
    assert (got.long_length, got.global_length) == (0, 0)
    assert got.links.shape == (0, 2)


def test_links_label_but_do_not_open():
    plain = builders.plain_text([2, 2, 1])
    got = builders.with_links(plain, [(2, 0, 2), (1, 1, 3)], column=2)
    np.testing.assert_array_equal(got.links[:, 2], [2, 1, 1, -1, -1])
    np.testing.assert_array_equal(got.links[:, 1], [-1] * 5)
    before, after = pairs(plain), pairs(got)
    for name in before:
        np.testing.assert_array_equal(before[name][0], after[name][0])
    label = np.asarray(after["l2g"][1])
    assert label[0, 2] == 6 and np.asarray(before["l2g"][1])[0, 2] == 5
    np.testing.assert_array_equal(np.asarray(after["g2l"][1]), label.T)


@pytest.mark.parametrize(
    "make, message",
    [
        (
            lambda: builders.plain_text([3, 3], long_length=5),
            "6 long tokens do not fit in length 5",
        ),
        (
            lambda: builders.plain_text([1, 1, 1], global_length=2),
            "3 global tokens do not fit in length 2",
        ),
        (lambda: builders.plain_text([2, -1]), "a sentence has -1 tokens"),
        (
            lambda: builders.fixed_blocks(5, 0),
            "tokens_per_block is 0; expected 1 or more",
        ),
        (
            lambda: builders.fixed_blocks(9, 2, global_length=3),
            "5 global tokens do not fit in length 3",
        ),
        (
            lambda: builders.tree(
                [builders.Context((builders.Sentence(4),))], long_length=3
            ),
            "4 long tokens do not fit in length 3",
        ),
        (
            lambda: builders.with_links(
                builders.plain_text([2]), [(1, 0, 1)], column=2
            ),
            r"tie \(global 1, long 0:1\) is outside an input of 1 global and 2 long",
        ),
        (
            lambda: builders.with_links(
                builders.plain_text([2]), [(0, 1, 1)], column=2
            ),
            r"tie \(global 0, long 1:1\) is outside",
        ),
    ],
)
def test_what_does_not_fit_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
