"""Golden cases of the official masks and relative ids, against the structure rules.

Padding rows see nothing here, where official padding sees padding: rows of padding are
left out, and so are the ids of pairs in which one token is padding.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from etc_jax import structure as st
from etc_jax.structure import builders
from parity.cases import Case, group


def _exact(got, want, keep=None, what: str = "") -> None:
    """Asserts equality where `keep` is true."""
    want = np.asarray(want)
    got = np.broadcast_to(np.asarray(got), want.shape)
    if keep is not None:
        keep = np.broadcast_to(keep, want.shape)
        got, want = got[keep], want[keep]
    np.testing.assert_array_equal(got, want, err_msg=what)


# --- distance ids ---------------------------------------------------------------------


def _tokens(index) -> st.LongTokens:
    index = jnp.asarray(index)
    return st.LongTokens(index, jnp.ones_like(index), None, (), None)


def run_relative_positions(case: Case) -> float:
    """Distance labels of the l2l and g2g rules."""
    sidecar, arrays = case.description, case.arrays()
    for i, spec in enumerate(sidecar["specs"]):
        _compare_spec(spec, arrays[f"out/{i}_full"], arrays[f"out/{i}_local"])
    if overwrite := sidecar.get("overwrite"):
        _compare_overwrite(overwrite, arrays)
    return 0.0


def _compare_spec(spec: dict, full, local) -> None:
    k, radius = spec["max_distance"], spec["radius"]
    rules = st.Rules(radius=radius, max_distance=k)

    def change(labels):
        """Without direction, an official option that nothing uses: left as right."""
        if not spec.get("ignore_direction"):
            return labels
        return np.where(labels > k, labels - k, labels)

    def labels(query, key):
        return change(np.asarray(st.l2l(rules, _tokens(query), _tokens(key))[1]))

    batch = spec.get("batch", 1)
    n = np.arange(spec["full_len"])
    assert full.shape == (batch, len(n), len(n))
    _exact(labels(n[:, None], n[None])[None], full, what="full")
    rows = np.arange(spec["seq_len"])[:, None]
    window = rows + np.arange(2 * radius + 1)[None] - radius
    assert local.shape == (batch, *window.shape)
    _exact(labels(rows, window)[None], local, what="local")
    far = np.array([10 * k + 1])
    assert labels(np.zeros_like(far), far) == spec["right_pad_value"]
    assert labels(far, np.zeros_like(far)) == spec["left_pad_value"]
    used = change(np.arange(2 * k + 1))
    assert used.max() + 1 == spec["relative_vocab_size"]


def _compare_overwrite(spec: dict, arrays) -> None:
    """Other segments overwrite the distance: orders of global tokens."""
    segments = arrays["in/overwrite_segment_ids"]
    rules = st.Rules(radius=1, max_distance=spec["max_distance"])
    structure = _structure(np.ones((len(segments), 1)), np.ones(segments.shape), ())
    structure = _with(structure, order_ids=segments)
    labels = np.asarray(_pairs(structure, rules)["g2g"][1])
    labels = np.where(labels == rules.other_order_label, spec["value"], labels)
    _exact(labels, arrays["out/overwrite"], what="overwrite")


# --- side inputs ----------------------------------------------------------------------


def _structure(long_ids, global_ids, links) -> st.Structure:
    """A batch; `links` are official `[b, n]` ids, in which any int may stand."""
    n, g = np.shape(long_ids), np.shape(global_ids)[-1]
    links = np.stack([*links, np.full(n, -1)], axis=-1)[..., : len(links)]
    links = np.where((links >= 0) & (links < g), links, -1)
    return st.Structure(
        long_example_ids=np.asarray(long_ids, np.int32),
        global_example_ids=np.asarray(global_ids, np.int32),
        links=links.astype(st.LINK_DTYPE),
    )


def _with(structure: st.Structure, **changes) -> st.Structure:
    fields = {f: getattr(structure, f) for f in structure.__dataclass_fields__}
    return st.Structure(**{**fields, **changes})


def _pairs(structure: st.Structure, rules: st.Rules) -> dict:
    """`{piece: (mask, labels)}` as the official layout has it: l2l is a window."""
    st.validate(structure, rules)
    return _compiled_pairs(structure, rules)


@functools.partial(jax.jit, static_argnums=1)
def _compiled_pairs(structure: st.Structure, rules: st.Rules) -> dict:
    long, glob = structure.long_tokens(), structure.global_tokens()
    rows, columns = st.as_rows, st.as_columns
    return {
        "l2l": _window(rules, long),
        "l2g": st.l2g(rules, rows(long), columns(glob)),
        "g2l": st.g2l(rules, rows(glob), columns(long)),
        "g2g": st.g2g(rules, rows(glob), columns(glob)),
    }


def _slots(n: int, radius: int):
    """(index `[n, 2r+1]` of the key of each slot, whether it exists)."""
    index = np.arange(n)[:, None] + np.arange(2 * radius + 1)[None] - radius
    return index, (index >= 0) & (index < n)


def _window(rules: st.Rules, long: st.LongTokens):
    n = long.example_ids.shape[-1]
    index, inside = _slots(n, rules.radius)
    place = np.clip(index, 0, n - 1)
    keys = st.LongTokens(
        index=index[None],
        example_ids=jnp.where(inside[None], long.example_ids[:, place], 0),
        segment_ids=None if long.segment_ids is None else long.segment_ids[:, place],
        links=(),
        exempt=None,
    )
    return st.l2l(rules, st.as_rows(long._replace(links=())), keys)


def _compare(structure: st.Structure, rules: st.Rules, outputs: dict) -> None:
    """Masks on rows of real tokens, labels on pairs of real tokens; all of them."""
    pairs = _pairs(structure, rules)
    long = np.asarray(structure.long_example_ids) > 0
    glob = np.asarray(structure.global_example_ids) > 0
    index, inside = _slots(long.shape[-1], rules.radius)
    window = inside[None] & long[:, np.clip(index, 0, long.shape[-1] - 1)]
    outputs = dict(outputs)
    if (ids := outputs.pop("global_token_ids", None)) is not None:
        _exact(glob, ids, what="global tokens")
    for piece, (mask, labels) in pairs.items():
        rows = (long if piece[0] == "l" else glob)[..., None]
        keys = window if piece == "l2l" else (long if piece[2] == "l" else glob)
        keys = keys if piece == "l2l" else keys[:, None, :]
        _exact(mask, outputs.pop(f"{piece}_att_mask"), rows, f"{piece} mask")
        want = outputs.pop(f"{piece}_relative_att_ids", None)
        assert (labels is None) == (want is None), f"{piece} labels"
        if want is not None:
            _exact(labels, want, rows & keys, f"{piece} labels")
    assert not outputs, f"unknown outputs {sorted(outputs)}"


def _examples(breakpoints) -> np.ndarray:
    """1 at the last token of each example -> ids that count from the end; tail 0."""
    return np.cumsum(np.asarray(breakpoints)[:, ::-1], axis=-1)[:, ::-1]


def _call_rules(call: dict, radius: int, links: tuple[st.Link, ...]) -> st.Rules:
    return st.Rules(
        radius=radius,
        max_distance=call.pop("relative_pos_max_distance"),
        hard_g2l=call.pop("use_hard_g2l_mask", False),
        hard_l2g=call.pop("use_hard_l2g_mask", False),
        links=links,
    )


def run_side_inputs(case: Case) -> float:
    """General masks, packed side inputs and fixed blocks."""
    sidecar, arrays = case.description, case.arrays()
    inputs, outputs = group(arrays, "in"), group(arrays, "out")
    radius = sidecar["local_radius"]
    seen = {name for name in outputs if "/" not in name}
    for name in seen:
        _compare_mask_function(name, outputs[name], inputs, radius)
    for call in sidecar["calls"]:
        call = dict(call)
        tag = call.pop("tag")
        results = group(outputs, tag)
        assert results, f"no outputs of call {tag!r}"
        seen |= {f"{tag}/{name}" for name in results}
        rules = _call_rules(call, radius, (st.SENTENCE,))
        block = call.pop("num_tokens_per_block", None)
        assert not call, f"unknown arguments {call}"
        make = _packed(inputs) if block is None else _blocks(inputs, block)
        _compare(make, rules, results)
    assert seen == set(outputs), f"outputs of no call: {set(outputs) - seen}"
    return 0.0


def _packed(inputs: dict) -> st.Structure:
    ids = {}
    for side in ("long", "global"):
        if f"{side}_example_ids" in inputs:
            ids[side] = inputs[f"{side}_example_ids"]
        else:
            ids[side] = _examples(inputs[f"{side}_breakpoints"])
    return _structure(ids["long"], ids["global"], [inputs["sentence_ids"]])


def _blocks(inputs: dict, size: int) -> st.Structure:
    """From the mask; where it is a prefix, the builder must agree."""
    mask = inputs["block_input_mask"]
    n = mask.shape[-1]
    starts = np.arange(0, n, size)
    tops = np.maximum.reduceat(mask, starts, axis=-1)
    structure = _structure(
        mask, tops, [np.broadcast_to(np.arange(n) // size, mask.shape)]
    )
    for b, row in enumerate(mask):
        used = int(row.sum())
        if row[:used].all():
            built = builders.fixed_blocks(used, size, long_length=n)
            _exact(built.long_example_ids, structure.long_example_ids[b])
            _exact(built.global_example_ids, structure.global_example_ids[b])
            _exact(built.links, structure.links[b])
    return structure


def _compare_mask_function(name: str, want, inputs: dict, radius: int) -> None:
    """`make_[local_](segmented_att_mask | att_mask_from_[starting_]breakpoints)`.

    Segment ids start at 0 there, without a meaning of padding: every row counts.
    """
    if name.endswith("from_starting_breakpoints"):
        segments = np.cumsum(inputs["att_breakpoints"], axis=-1)
    elif name.endswith("from_breakpoints"):
        ends = inputs["att_breakpoints"]
        segments = np.cumsum(np.pad(ends, ((0, 0), (1, 0)))[:, :-1], axis=-1)
    elif name.endswith("segmented_att_mask"):
        segments = inputs["segment_ids"]
    else:
        raise AssertionError(f"unknown output {name!r}")
    if name.startswith("make_local"):
        structure = _structure(np.ones(segments.shape), np.ones((len(segments), 1)), ())
        structure = _with(structure, long_segment_ids=segments)
        mask, _ = _pairs(structure, st.Rules(radius=radius))["l2l"]
    else:
        structure = _structure(np.ones((len(segments), 1)), segments + 1, ())
        mask, _ = _pairs(structure, st.Rules(radius=radius))["g2g"]
    _exact(mask, want, what=name)


# --- multihop -------------------------------------------------------------------------

_MULTIHOP_LINKS = (st.SENTENCE, st.PARAGRAPH, st.MENTION)


def run_multihop(case: Case) -> float:
    """Side inputs with paragraphs, exemptions and linked mentions."""
    sidecar, arrays = case.description, case.arrays()
    inputs, outputs = group(arrays, "in"), group(arrays, "out")
    for call in sidecar["calls"]:
        tag, args = call["tag"], set(call["args"])
        k = call.get("relative_pos_max_distance", sidecar["relative_pos_max_distance"])
        structure = _multihop(inputs, args)
        flags = {
            "relative_pos_max_distance": k,
            "use_hard_g2l_mask": "use_hard_g2l_mask" in args,
            "use_hard_l2g_mask": "use_hard_l2g_mask" in args,
        }
        rules = _call_rules(flags, sidecar["local_radius"], _MULTIHOP_LINKS)
        _compare(structure, rules, group(outputs, tag))
    return 0.0


_MULTIHOP_ARGS = {
    "ignore_hard_g2l_mask",
    "ignore_hard_l2g_mask",
    "use_hard_g2l_mask",
    "use_hard_l2g_mask",
    "l2g_linked_ids",
    "flat_sequence",
}


def _multihop(inputs: dict, args: set[str]) -> st.Structure:
    assert args <= _MULTIHOP_ARGS, f"unknown arguments {args - _MULTIHOP_ARGS}"
    long = _examples(inputs["long_paragraph_breakpoints"])
    glob = _examples(inputs["global_paragraph_breakpoints"])
    links = [inputs["long_sentence_ids"], inputs["long_paragraph_ids"]]
    if "l2g_linked_ids" in args:
        links.append(inputs["l2g_linked_ids"])
    structure = _structure(np.minimum(long, 1), np.minimum(glob, 1), links)
    structure = _with(structure, long_segment_ids=long, order_ids=glob)
    for side, field in (("l2g", "exempt_l2g"), ("g2l", "exempt_g2l")):
        if f"ignore_hard_{side}_mask" in args:
            exempt = inputs[f"ignore_hard_{side}_mask"] == 1
            structure = _with(structure, **{field: exempt})
    return st.flat(structure) if "flat_sequence" in args else structure
