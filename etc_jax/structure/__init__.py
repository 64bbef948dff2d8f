"""The structure of an input in O(n) integers, and the rules that read them.

An ETC layer asks, for every pair of tokens, "may i see j, and under which
relative-position label?" (Ainslie et al. 2020, sections 3.1-3.4). Here an input
carries only a few integers per token (`Structure`), and four pure functions
(`l2l`, `l2g`, `g2l`, `g2g`) answer the question for any pairs that broadcast. The
dense oracle, the blocked form and kernels all call the same four functions, so a
layer never holds a mask or a label matrix of the whole input.

Labels, for a maximum distance k (the ids of the official inputs):

    0 .. 2k   distance j - i, clipped: 0 same place, 1..k right, k+1..2k left
    2k+1      long and global token are not linked
    2k+2      they are linked (a column of `Rules.links` may choose another label)
    2k+3      two global tokens of different orders

`k = 0` means no labels at all. A graph that no rule expresses is given as tensors:
`Structure.explicit`.
"""

# One file: each check is of a field that one of the rules reads, and changes with it.

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from etc_jax.base.rules import at_least

Array = Any  # numpy on the host, jax on the device

LINK_DTYPE = np.int16
MAX_GLOBALS = np.iinfo(LINK_DTYPE).max


@dataclasses.dataclass(frozen=True)
class Link:
    """What one column of `Structure.links` means.

    Attributes:
      name: what the tie stands for, for messages and pictures.
      opens: whether the tie lets tokens through a hard mask.
      label: label of tied pairs; None is the common label 2k+2.
    """

    name: str
    opens: bool = True
    label: int | None = None


SENTENCE = Link("sentence")
PARAGRAPH = Link("paragraph")
MENTION = Link("mention", opens=False)


@dataclasses.dataclass(frozen=True)
class Rules:
    """How the integers of a `Structure` become masks and labels.

    Attributes:
      radius: long tokens see at most this many long tokens on each side.
      max_distance: k, the clipping distance of labels; 0 for no labels.
      hard_g2l: global tokens see only the long tokens linked to them.
      hard_l2g: long tokens see only the global tokens they are linked to.
      links: meaning of the link columns, in order; the last matching one labels.
      parent_labels: labels of (global token -> its parent, parent -> child) when
        `Structure.parent` is given (paper, appendix F); None leaves them unlabelled.
    """

    radius: int
    max_distance: int = 0
    hard_g2l: bool = False
    hard_l2g: bool = False
    links: tuple[Link, ...] = (SENTENCE, PARAGRAPH, MENTION)
    parent_labels: tuple[int, int] | None = None

    def __post_init__(self):
        at_least(1).check(radius=self.radius)
        at_least(0, "no labels").check(max_distance=self.max_distance)
        if self.parent_labels is not None and not self.max_distance:
            raise ValueError(
                "parent_labels need labels: set max_distance > 0, or parent_labels=None"
            )

    @property
    def unlinked_label(self) -> int:
        return 2 * self.max_distance + 1

    @property
    def linked_label(self) -> int:
        return 2 * self.max_distance + 2

    @property
    def other_order_label(self) -> int:
        return 2 * self.max_distance + 3

    def link_label(self, column: int) -> int:
        """The label of ties in one link column."""
        label = self.links[column].label
        return self.linked_label if label is None else label

    @property
    def side_labels(self) -> tuple[int, ...]:
        """Every label that a long-global pair can have, without repeats."""
        tied = [self.link_label(c) for c in range(len(self.links))]
        return tuple(dict.fromkeys([self.unlinked_label, *tied]))

    def check_vocabulary(self, num_labels: int | None) -> None:
        """Raises ValueError unless a table of `num_labels` rows holds every label."""
        if not self.max_distance:
            if num_labels is not None:
                raise ValueError(
                    f"num_labels is {num_labels} but max_distance is 0 (no labels): "
                    "set num_labels=None, or max_distance > 0"
                )
            return
        need = 1 + max(
            self.other_order_label, *self.side_labels, *(self.parent_labels or ())
        )
        if num_labels is None or num_labels < need:
            raise ValueError(
                f"max_distance {self.max_distance} needs num_labels >= {need} "
                f"(2k + 4 and any custom label), got {num_labels}"
            )


class LongTokens(NamedTuple):
    """Long tokens as the pair functions see them; None: the rule does not apply."""

    index: Array
    example_ids: Array
    segment_ids: Array | None
    links: tuple[Array, ...]
    exempt: Array | None


class GlobalTokens(NamedTuple):
    """Global tokens as the pair functions see them; None: the rule does not apply."""

    index: Array
    example_ids: Array
    order_ids: Array | None
    exempt: Array | None
    parent: Array | None


def as_rows(tokens):
    """Query side: every vector `[..., q]` becomes `[..., q, 1]`."""
    return jax.tree.map(lambda x: x[..., :, None], tokens)


def as_columns(tokens):
    """Key side: every vector `[..., k]` becomes `[..., 1, k]`."""
    return jax.tree.map(lambda x: x[..., None, :], tokens)


def distance_label(distance: Array, max_distance: int) -> Array:
    """int of its shape: the label of `distance = j - i`, both array indices."""
    right = jnp.minimum(distance, max_distance)
    left = max_distance + jnp.minimum(-distance, max_distance)
    return jnp.where(distance >= 0, right, left)


def _same(query, key) -> Array:
    return (query.example_ids == key.example_ids) & (query.example_ids > 0)


def _ties(rules: Rules, long: LongTokens, index: Array) -> tuple[Array, Array]:
    """(tie that opens a hard mask, label) of long tokens and global indices."""
    member = jnp.zeros((), bool)
    label = jnp.full((), rules.unlinked_label, jnp.int32)
    for column, link in enumerate(long.links):
        tied = link == index
        if rules.links[column].opens:
            member = member | tied
        label = jnp.where(tied, rules.link_label(column), label)
    return member, label


def _hard(mask: Array, member: Array, exempt: Array | None) -> Array:
    return mask & (member if exempt is None else member | exempt)


def l2l(rules: Rules, query: LongTokens, key: LongTokens):
    """(mask, label or None) of long queries and long keys that broadcast."""
    distance = key.index - query.index
    mask = _same(query, key) & (jnp.abs(distance) <= rules.radius)
    if query.segment_ids is not None:
        mask = mask & (query.segment_ids == key.segment_ids)
    k = rules.max_distance
    return mask, distance_label(distance, k) if k else None


def l2g(rules: Rules, query: LongTokens, key: GlobalTokens):
    """(mask, label or None) of long queries and global keys that broadcast."""
    member, label = _ties(rules, query, key.index)
    mask = _same(query, key)
    if rules.hard_l2g:
        mask = _hard(mask, member, query.exempt)
    return mask, label if rules.max_distance else None


def g2l(rules: Rules, query: GlobalTokens, key: LongTokens):
    """(mask, label or None) of global queries and long keys that broadcast."""
    member, label = _ties(rules, key, query.index)
    mask = _same(query, key)
    if rules.hard_g2l:
        mask = _hard(mask, member, query.exempt)
    return mask, label if rules.max_distance else None


def g2g(rules: Rules, query: GlobalTokens, key: GlobalTokens):
    """(mask, label or None) of global queries and global keys that broadcast."""
    mask = _same(query, key)
    if not rules.max_distance:
        return mask, None
    label = distance_label(key.index - query.index, rules.max_distance)
    if query.order_ids is not None:
        other = query.order_ids != key.order_ids
        label = jnp.where(other, rules.other_order_label, label)
    if rules.parent_labels is not None and query.parent is not None:
        to_parent, to_child = rules.parent_labels
        label = jnp.where(query.parent == key.index, to_parent, label)
        label = jnp.where(key.parent == query.index, to_child, label)
    return mask, label


def _index(ids: Array) -> Array:
    """Array indices with as many dimensions as `ids`, so that ranks agree."""
    n = ids.shape[-1]
    return jnp.arange(n, dtype=jnp.int32).reshape((1,) * (ids.ndim - 1) + (n,))


def _register(cls):
    fields = [f.name for f in dataclasses.fields(cls)]
    return jax.tree_util.register_dataclass(cls, data_fields=fields, meta_fields=[])


@_register
@dataclasses.dataclass(frozen=True)
class Structure:
    """What the tokens of an input are to each other: vectors only.

    Every array may have leading batch dimensions. None means that the rule does not
    apply: one segment, no exemptions, one order, no parents.

    Attributes:
      long_example_ids: `[..., n]` int; 0 is padding, and nothing crosses examples.
      global_example_ids: `[..., g]` int; 0 is padding, as for long tokens.
      links: `[..., n, m]` int16; global token that a long token is tied to, -1 none;
        column c means `Rules.links[c]`.
      long_segment_ids: `[..., n]` int; long tokens see their own segment only.
      exempt_l2g: `[..., n]` bool; long tokens that a hard l2g mask does not bind.
      exempt_g2l: `[..., g]` bool; global tokens that a hard g2l mask does not bind.
      order_ids: `[..., g]` int; global tokens of one order share a distance scale.
      parent: `[..., g]` int; global token that this one is part of, -1 none.
    """

    long_example_ids: Array
    global_example_ids: Array
    links: Array
    long_segment_ids: Array | None = None
    exempt_l2g: Array | None = None
    exempt_g2l: Array | None = None
    order_ids: Array | None = None
    parent: Array | None = None

    @property
    def long_length(self) -> int:
        return self.long_example_ids.shape[-1]

    @property
    def global_length(self) -> int:
        return self.global_example_ids.shape[-1]

    @staticmethod
    def explicit(**tensors) -> ExplicitStructure:
        """A structure given as masks and labels; see `ExplicitStructure`."""
        return ExplicitStructure(**tensors)

    def long_tokens(self) -> LongTokens:
        """The long vectors, `[..., n]` each."""
        return LongTokens(
            index=_index(self.long_example_ids),
            example_ids=self.long_example_ids,
            segment_ids=self.long_segment_ids,
            links=tuple(
                jnp.asarray(self.links[..., c], jnp.int32)
                for c in range(self.links.shape[-1])
            ),
            exempt=self.exempt_l2g,
        )

    def global_tokens(self) -> GlobalTokens:
        """The global vectors, `[..., g]` each."""
        return GlobalTokens(
            index=_index(self.global_example_ids),
            example_ids=self.global_example_ids,
            order_ids=self.order_ids,
            exempt=self.exempt_g2l,
            parent=self.parent,
        )


@_register
@dataclasses.dataclass(frozen=True)
class ExplicitStructure:
    """Masks and labels as tensors, for graphs that no rule expresses.

    Masks are bool or int with 1 = may attend; None allows every pair (within the
    radius for l2l). Labels are int; those of one softmax (l2l with l2g, g2g with g2l)
    come together or not at all.

    Attributes:
      l2l_mask, l2l_labels: `[..., n, 2r+1]`; slot s of row i is key i + s - r.
      l2g_mask, l2g_labels: `[..., n, g]`.
      g2g_mask, g2g_labels: `[..., g, g]`.
      g2l_mask, g2l_labels: `[..., g, n]`.
    """

    l2l_mask: Array | None = None
    l2g_mask: Array | None = None
    g2g_mask: Array | None = None
    g2l_mask: Array | None = None
    l2l_labels: Array | None = None
    l2g_labels: Array | None = None
    g2g_labels: Array | None = None
    g2l_labels: Array | None = None

    def __post_init__(self):
        for a, b in (("l2l", "l2g"), ("g2g", "g2l")):
            has_labels = [getattr(self, f"{p}_labels") is not None for p in (a, b)]
            if has_labels[0] != has_labels[1]:
                raise ValueError(
                    f"{a}_labels and {b}_labels share one softmax: give both or "
                    f"neither, got only {a if has_labels[0] else b}_labels"
                )


# Stands for an axis that an array does not have.
NO_AXIS = -1


def long_axes(structure: Structure | ExplicitStructure):
    """The axis along the long input of each array of a batch, in the same class.

    `NO_AXIS` stands for arrays without one, None for arrays that are not given.
    """
    rows = ("long_example_ids", "links", "long_segment_ids", "exempt_l2g")
    rows += ("l2l_mask", "l2g_mask", "l2l_labels", "l2g_labels")
    axes = dict.fromkeys(rows, 1) | dict.fromkeys(("g2l_mask", "g2l_labels"), 2)
    names = [f.name for f in dataclasses.fields(structure)]
    present = [name for name in names if getattr(structure, name) is not None]
    absent = dict.fromkeys(set(names) - set(present))
    return type(structure)(**absent, **{n: axes.get(n, NO_AXIS) for n in present})


def flat(structure: Structure) -> Structure:
    """The flat-structure ablation (paper, section 4.2): sentences only.

    One segment, the first link column, no exemptions, one order, no parents.
    """
    return Structure(
        long_example_ids=structure.long_example_ids,
        global_example_ids=structure.global_example_ids,
        links=structure.links[..., :1],
    )


def _shape_problems(structure: Structure, rules: Rules):
    batch = structure.long_example_ids.shape[:-1]
    n, g, m = structure.long_length, structure.global_length, len(rules.links)
    want = {
        "global_example_ids": (*batch, g),
        "long_segment_ids": (*batch, n),
        "exempt_l2g": (*batch, n),
        "exempt_g2l": (*batch, g),
        "order_ids": (*batch, g),
        "parent": (*batch, g),
    }
    for name, shape in want.items():
        got = getattr(structure, name)
        if got is not None and tuple(got.shape) != shape:
            yield f"{name} has shape {tuple(got.shape)}, expected {shape}"
    links = tuple(structure.links.shape)
    if len(links) != len(batch) + 2 or links[:-1] != (*batch, n):
        yield f"links has shape {links}, expected {(*batch, n)} + (columns,)"
    elif links[-1] > m:
        names = [link.name for link in rules.links]
        yield f"links has {links[-1]} columns, but the rules name only {m}: {names}"
    if g > MAX_GLOBALS:
        yield f"{g} global tokens; links are int16 and reach {MAX_GLOBALS} at most"


def _range_problems(structure: Structure):
    g = structure.global_length
    for name, low, high in (
        ("long_example_ids", 0, None),
        ("global_example_ids", 0, None),
        ("links", -1, g),
        ("parent", -1, g),
    ):
        x = getattr(structure, name)
        if x is None or not np.size(x):
            continue
        x = np.asarray(x)
        if not np.issubdtype(x.dtype, np.integer):
            yield f"{name} has dtype {x.dtype}, expected integers"
        elif x.min() < low:
            yield f"{name} holds {x.min()}, but {low} is the least allowed"
        elif high is not None and x.max() >= high:
            yield (
                f"{name} points at global token {x.max()}, but there are only "
                f"{high}; raise the global length or drop those links"
            )


def _explicit_problems(s: ExplicitStructure, rules: Rules, num_labels: int | None):
    for piece in ("l2l", "l2g", "g2g", "g2l"):
        mask, labels = getattr(s, f"{piece}_mask"), getattr(s, f"{piece}_labels")
        for kind, x in (("mask", mask), ("labels", labels)):
            if x is None:
                continue
            if x.ndim < 2:
                yield f"{piece}_{kind} has {x.ndim} dimensions, expected 2 or more"
            elif piece == "l2l" and x.shape[-1] != 2 * rules.radius + 1:
                yield (
                    f"{piece}_{kind} is {x.shape[-1]} wide, expected 2 * radius + 1 = "
                    f"{2 * rules.radius + 1} for radius {rules.radius}"
                )
        if labels is None:
            continue
        if num_labels is None:
            yield f"{piece}_labels given, but the model has no label table"
        elif not isinstance(labels, jax.core.Tracer) and np.size(labels):
            low, high = int(np.min(labels)), int(np.max(labels))
            if low < 0 or high >= num_labels:
                yield (
                    f"{piece}_labels reach from {low} to {high}, but the label "
                    f"vocabulary is 0..{num_labels - 1}; raise num_labels"
                )


def _matching_lengths(s: ExplicitStructure):
    sizes: dict[str, dict[str, int]] = {"n": {}, "g": {}}
    for piece in ("l2l", "l2g", "g2g", "g2l"):
        for kind in ("mask", "labels"):
            x = getattr(s, f"{piece}_{kind}")
            if x is None or x.ndim < 2:
                continue
            sizes["n" if piece[0] == "l" else "g"][f"{piece}_{kind} rows"] = x.shape[-2]
            if piece != "l2l":
                key = "g" if piece[-1] == "g" else "n"
                sizes[key][f"{piece}_{kind} columns"] = x.shape[-1]
    for name, seen in sizes.items():
        if len(set(seen.values())) > 1:
            yield f"lengths of {'long' if name == 'n' else 'global'} differ: {seen}"


def validate(
    structure: Structure | ExplicitStructure,
    rules: Rules,
    num_labels: int | None = None,
) -> None:
    """Checks shapes always, and values where they are concrete arrays.

    Args:
      structure: of one input or a batch.
      rules: the rules that it will be read with.
      num_labels: rows of the model's label table, to check explicit labels.

    Raises:
      ValueError: with every problem found, one a line.
    """
    if isinstance(structure, ExplicitStructure):
        problems = list(_explicit_problems(structure, rules, num_labels))
        problems += _matching_lengths(structure)
    else:
        problems = list(_shape_problems(structure, rules))
        traced = any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(structure))
        if not problems and not traced:
            problems = list(_range_problems(structure))
    if problems:
        raise ValueError("structure is not usable:\n  " + "\n  ".join(problems))
