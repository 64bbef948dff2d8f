"""The four pair functions against a loop over pairs, read straight from the rules."""

import dataclasses

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as hs

from etc_jax import structure as st

# --- an input as plain Python lists, and the rules as loops ---------------------------


@dataclasses.dataclass
class Plain:
    """One input: lists of ints; None where a vector is absent."""

    long_example: list
    global_example: list
    links: list
    segment: list | None
    exempt_long: list | None
    exempt_global: list | None
    order: list | None
    parent: list | None

    def structure(self):
        def ints(x, dtype=np.int32):
            return None if x is None else np.array(x, dtype)

        n, columns = len(self.long_example), len(self.links[0]) if self.links else 3
        return st.Structure(
            long_example_ids=ints(self.long_example),
            global_example_ids=ints(self.global_example),
            links=np.array(self.links, np.int16).reshape(n, columns),
            long_segment_ids=ints(self.segment),
            exempt_l2g=ints(self.exempt_long, bool),
            exempt_g2l=ints(self.exempt_global, bool),
            order_ids=ints(self.order),
            parent=ints(self.parent),
        )


def distance(d, k):
    clipped = max(-k, min(k, d))
    return clipped if clipped >= 0 else k - clipped


def same(a, b):
    return a == b and a != 0


def long_to_long(x, rules, i, j):
    sees = same(x.long_example[i], x.long_example[j]) and abs(i - j) <= rules.radius
    if x.segment is not None and x.segment[i] != x.segment[j]:
        sees = False
    return sees, distance(j - i, rules.max_distance)


def side_label(x, rules, i, j):
    """Label of long token i and global token j: the last matching column wins."""
    label = 2 * rules.max_distance + 1
    for column, target in enumerate(x.links[i]):
        if target == j:
            own = rules.links[column].label
            label = 2 * rules.max_distance + 2 if own is None else own
    return label


def is_member(x, rules, i, j):
    return any(t == j and rules.links[c].opens for c, t in enumerate(x.links[i]))


def long_to_global(x, rules, i, j):
    sees = same(x.long_example[i], x.global_example[j])
    exempt = x.exempt_long is not None and x.exempt_long[i]
    if rules.hard_l2g and not exempt and not is_member(x, rules, i, j):
        sees = False
    return sees, side_label(x, rules, i, j)


def global_to_long(x, rules, i, j):
    sees = same(x.global_example[i], x.long_example[j])
    exempt = x.exempt_global is not None and x.exempt_global[i]
    if rules.hard_g2l and not exempt and not is_member(x, rules, j, i):
        sees = False
    return sees, side_label(x, rules, j, i)


def global_to_global(x, rules, i, j):
    label = distance(j - i, rules.max_distance)
    if x.order is not None and x.order[i] != x.order[j]:
        label = 2 * rules.max_distance + 3
    if x.parent is not None and rules.parent_labels is not None:
        if x.parent[i] == j:
            label = rules.parent_labels[0]
        if x.parent[j] == i:
            label = rules.parent_labels[1]
    return same(x.global_example[i], x.global_example[j]), label


# --- random inputs --------------------------------------------------------------------


@hs.composite
def inputs(draw):
    # Few sizes, as every new one is compiled anew.
    n, g = draw(hs.sampled_from([(6, 3), (6, 3), (1, 1), (0, 3), (6, 0)]))
    columns = draw(hs.sampled_from([1, 3]))

    def vector(length, low, high):
        return draw(hs.lists(hs.integers(low, high), min_size=length, max_size=length))

    def maybe(length, low, high):
        return vector(length, low, high) if draw(hs.booleans()) else None

    x = Plain(
        long_example=vector(n, 0, 2),
        global_example=vector(g, 0, 2),
        links=[vector(columns, -1, g - 1) for _ in range(n)],
        segment=maybe(n, -1, 2),
        exempt_long=maybe(n, 0, 1),
        exempt_global=maybe(g, 0, 1),
        order=maybe(g, -1, 2),
        parent=maybe(g, -1, g - 1),
    )
    k = draw(hs.integers(0, 3))
    own = draw(hs.sampled_from([None, 2 * k + 5])) if k else None
    rules = st.Rules(
        radius=draw(hs.integers(1, 4)),
        max_distance=k,
        hard_g2l=draw(hs.booleans()),
        hard_l2g=draw(hs.booleans()),
        links=(st.SENTENCE, st.Link("paragraph", draw(hs.booleans()), own), st.MENTION),
        parent_labels=draw(hs.sampled_from([None, (2 * k + 4, 2 * k + 6)]))
        if k
        else None,
    )
    return x, rules


def tables(function, rows, columns):
    """(mask, labels) of all pairs by calling `function(i, j)`."""
    pairs = [[function(i, j) for j in range(columns)] for i in range(rows)]
    answers = np.array(pairs, dtype=int).reshape(rows, columns, 2)
    return answers[..., 0].astype(bool), answers[..., 1]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(inputs())
def test_pair_functions_follow_the_rules(case):
    x, rules = case
    structure = x.structure()
    st.validate(structure, rules)
    long, glob = structure.long_tokens(), structure.global_tokens()
    n, g = len(x.long_example), len(x.global_example)
    sides = {"l": (long, n), "g": (glob, g)}
    for name, brute in (
        ("l2l", long_to_long),
        ("l2g", long_to_global),
        ("g2l", global_to_long),
        ("g2g", global_to_global),
    ):
        (query, rows), (key, columns) = sides[name[0]], sides[name[2]]
        mask, label = getattr(st, name)(rules, st.as_rows(query), st.as_columns(key))
        want = tables(lambda i, j, f=brute: f(x, rules, i, j), rows, columns)
        np.testing.assert_array_equal(np.broadcast_to(mask, want[0].shape), want[0])
        assert (label is None) == (rules.max_distance == 0)
        if label is not None:
            label = np.broadcast_to(label, want[1].shape)
            np.testing.assert_array_equal(label, want[1])


# --- single rules ---------------------------------------------------------------------


def test_distance_labels_by_hand():
    # The window of the official documentation: k = 3, eleven places.
    got = st.distance_label(np.arange(-5, 6), 3)
    np.testing.assert_array_equal(got, [6, 6, 6, 5, 4, 0, 1, 2, 3, 3, 3])


def make(n=4, g=2, columns=1, **changes):
    fields = {
        "long_example_ids": np.ones(n, np.int32),
        "global_example_ids": np.ones(g, np.int32),
        "links": np.zeros((n, columns), np.int16),
    }
    return st.Structure(**fields | changes)


def test_flat_keeps_sentences_only():
    structure = make(
        columns=3,
        long_segment_ids=np.zeros(4, np.int32),
        exempt_l2g=np.ones(4, bool),
        exempt_g2l=np.ones(2, bool),
        order_ids=np.zeros(2, np.int32),
        parent=np.zeros(2, np.int32),
    )
    flat = st.flat(structure)
    assert flat.links.shape == (4, 1)
    absent = ("long_segment_ids", "exempt_l2g", "exempt_g2l", "order_ids", "parent")
    assert all(getattr(flat, name) is None for name in absent)


def test_a_structure_is_a_pytree_and_batches():
    one = make()
    both = jax.tree.map(lambda *x: np.stack(x), one, one)
    assert both.links.shape == (2, 4, 1)
    assert (both.long_length, both.global_length) == (4, 2)
    rules = st.Rules(radius=1, max_distance=1)
    st.validate(both, rules)
    mask, _ = st.l2l(
        rules, st.as_rows(both.long_tokens()), st.as_columns(both.long_tokens())
    )
    assert mask.shape == (2, 4, 4)


def test_labels_of_link_columns():
    links = (st.Link("a"), st.Link("b", label=9), st.Link("c", label=9))
    rules = st.Rules(radius=1, max_distance=2, links=links)
    assert rules.side_labels == (5, 6, 9)
    assert [rules.link_label(c) for c in range(3)] == [6, 9, 9]


# --- errors ---------------------------------------------------------------------------

RULES = st.Rules(radius=2, max_distance=2)


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            {"global_example_ids": np.ones((1, 2), int)},
            r"global_example_ids has shape \(1, 2\), expected \(2,\)",
        ),
        (
            {"long_segment_ids": np.ones(5, int)},
            r"long_segment_ids has shape \(5,\), expected \(4,\)",
        ),
        ({"exempt_l2g": np.ones(2, bool)}, r"exempt_l2g has shape \(2,\)"),
        ({"exempt_g2l": np.ones(4, bool)}, r"exempt_g2l has shape \(4,\)"),
        ({"order_ids": np.ones(3, int)}, r"order_ids has shape \(3,\)"),
        ({"parent": np.ones(3, int)}, r"parent has shape \(3,\)"),
        (
            {"links": np.zeros(4, np.int16)},
            r"links has shape \(4,\), expected \(4,\) \+ \(columns,\)",
        ),
        ({"links": np.zeros((3, 1), np.int16)}, r"links has shape \(3, 1\)"),
        (
            {"links": np.zeros((4, 4), np.int16)},
            "links has 4 columns, but the rules name only 3: .*mention",
        ),
        (
            {"links": np.full((4, 1), 2, np.int16)},
            "links points at global token 2, but there are only 2",
        ),
        (
            {"links": np.full((4, 1), -2, np.int16)},
            "links holds -2, but -1 is the least allowed",
        ),
        (
            {"long_example_ids": np.array([1, 1, -1, 0])},
            "long_example_ids holds -1, but 0 is the least allowed",
        ),
        (
            {"global_example_ids": np.array([-3, 1])},
            "global_example_ids holds -3, but 0 is the least allowed",
        ),
        ({"parent": np.array([0, 5])}, "parent points at global token 5"),
        (
            {"long_example_ids": np.ones(4)},
            "long_example_ids has dtype float64, expected integers",
        ),
    ],
    ids=lambda x: next(iter(x)) if isinstance(x, dict) else "",
)
def test_bad_structures_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        st.validate(make(**changes), RULES)


def test_all_problems_come_at_once():
    bad = make(order_ids=np.ones(3, int), parent=np.ones(3, int))
    with pytest.raises(ValueError, match=r"order_ids(.|\n)*parent"):
        st.validate(bad, RULES)


def test_too_many_global_tokens_for_links():
    bad = make(g=st.MAX_GLOBALS + 1)
    with pytest.raises(ValueError, match="links are int16 and reach 32767 at most"):
        st.validate(bad, RULES)


def test_values_are_not_looked_at_while_tracing():
    bad = make(links=np.full((4, 1), 7, np.int16))
    jax.jit(lambda s: st.validate(s, RULES) or s.links)(bad)


def explicit(**changes):
    n, g, width = 5, 2, 2 * RULES.radius + 1
    shapes = {"l2l": (n, width), "l2g": (n, g), "g2g": (g, g), "g2l": (g, n)}
    fields = {f"{p}_labels": np.zeros(s, int) for p, s in shapes.items()}
    return st.Structure.explicit(**fields | changes)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"l2g_labels": np.full((5, 2), 9)}, "l2g_labels reach from 9 to 9.* 0..7"),
        ({"g2g_labels": np.full((2, 2), -1)}, "g2g_labels reach from -1 to -1"),
        (
            {"l2l_mask": np.ones((5, 7), int)},
            r"l2l_mask is 7 wide, expected 2 \* radius \+ 1 = 5 for radius 2",
        ),
        ({"g2l_mask": np.ones(5, int)}, "g2l_mask has 1 dimensions, expected 2"),
        ({"g2l_mask": np.ones((2, 4), int)}, "lengths of long differ"),
        ({"l2g_mask": np.ones((5, 3), int)}, "lengths of global differ"),
    ],
)
def test_bad_explicit_tensors_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        st.validate(explicit(**changes), RULES, num_labels=8)


def test_explicit_labels_need_a_table():
    with pytest.raises(ValueError, match="given, but the model has no label table"):
        st.validate(explicit(), RULES)


def test_labels_of_one_softmax_come_together():
    with pytest.raises(ValueError, match="got only g2g_labels"):
        explicit(g2l_labels=None)


@pytest.mark.parametrize(
    "make_rules, message",
    [
        (lambda: st.Rules(radius=0), "radius is 0; expected 1 or more"),
        (lambda: st.Rules(radius=1, max_distance=-1), "max_distance is -1; expected 0"),
        (lambda: st.Rules(radius=1, parent_labels=(1, 2)), "parent_labels need labels"),
    ],
)
def test_bad_rules_are_named(make_rules, message):
    with pytest.raises(ValueError, match=message):
        make_rules()


def test_the_vocabulary_must_hold_every_label():
    st.Rules(radius=1, max_distance=2).check_vocabulary(8)
    with pytest.raises(ValueError, match="needs num_labels >= 8 .*, got 7"):
        st.Rules(radius=1, max_distance=2).check_vocabulary(7)
    with pytest.raises(ValueError, match="needs num_labels >= 8 .*, got None"):
        st.Rules(radius=1, max_distance=2).check_vocabulary(None)
    with pytest.raises(ValueError, match="num_labels >= 13"):
        own = (st.Link("sentence", label=12),)
        st.Rules(radius=1, max_distance=2, links=own).check_vocabulary(12)
    with pytest.raises(ValueError, match="num_labels >= 11"):
        rules = st.Rules(radius=1, max_distance=2, parent_labels=(8, 10))
        rules.check_vocabulary(10)
    st.Rules(radius=1).check_vocabulary(None)
    with pytest.raises(ValueError, match="max_distance is 0 .no labels"):
        st.Rules(radius=1).check_vocabulary(8)
