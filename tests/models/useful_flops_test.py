"""Useful FLOPs equal those of the plain dense model, and pairs those of the masks."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from etc_jax import structure as st
from etc_jax.layers.patterns.global_local import GlobalLocal
from etc_jax.layers.self_attention import SequenceInputs
from etc_jax.models import useful_flops
from etc_jax.models.big_bird.config import BigBirdConfig
from etc_jax.models.encoder import flops as encoder_flops
from etc_jax.models.encoder_decoder import flops as encoder_decoder_flops
from etc_jax.models.etc.body import EtcForPretraining
from etc_jax.models.etc.config import EtcConfig
from etc_jax.models.long_t5.config import LongT5Config
from etc_jax.models.longformer.config import LongformerConfig
from etc_jax.models.reformer import flops as reformer_flops
from etc_jax.models.reformer.body import ReformerLm
from etc_jax.models.reformer.config import ReformerConfig
from etc_jax.training.preflight.flops import matmul_flops

SIZES = {"embed_dim": 64, "num_heads": 4, "mlp_dim": 256, "num_layers": 2}
VOCABULARY = 512
WITHOUT_DROPOUT = {"dropout_rate": 0.0, "attention_dropout_rate": 0.0}


def etc_config(**changes):
    sizes = {"radius": 40, "max_distance": 3, "num_labels": 10, "hard_g2l": False}
    options = {**SIZES, **sizes, **WITHOUT_DROPOUT, "attention": "dense"}
    return EtcConfig(vocab_size=VOCABULARY, **{**options, **changes})


def all_visible(rows=2, n=32, g=4):
    """An input of which every pair sees each other."""
    ids, global_ids = np.ones((rows, n), np.int32), np.ones((rows, g), np.int32)
    return st.Structure(ids, global_ids, np.zeros((rows, n, 1), np.int16))


def traced(f, *args):
    return matmul_flops(jax.make_jaxpr(f)(*args).jaxpr)


def etc_step_flops(config, structure, places):
    """All products of the traced loss and its gradient."""
    model = EtcForPretraining(config)
    tokens = [
        jnp.ones(np.shape(x), jnp.int32)
        for x in (structure.long_example_ids, structure.global_example_ids)
    ]
    positions = jnp.zeros((len(tokens[0]), places), jnp.int32)

    def loss(params):
        out = model.apply(params, *tokens, structure, method="encode")
        losses, _ = model.apply(
            params, out.long, positions, positions, method="mlm_losses"
        )
        return losses.sum() + out.global_.sum()

    params = jax.eval_shape(
        model.init, jax.random.key(0), *tokens, structure, positions
    )
    return traced(jax.grad(loss), params)


@pytest.mark.parametrize(
    "changes", [{"share_kv": True}, {"share_qkv": True}, {"embedding_dim": 32}]
)
def test_etc_counts_what_the_dense_model_multiplies(changes):
    config, structure = etc_config(**changes), all_visible()
    useful = useful_flops.of_step(config, "etc", [structure], masked_logits=2 * 5)
    assert useful == pytest.approx(etc_step_flops(config, structure, 5), rel=0.02)


@pytest.mark.full
def test_recomputing_and_chunks_change_what_is_computed_but_not_what_is_useful():
    # Half of it padding, and of what is left half another example.
    structure = all_visible(n=64, g=8)
    ids = np.array(structure.long_example_ids)
    ids[:, 16:32], ids[:, 32:] = 2, 0
    structure = dataclasses.replace(structure, long_example_ids=ids)
    sizes = {"radius": 8, "max_distance": 0, "num_labels": None}
    plain = etc_config(**sizes)
    assert etc_step_flops(plain, structure, 5) > 1.4 * useful_flops.of_step(
        plain, "etc", [structure], masked_logits=10
    )
    computed, useful = set(), set()
    for changes in (
        {"remat_policy": "none"},
        {"remat_policy": "full"},
        {"attention_block_size": 8, "attention_chunk_blocks": 3},
        {"logits_chunk_length": 2},
    ):
        config = etc_config(**sizes, **{"attention": "xla", **changes})
        computed.add(etc_step_flops(config, structure, 5))
        useful.add(useful_flops.of_step(config, "etc", [structure], masked_logits=10))
    assert len(useful) == 1 and len(computed) == 4


def random_structure(seed):
    rng = np.random.default_rng(seed)
    rows, n, g = 3, 19, 7
    ids = np.sort(rng.integers(0, 3, (rows, n)), axis=1).astype(np.int32)
    global_ids = np.sort(rng.integers(0, 3, (rows, g)), axis=1).astype(np.int32)
    return st.Structure(
        ids,
        global_ids,
        rng.integers(-1, g, (rows, n, 3)).astype(np.int16),
        long_segment_ids=rng.integers(0, 3, (rows, n)),
        exempt_l2g=rng.random((rows, n)) < 0.2,
        exempt_g2l=rng.random((rows, g)) < 0.3,
    )


@pytest.mark.parametrize("hard", [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("seed", range(3))
def test_pairs_of_etc_are_those_of_its_masks(hard, seed):
    structure = random_structure(seed)
    rules = st.Rules(radius=4, hard_g2l=hard[0], hard_l2g=hard[1])
    sides = {"l": structure.long_tokens(), "g": structure.global_tokens()}
    masks = [
        getattr(st, piece)(
            rules, st.as_rows(sides[piece[0]]), st.as_columns(sides[piece[2]])
        )[0]
        for piece in ("l2l", "l2g", "g2l", "g2g")
    ]
    expected = sum(int(np.sum(mask)) for mask in masks)
    assert GlobalLocal(rules, None).visible_pairs(None, structure) == expected


def sequences(rows=2, n=24, padding=0):
    ids = np.ones((rows, n), np.int32)
    ids[:, n - padding :] = 0
    return ids


def test_pairs_of_a_long_t5_are_those_of_a_plain_loop():
    ids = np.sort(np.random.default_rng(0).integers(0, 3, (2, 30)), axis=1)
    sizes = SIZES | {"num_layers": 1, "num_decoder_layers": 1}
    config = LongT5Config(**sizes, radius=4, block_size=4)
    expected, sums = 0, 0
    for row in ids:
        blocks = {name: int(np.sum(row == name)) // 4 for name in (1, 2)}
        sums += sum(blocks.values())
        for i in np.flatnonzero(row):
            near = [j for j in range(30) if abs(j - i) <= 4 and row[j] == row[i]]
            expected += len(near) + blocks[row[i]]
    local = dataclasses.replace(config, encoder_attention="local")
    none = SequenceInputs(np.zeros((2, 1), np.int32))
    inputs = SequenceInputs(ids), none
    width = config.num_heads * config.attention_head_dim
    maps = 2 * config.embed_dim * width
    bodies = [encoder_decoder_flops.body(c, inputs) for c in (config, local)]
    tokens = int(np.sum(ids > 0))
    mlp = 2 * 3 * config.embed_dim * config.mlp_dim
    # Keys and values of the memory, for the decoder's one layer.
    dense = tokens * (4 * maps + mlp) + 2 * tokens * maps
    assert bodies[0] == dense + 4 * expected * width + 2 * sums * maps
    assert bodies[1] < bodies[0]


def test_pairs_of_windows_are_those_of_a_plain_loop():
    rng = np.random.default_rng(0)
    ids = np.sort(rng.integers(0, 3, (2, 30)), axis=1)
    index = np.array([[3, 29, -1], [28, 12, 25]])
    config = LongformerConfig(
        **SIZES, attention_window=(8,), attention_dilation=((1, 1, 2, 3),)
    )
    expected = 0
    for row, globals_ in zip(ids, index, strict=True):
        for step in (1, 1, 2, 3):
            for i in range(30):
                for j in range(30):
                    near = abs(j - i) <= 4 * step and (j - i) % step == 0
                    seen = near or i in globals_ or j in globals_
                    expected += seen and row[i] == row[j] > 0
    inputs = SequenceInputs(ids, index)
    [pattern] = config.patterns
    assert pattern.visible_pairs(config, inputs) == expected / 4


def test_positions_of_offsets_cost_a_map_and_a_product_for_each_pair():
    config = LongformerConfig(
        **SIZES, attention_window=(8,), attention_dilation=(1,), causal=True
    )
    relative = dataclasses.replace(config, positions="relative")
    inputs = SequenceInputs(np.ones((2, 30), np.int32))
    pairs = 2 * sum(min(i, 4) + 1 for i in range(30))
    width = config.embed_dim
    more = 2 * (4 + 1) * width * width + 2 * pairs * width
    got = encoder_flops.body(relative, inputs) - encoder_flops.body(config, inputs)
    assert got == config.num_layers * more


def test_blocks_of_a_big_bird_hold_the_pairs_that_it_computes():
    config = BigBirdConfig(**SIZES, block_size=4, num_random_blocks=1)
    [pattern] = config.patterns
    inputs = SequenceInputs(sequences(rows=1, n=64))
    # Two global blocks see all; of the other 14, the outermost see a global block as
    # a neighbour too, and have it once.
    expected = 8 * 64 + 4 * (12 * 6 + 2 * 5) * 4
    got = pattern.visible_pairs(config, inputs)
    assert got == pytest.approx(expected, rel=0.02)


def test_reformer_counts_what_its_layers_multiply():
    config = ReformerConfig(
        vocab_size=VOCABULARY,
        pattern=("local", "lsh"),
        max_length=64,
        axial_shape=None,
        axial_dims=None,
        local_chunk_length=16,
        lsh_chunk_length=16,
        num_buckets=(4,),
        reversible=False,
        causal=False,
        **SIZES,
        **WITHOUT_DROPOUT,
    )
    model, ids = ReformerLm(config), sequences(n=64)
    tokens = jnp.ones(ids.shape, jnp.int32)
    params = jax.eval_shape(model.init, jax.random.key(0), tokens)
    forward = traced(lambda p: model.apply(p, tokens), params)
    inputs = SequenceInputs(ids)
    useful = useful_flops.of_step(config, "reformer", inputs, causal_logits=2 * 64)
    # The first chunk of local layers has none before it: the op computes with padding.
    local = reformer_flops.body(config, inputs)
    assert local < useful / 3 <= forward
    assert useful / 3 == pytest.approx(forward, rel=0.06)
