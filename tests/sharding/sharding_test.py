import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_job

from etc_jax import sharding
from etc_jax.base import registry
from etc_jax.sharding import (
    MeshConfig,
    axes_for,
    batch as batch_sharding,
    make_mesh,
    spec_for,
    tree_shardings,
)
from etc_jax.structure import Structure

P = jax.P
SPLIT = MeshConfig(data=2, fsdp=2, tensor=2)


def struct(*shape):
    return jax.ShapeDtypeStruct(shape, np.float32)


def test_mesh_takes_all_devices():
    mesh = make_mesh(MeshConfig(fsdp=2))
    assert dict(mesh.shape) == {"data": 4, "fsdp": 2, "tensor": 1, "sequence": 1}
    assert len(set(mesh.devices.flat)) == 8
    assert all(kind == jax.sharding.AxisType.Auto for kind in mesh.axis_types)
    one = make_mesh(MeshConfig(), jax.devices()[:1])
    assert one.size == 1


@pytest.mark.parametrize(
    "config, message",
    [
        (MeshConfig(data=2, fsdp=2), "needs 4 devices, but there are 8"),
        (MeshConfig(data=4, fsdp=4), "needs 16 devices, but there are 8"),
        (MeshConfig(fsdp=3), "needs 6 devices, but there are 8"),
        (MeshConfig(tensor=16), "needs 16 devices, but there are 8"),
        (MeshConfig(sequence=3), "needs 6 devices, but there are 8"),
        (MeshConfig(sequence=0), "sequence is 0; expected 1 or more"),
        (MeshConfig(data=0), "or -1"),
    ],
)
def test_mesh_that_does_not_fit_is_refused(config, message):
    with pytest.raises(ValueError, match=message):
        make_mesh(config)


class Gpu:
    """A device of a host with four, as jax describes it; hosts count as slices."""

    platform, device_kind = "gpu", "NVIDIA H200"

    def __init__(self, number):
        self.id, self.slice_index = number, number // 4


def test_hosts_with_gpus_share_a_mesh():
    # In the order in which processes came, which is not that of the hosts.
    mesh = make_mesh(MeshConfig(fsdp=8), [*map(Gpu, (4, 5, 6, 7, 0, 1, 2, 3))])
    assert [device.id for device in mesh.devices.flat] == [*range(8)]
    mesh = make_mesh(MeshConfig(fsdp=4), [*map(Gpu, range(8))])
    assert [{x.slice_index for x in row.flat} for row in mesh.devices] == [{0}, {1}]


def mlp_kernel(part):
    return f"params/encoder/{part}mlp/wi/kernel"


@pytest.mark.parametrize(
    "path, ndim, spec",
    [
        ("params/token_embedder/embedding", 2, P(("tensor", "fsdp"), None)),
        ("params/segment_embedder/embedding", 2, P(None, None)),
        ("params/long_position_embedder/embedding", 2, P(None, None)),
        ("params/embedding_projection/kernel", 2, P("fsdp", None)),
        ("params/embedding_projection/bias", 1, P(None)),
        ("a/layers/attention/g2l_key/kernel", 4, P(None, "fsdp", "tensor", None)),
        ("a/attention/long_query/kernel", 3, P("fsdp", "tensor", None)),
        ("a/attention/l2g_value/bias", 2, P(None, None)),
        ("a/layers/attention/global_out/kernel", 4, P(None, "tensor", None, "fsdp")),
        ("a/long_labels/embedding", 3, P(None, "tensor", None)),
        ("a/long_labels/bias", 2, P(None, None)),
        (mlp_kernel(""), 2, P("fsdp", "tensor")),
        (mlp_kernel("long_"), 2, P("fsdp", "tensor")),
        ("a/layers/global_mlp/wo/kernel", 3, P(None, "tensor", "fsdp")),
        ("a/mlp/wi/bias", 1, P(None)),
        ("a/layers/long_attention_norm/scale", 2, P(None, None)),
        ("mlm_head/mlm_dense/kernel", 2, P("fsdp", None)),
        ("mlm_head/mlm_bias", 1, P(None)),
        ("cpc/cpc_prediction/kernel", 2, P("fsdp", None)),
        ("cpc/log_temperature", 0, P()),
        ("params/visual/flag_embedder/embedding", 2, P(None, None)),
        ("params/visual/parent_font_embedder/embedding", 2, P(None, None)),
        ("params/visual/looks_in/kernel", 2, P(None, None)),
        ("params/visual/looks_out/kernel", 2, P("fsdp", None)),
        ("params/head/ngram_5/kernel", 3, P(None, "fsdp", None)),
        ("params/head/ngram_5/bias", 1, P(None)),
        ("params/head/ngram_1_norm/scale", 1, P(None)),
        ("params/head/ngram_1_logit/kernel", 2, P(None, None)),
        ("opt_state/inner_state/1/0/nu/a/mlp/wo/kernel", 2, P("tensor", "fsdp")),
        ("opt_state/count", 0, P()),
    ],
)
def test_table(path, ndim, spec):
    assert spec_for(path, ndim) == spec


@pytest.mark.parametrize(
    "path", ["params/query/kernel", "params/mlpx/kernel", "params/xlong_query/kernel"]
)
def test_path_without_a_rule_is_an_error(path):
    with pytest.raises(ValueError, match="no sharding rule matches"):
        axes_for(path, 2)


def test_array_smaller_than_its_rule_is_an_error():
    with pytest.raises(ValueError, match="has 1 dimensions, but its row"):
        axes_for("params/mlp/wi/kernel", 1)


def test_every_problem_of_a_tree_is_named():
    tree = {
        "mlp": {"wi": {"kernel": struct(7, 6)}, "wo": {"kernel": struct(6, 9)}},
        "odd": struct(3),
    }
    with pytest.raises(ValueError) as caught:
        tree_shardings(tree, make_mesh(SPLIT))
    text = str(caught.value)
    assert "3 sharding problems" in text
    assert "mlp/wi/kernel: dimension 0 of (7, 6) is 7, not divisible by 2" in text
    assert "(mesh axes fsdp=2); nearest valid: 6 or 8" in text
    assert "mlp/wo/kernel: dimension 1 of (6, 9) is 9" in text
    assert "'odd'" in text


@pytest.mark.parametrize("config, devices", [(MeshConfig(), 1), (SPLIT, 8)])
def test_arrays_lie_where_the_table_says(config, devices):
    mesh = make_mesh(config, jax.devices()[:devices])
    params = toy_job.init_params(toy_job.ToyConfig(), jax.random.key(0))
    placed = jax.device_put(params, tree_shardings(params, mesh))
    table = placed["token_embedder"]["embedding"]
    rows = 32 // (mesh.shape["tensor"] * mesh.shape["fsdp"])
    assert table.addressable_shards[0].data.shape == (rows, 16)
    jax.tree.map(np.testing.assert_array_equal, placed, params)


def etc_parameters():
    from etc_jax.models.etc.body import EtcForPretraining
    from etc_jax.structure import Structure

    sizes = {
        "vocab_size": 64,
        "embed_dim": 32,
        "embedding_dim": 16,
        "num_layers": 2,
        "num_heads": 4,
        "mlp_dim": 64,
        "radius": 4,
        "max_positions": 32,
    }
    one = jnp.ones((2, 16), jnp.int32)
    globals_ = jnp.ones((2, 4), jnp.int32)
    structure = Structure(one, globals_, jnp.zeros((2, 16, 1), jnp.int16))
    for share in ({}, {"share_mlp": False, "scan_layers": False}, {"share_qkv": True}):
        config = registry.lookup("model_config", "etc")(**sizes, **share)
        model = EtcForPretraining(config)
        places = jnp.zeros((2, 3), jnp.int32)
        yield jax.eval_shape(
            lambda rng, m=model, p=places: m.init(rng, one, globals_, structure, p),
            jax.random.key(0),
        )


def test_every_parameter_of_etc_has_a_place():
    mesh = make_mesh(SPLIT)
    for params in etc_parameters():
        shardings = jax.tree.leaves(tree_shardings(params, mesh))
        assert len(shardings) == len(jax.tree.leaves(params))
        big = [x.size for x in jax.tree.leaves(params)]
        split = [s.spec != P(*[None] * len(s.spec)) for s in shardings]
        # What is not split is small.
        whole = sum(n for n, s in zip(big, split, strict=True) if not s)
        assert whole < 0.2 * sum(big)


def test_constrain_without_rules_is_the_identity():
    x = jnp.ones((2, 3))
    assert sharding.constrain(x, "batch", "nonsense") is x


def test_constrain_pins_the_layout():
    mesh = make_mesh(SPLIT)
    with jax.set_mesh(mesh), sharding.logical_rules(sharding.DEFAULT_RULES):
        x = jax.jit(lambda x: sharding.constrain(x, "batch", "heads"))(jnp.ones((8, 2)))
        assert x.sharding.spec == P(("data", "fsdp"), "tensor")
        with pytest.raises(ValueError, match="no rule for logical axis 'nonsense'"):
            sharding.constrain(x, "batch", "nonsense")
        with pytest.raises(ValueError, match="1 logical axes"):
            sharding.constrain(x, "batch")
    y = jnp.ones(3)
    assert sharding.constrain(y, "batch") is y


def test_batch_rows_are_split_and_the_rest_is_whole():
    mesh = make_mesh(SPLIT)
    batch = {"x": np.zeros((8, 3)), "n": np.float32(2)}
    shardings = batch_sharding.batch_shardings(batch, mesh)
    assert shardings["x"].spec == P(("data", "fsdp"))
    assert shardings["n"].spec == P()
    with pytest.raises(
        ValueError, match=r"batch entry 'x': .* is 6, not divisible by 4.*4 or 8"
    ):
        batch_sharding.batch_shardings({"x": np.zeros((6, 3))}, mesh)


def pretraining_entries(n=16):
    """The entries of a batch of ETC that have an axis along the sequence, and more."""
    rows = np.arange(4 * n, dtype=np.int32).reshape(4, n)
    explicit = Structure.explicit(
        l2l_mask=rows[..., None], g2l_mask=np.stack([rows] * 3, axis=1)
    )
    return {
        "long_tokens": rows,
        "cpc_long_tokens": rows,
        "global_tokens": rows[:, :3],
        "mlm_positions": rows[:, :8],
        "structure": Structure(rows, rows[:, :3], rows[..., None]),
        "explicit": explicit,
    }


def test_the_long_sequence_of_a_batch_is_split():
    mesh = make_mesh(MeshConfig(data=2, sequence=4))
    batch = pretraining_entries()
    split = batch_sharding.batch_shardings(batch, mesh)
    rows = ("data", "fsdp")
    for entry in (
        split["long_tokens"],
        split["cpc_long_tokens"],
        split["structure"].long_example_ids,
        split["structure"].links,
        split["explicit"].l2l_mask,
    ):
        assert entry.spec == P(rows, "sequence")
    assert split["explicit"].g2l_mask.spec == P(rows, None, "sequence")
    for entry in (
        split["global_tokens"],
        split["mlm_positions"],
        split["structure"].global_example_ids,
    ):
        assert entry.spec == P(rows)
    made = batch_sharding.to_global(batch, mesh, 4)
    jax.tree.map(np.testing.assert_array_equal, made, batch)
    jax.tree.map(lambda x, s: x.sharding == s or pytest.fail(str(s)), made, split)
    with pytest.raises(ValueError) as caught:
        batch_sharding.batch_shardings(pretraining_entries(18), mesh)
    assert str(caught.value).count("is 18, not divisible by 4") == 6


def test_the_sequence_has_an_axis_where_it_is_split():
    assert sharding.sequence_axis() is None
    rules = sharding.logical_rules(sharding.DEFAULT_RULES)
    with jax.set_mesh(make_mesh(MeshConfig(data=2, sequence=4))), rules:
        assert sharding.sequence_axis() == "sequence"
    rules = sharding.logical_rules(sharding.DEFAULT_RULES)
    with jax.set_mesh(make_mesh(SPLIT)), rules:
        assert sharding.sequence_axis() is None


def test_one_process_builds_all_rows_and_they_stay_in_order():
    mesh = make_mesh(SPLIT)
    rows = batch_sharding.local_rows(8, mesh)
    np.testing.assert_array_equal(rows, np.arange(8))
    made = batch_sharding.to_global({"x": np.arange(8)[:, None], "n": 3}, mesh, 8)
    np.testing.assert_array_equal(made["x"], np.arange(8)[:, None])
    assert made["x"].sharding.spec == P(("data", "fsdp"))
    assert int(made["n"]) == 3


def tied_loss(params, ids):
    """Gather of the token table, an MLP, logits by the same table."""
    table = params["token_embedder"]["embedding"]
    x = sharding.constrain(table[ids], "batch", "length", "activation_embed")
    x = (
        x
        + jax.nn.gelu(x @ params["mlp"]["wi"]["kernel"]) @ params["mlp"]["wo"]["kernel"]
    )
    x = sharding.constrain(x, "batch", "length", "activation_embed")
    logits = sharding.constrain(
        jnp.einsum("ble,ve->blv", x, table), "batch", "length", "activation_vocab"
    )
    return -jnp.mean(jax.nn.log_softmax(logits)[..., 0])


@pytest.mark.parametrize(
    "table_spec, complains", [(None, False), (P(None, ("tensor", "fsdp")), True)]
)
def test_token_table_needs_no_full_rematerialization(
    capfd, compiled_anew, table_spec, complains
):
    # The second case shows that XLA's complaint is seen: whole rows, columns over both
    # axes. (Rows over tensor, columns over fsdp: jax 0.10 complains, 0.11 does not.)
    mesh = make_mesh(SPLIT)
    params = {
        "token_embedder": {"embedding": struct(512, 64)},
        "mlp": {"wi": {"kernel": struct(64, 256)}, "wo": {"kernel": struct(256, 64)}},
    }
    shardings = tree_shardings(params, mesh)
    if table_spec is not None:
        shardings["token_embedder"]["embedding"] = jax.NamedSharding(mesh, table_spec)
    ids = jax.ShapeDtypeStruct((8, 32), np.int32)
    with jax.set_mesh(mesh), sharding.logical_rules(sharding.DEFAULT_RULES):
        jax.jit(
            jax.value_and_grad(tied_loss),
            in_shardings=(shardings, batch_sharding.batch_shardings(ids, mesh)),
            out_shardings=(batch_sharding.replicated(mesh), shardings),
        ).lower(params, ids).compile()
    seen = "Involuntary full rematerialization" in capfd.readouterr().err
    assert seen == complains
