"""Where the arrays of an optimizer lie, and that this changes no update."""

import functools
import math
import re

import jax
import numpy as np
import pytest
import toy_job
from tpu_process import in_a_process
from training_runs import losses, plan_of, signal_at
from trees import assert_close

from etc_jax import config as config_lib
from etc_jax.objectives.sections import MlmCpcConfig
from etc_jax.sharding import (
    DEFAULT_RULES,
    MeshConfig,
    axes_for,
    make_mesh,
    matrix_dims,
    path_of,
    tree_shardings,
)
from etc_jax.training import run as run_lib
from etc_jax.training.preflight import dry_run, plan
from etc_jax.training.run import train_and_evaluate

P = jax.P
STEPS = 5
SPLIT = {"mesh__data": 4, "mesh__tensor": 2}


def config(name, **changes):
    if name == "adafactor":
        changes["optimizer__adafactor__min_dim_size_to_factor"] = 8
    return toy_job.config(
        optimizer__name=name,
        train__num_steps=STEPS,
        checkpoint__every_steps=100,
        **changes,
    )


def one_device(c):
    del c
    return make_mesh(MeshConfig(), jax.devices()[:1])


def trained(monkeypatch, folder, c, mesh_fn=make_mesh):
    """Parameters of the end."""
    monkeypatch.setattr(run_lib, "make_mesh", mesh_fn)
    return jax.device_get(train_and_evaluate(c, folder).state.params)


assert_near = functools.partial(assert_close, rtol=1e-5, atol=1e-6)


def device_bytes(tree):
    return sum(
        math.prod(x.sharding.shard_shape(x.shape)) * x.dtype.itemsize
        for x in jax.tree.leaves(tree)
    )


@pytest.mark.parametrize(
    "path, ndim, dims",
    [
        ("token_embedder/embedding", 2, ((0,), (1,))),
        ("layers/long_query/kernel", 4, ((1,), (2, 3))),
        ("layers/global_out/kernel", 4, ((1, 2), (3,))),
        ("long_labels/embedding", 3, ((0,), (1, 2))),
        ("mlp/wo/kernel", 2, ((0,), (1,))),
        ("long_position_embedder/embedding", 2, None),
        ("layers/long_query/bias", 3, None),
        ("mlm_norm/scale", 1, None),
        ("cpc_log_temperature", 0, None),
    ],
)
def test_rows_and_columns_of_a_parameter(path, ndim, dims):
    assert matrix_dims(path, ndim) == dims


@pytest.mark.parametrize(
    "path, ndim, axes",
    [
        ("v_row/token_embedder/embedding", 1, ("vocab",)),
        ("v_col/token_embedder/embedding", 1, (None,)),
        ("v_row/layers/long_query/kernel", 2, ("layers", "embed")),
        ("v_col/layers/long_query/kernel", 3, ("layers", "heads", "head_dim")),
        ("v_row/layers/long_out/kernel", 3, ("layers", "heads", "head_dim")),
        ("v_col/layers/long_out/kernel", 2, ("layers", "embed")),
        ("v_col/mlp/wi/kernel", 1, ("mlp",)),
        ("v_row/mlp/wi/bias", 0, ()),
        ("v/layers/mlp/wi/kernel", 3, ("layers", "embed", "mlp")),
    ],
)
def test_factored_moments_have_what_is_left_of_their_parameters_axes(path, ndim, axes):
    assert axes_for(f"opt_state/inner_state/1/{path}", ndim) == axes


def test_a_factored_moment_of_too_few_dimensions_is_an_error():
    with pytest.raises(ValueError, match="has 1 dimensions, but its row"):
        axes_for("opt_state/v_col/long_query/kernel", 1)


@pytest.mark.full
def test_adafactor_on_eight_devices_is_that_on_one(monkeypatch, tmp_path):
    c = config("adafactor", mesh__data=2, mesh__fsdp=2, mesh__tensor=2)
    v_row = plan_of(c).state.opt_state.inner_state[1].v_row
    assert v_row["mlp"]["wi"]["kernel"].sharding.spec == P("fsdp")
    many = trained(monkeypatch, tmp_path / "many", c)
    c = config("adafactor")
    one = trained(monkeypatch, tmp_path / "one", c, one_device)
    assert_near(many, one)


def test_the_moments_of_adafactor_are_small():
    adam, factored = plan_of(config("adamw")), plan_of(config("adafactor"))
    adam, factored = (device_bytes(p.state.opt_state) for p in (adam, factored))
    print(f"bytes of the optimizer: adamw {adam}, adafactor {factored}")
    assert factored < 0.1 * adam


def etc_state_bytes(name):
    """(parameters, optimizer) of ETC-base on one device, as shapes alone."""
    from etc_jax.models.etc import config as etc_config
    from etc_jax.objectives.pretraining import Pretraining
    from etc_jax.training.state import abstract_state

    values = config_lib.default_config()
    values.optimizer.name = name
    tx = plan.optimizer_for(config_lib.from_config_dict(values))
    task = Pretraining(etc_config.base(vocab_size=30592), MlmCpcConfig())
    mesh = make_mesh(MeshConfig(), jax.devices()[:1])
    state = abstract_state(task.init, tx, mesh)
    return device_bytes(state.params), device_bytes(state.opt_state)


def test_adafactor_of_etc_base_needs_a_hundredth_of_adamw():
    params, adam = etc_state_bytes("adamw")
    same, factored = etc_state_bytes("adafactor")
    print(f"ETC-base: parameters {params / 2**20:.1f} MiB, AdamW {adam / 2**20:.1f}")
    print(f"Adafactor {factored / 2**20:.2f} MiB")
    assert params == same and abs(adam - 2 * params) < 1000
    assert factored < 0.01 * adam


@pytest.mark.parametrize("name", ["adamw", "lamb", "adafactor"])
@pytest.mark.full(but=["adafactor"])
def test_moments_split_over_data_train_alike(monkeypatch, tmp_path, name):
    whole = config(name, **SPLIT)
    split = config(name, **SPLIT, optimizer__shard_state=True)
    apart = trained(monkeypatch, tmp_path / "split", split)
    together = trained(monkeypatch, tmp_path / "whole", whole)
    assert_near(apart, together, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["adamw", "lamb_bert"])
def test_splitting_the_moments_divides_their_bytes(name):
    whole = plan_of(config(name, **SPLIT)).state
    split = plan_of(config(name, **SPLIT, optimizer__shard_state=True)).state
    assert device_bytes(split.params) == device_bytes(whole.params)
    parts = device_bytes(split.opt_state) / device_bytes(whole.opt_state)
    assert parts == pytest.approx(1 / 4, abs=0.02)
    flat, _ = jax.tree_util.tree_flatten_with_path(split.opt_state)
    specs = {x.sharding.spec for k, x in flat if path_of(k).endswith("wo/kernel")}
    assert specs == {P(("tensor", "data"), "fsdp")}


def test_the_dry_run_counts_the_split_moments():
    def held(**changes):
        text = dry_run.dry_run(config("adamw", **SPLIT, **changes), compiles=False)
        return float(re.search(r"one device holds\s+([\d.]+) MiB", text)[1])

    sizes = {"model__vocab_size": 4096, "model__embed_dim": 256}
    whole, split = held(**sizes), held(**sizes, optimizer__shard_state=True)
    # Of three equal parts (parameters and two moments), two are cut by four.
    assert split == pytest.approx(whole / 2, rel=0.02)


@pytest.mark.parametrize(
    "shape, spec, got",
    [
        ((12, 8, 16), P(None, "fsdp", "tensor"), P("data", "fsdp", "tensor")),
        ((12, 8, 64), P(None, "fsdp", "tensor"), P(None, "fsdp", ("tensor", "data"))),
        ((6, 6), P(None, None), P(None, None)),
        ((6, 4), P(None, None), P(None, "data")),
        ((), P(), P()),
    ],
)
def test_the_dimension_of_the_largest_parts_is_cut(monkeypatch, shape, spec, got):
    axes = {"fsdp": "embed", "tensor": "heads", None: None}
    row = (r"w", tuple(axes[a] for a in spec) or None)
    monkeypatch.setattr("etc_jax.sharding.PARAM_AXES", (row,))
    mesh = make_mesh(MeshConfig(data=4, tensor=2))
    leaf = jax.ShapeDtypeStruct(shape, np.float32)
    rules = {**DEFAULT_RULES, "moments": "data"}
    found = tree_shardings(
        {"opt_state": {"w": leaf}, "params": {"w": leaf}}, mesh, rules
    )
    assert found["opt_state"]["w"].spec == got
    assert found["params"]["w"].spec == spec


@pytest.mark.full
def test_a_run_continues_with_the_other_setting(monkeypatch, tmp_path):
    def setting(split):
        return config("adamw", **SPLIT, optimizer__shard_state=split)

    for step, split in ((2, False), (4, True)):
        with monkeypatch.context() as patch:
            signal_at(patch, step)
            assert train_and_evaluate(setting(split), tmp_path / "run").step == step
    resumed = train_and_evaluate(setting(False), tmp_path / "run")
    straight = train_and_evaluate(setting(False), tmp_path / "straight")
    assert_near(resumed.state.params, straight.state.params, atol=1e-6)
    assert sorted(losses(tmp_path / "run")) == list(range(1, STEPS + 1))


def compiled(c, mesh):
    p = plan_of(c, mesh)
    with plan.on_mesh(mesh):
        return p, plan.trace_step(p).lower().compile()


def gathered(text):
    """Shapes that are gathered, in order."""
    return sorted(re.findall(r"= f32\[([\d,]+)\]\S* all-gather(?:-start)?\(", text))


def test_new_parameters_are_gathered_once_and_moments_never():
    c = config("adamw", mesh__data=8)
    _, whole = compiled(c, make_mesh(c.mesh))
    assert gathered(whole.as_text()) == []
    c = config("adamw", mesh__data=8, optimizer__shard_state=True)
    p, split = compiled(c, make_mesh(c.mesh))
    params = jax.tree.leaves(p.state.params)
    shapes = sorted(",".join(map(str, x.shape)) for x in params)
    text = split.as_text()
    assert gathered(text) == shapes
    assert "all-to-all" not in text
    before, after = (x.memory_analysis().argument_size_in_bytes for x in (whole, split))
    # Of two moments, seven eighths are elsewhere.
    saved = 2 * 7 / 8 * sum(x.size * 4 for x in params)
    assert before - after == pytest.approx(saved, rel=0.05)


def check_the_step_of_a_tpu():
    """Compiles for absent chips; in a process of its own, as libtpu stays loaded."""
    from etc_jax.training.preflight import topology

    sizes = {
        "model__embed_dim": 256,
        "model__mlp_dim": 1024,
        "model__vocab_size": 4096,
        "model__length": 1024,  # activations larger than weights, as in training
        "train__batch_size": 128,
    }
    c = config("adamw", mesh__data=8, optimizer__shard_state=True, **sizes)
    chips = topology.devices("v5e:2x4")
    _, split = compiled(c, topology.mesh_over(c.mesh, chips))
    text = split.as_text()
    assert "reduce-scatter" in text
    rows = [shape for shape in gathered(text) if int(shape.split(",")[0]) == 128]
    assert rows == []  # no activation of the whole batch
    print(f"{text.count('reduce-scatter')} mentions of reduce-scatter")


@pytest.mark.tpu_aot
def test_a_tpu_scatters_gradients_while_it_adds_them():
    printed = in_a_process(__name__, check_the_step_of_a_tpu)
    assert "mentions of reduce-scatter" in printed
