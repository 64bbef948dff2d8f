"""Weights of fairseq's versions under one set of names."""

import numpy as np
import pytest

from etc_jax.conversion.formats.fairseq_layout import UsualLayout

LAYER = "encoder.layers.3."
PARTS = {
    f"{LAYER}self_attn.{kind}_proj.{leaf}": np.full((2, 4)[: 1 + (leaf == "weight")], i)
    for i, kind in enumerate("qkv")
    for leaf in ("weight", "bias")
}
REST = {
    f"{LAYER}self_attn.out_proj.weight": np.full((4, 4), 5),
    f"{LAYER}fc1.bias": np.full(7, 6),
}
FUSED = {
    leaf: np.concatenate([PARTS[f"{LAYER}self_attn.{k}_proj.{leaf}"] for k in "qkv"])
    for leaf in ("weight", "bias")
}
OLD = {f"{LAYER}self_attn.in_proj_{leaf}": x for leaf, x in FUSED.items()}
FAST = {
    **{f"{LAYER}in_proj_{leaf}": x for leaf, x in FUSED.items()},
    f"{LAYER}out_proj_weight": REST[f"{LAYER}self_attn.out_proj.weight"],
    f"{LAYER}fc1_bias": REST[f"{LAYER}fc1.bias"],
}
STALE = {name: x + 100 for name, x in FAST.items()}


@pytest.mark.parametrize(
    "found",
    [PARTS | REST, PARTS | REST | STALE, STALE | REST | PARTS, OLD | REST, FAST]
    + [STALE | OLD | REST],
    ids=["usual", "beside", "beside, first", "0.8", "0.12", "0.8 beside 0.12"],
)
def test_all_layouts_are_one(found):
    layout = UsualLayout(found)
    assert set(layout) == set(PARTS | REST) and len(layout) == 8
    for name, array in (PARTS | REST).items():
        np.testing.assert_array_equal(layout[name], array)
        assert layout.original(name) in found


def test_a_name_is_that_of_the_file():
    name = f"{LAYER}self_attn.k_proj.bias"
    assert UsualLayout(OLD).original(name) == f"{LAYER}self_attn.in_proj_bias"
    assert UsualLayout({}).original(name) == name
    layout = UsualLayout({f"{LAYER}in_proj_bias": np.zeros(7)})
    with pytest.raises(ValueError, match=f"{LAYER}in_proj_bias has 7 rows; expected"):
        layout[name]
