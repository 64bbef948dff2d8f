"""Saving, restoring onto other meshes, and what does not fit."""

import itertools

import jax
import jax.numpy as jnp
import pytest
import toy_job
from checkpoint_states import (
    data_file,
    flip_a_bit,
    kept,
    make_state,
    restore,
    save_all,
    saved_fixture,  # noqa: F401
    shapes_of,
    states_fixture,  # noqa: F401
    wanted,
    workdir_fixture,  # noqa: F401
)

from etc_jax.sharding import MeshConfig, make_mesh
from etc_jax.training.checkpoints.checkpointer import Checkpointer
from etc_jax.training.checkpoints.layout import check_same_leaves
from etc_jax.training.errors import UserError

# data, fsdp, tensor, sequence
MESHES = [
    (8, 1, 1, 1),
    (1, 8, 1, 1),
    (1, 1, 8, 1),
    (2, 2, 2, 1),
    (4, 1, 2, 1),
    (1, 2, 2, 2),
]


def test_newest_checkpoint_is_restored_bit_for_bit(workdir, states):
    got = restore(workdir)
    assert got.data == {"step": 6}
    assert type(got.state) is type(states[6])
    assert toy_job.digest(got.state) == toy_job.digest(states[6])


def test_a_new_workdir_has_nothing_to_restore(tmp_path):
    assert restore(tmp_path) is None


@pytest.fixture(scope="module")
def by_mesh(tmp_path_factory):
    """For each mesh: its devices, a workdir saved from it, and the digest."""
    found, whole = {}, make_state()
    for sizes in MESHES:
        mesh, folder = make_mesh(MeshConfig(*sizes)), tmp_path_factory.mktemp("mesh")
        layout = jax.tree.map(lambda a: a.sharding, wanted(mesh))
        state = jax.device_put(whole, layout)
        save_all(folder, {1: state})
        found[sizes] = (mesh, folder, toy_job.digest(state))
    return found


@pytest.mark.parametrize("source, target", list(itertools.product(MESHES, MESHES)))
@pytest.mark.full(but=["source*5-*"])
def test_any_mesh_restores_any_checkpoint(by_mesh, source, target):
    abstract = wanted(by_mesh[target][0])
    _, folder, digest = by_mesh[source]
    got = restore(folder, abstract).state
    assert toy_job.digest(got) == digest
    for leaf, want in zip(jax.tree.leaves(got), jax.tree.leaves(abstract), strict=True):
        assert leaf.sharding.is_equivalent_to(want.sharding, leaf.ndim)


def test_a_step_can_be_saved_again_after_falling_back(workdir, states):
    flip_a_bit(data_file(workdir / "checkpoints" / "6"))
    with Checkpointer(workdir, keep=3) as checkpointer:
        assert checkpointer.restore(wanted()).data == {"step": 4}
        checkpointer.save(states[6], {"step": 6}, step=6)
    assert toy_job.digest(restore(workdir).state) == toy_job.digest(states[6])


def test_old_checkpoints_go(tmp_path, states):
    with Checkpointer(tmp_path, keep=2) as checkpointer:
        for step in range(1, 6):
            checkpointer.save(states[2], {"step": step}, step=step)
            assert checkpointer.blocked_secs > 0
    assert kept(tmp_path) == ["4", "5"]
    assert restore(tmp_path).data == {"step": 5}


def test_state_may_be_donated_while_it_is_written(tmp_path):
    state = {"mlp": {"wi": {"kernel": jnp.arange(2.0**20).reshape(1024, 1024)}}}
    expected = toy_job.digest(state)
    overwrite = jax.jit(
        lambda s: jax.tree.map(lambda x: x * 0 - 1, s), donate_argnums=0
    )
    shapes = shapes_of(state)
    with Checkpointer(tmp_path, keep=1) as checkpointer:
        checkpointer.save(state, {}, step=1)
        for _ in range(5):
            state = overwrite(state)
    assert toy_job.digest(restore(tmp_path, shapes).state) == expected


@pytest.mark.parametrize(
    "sizes, message",
    [
        ({"mlp_dim": 64}, r"params/mlp/wi/kernel: float32\[16, 32\] in the checkpoint"),
        ({"dtype": "bfloat16"}, r"bfloat16\[16, 8, 2\] wanted"),
    ],
)
def test_another_model_is_refused(workdir, sizes, message):
    with pytest.raises(UserError, match=message):
        restore(workdir, wanted(**sizes))


def test_differences_are_limited_to_five():
    saved = {f"p{i}": ((i,), "float32") for i in range(8)}
    with pytest.raises(UserError, match="8 differences") as caught:
        check_same_leaves(saved, {}, "x")
    assert str(caught.value).count("only in the checkpoint") == 5
    assert "and 3 more" in str(caught.value)
    with pytest.raises(UserError, match="p9: not in the checkpoint"):
        check_same_leaves(saved, saved | {"p9": ((), "int32")}, "x")
    check_same_leaves(saved, dict(saved), "x")


def test_data_that_is_not_json_is_an_error_at_once(tmp_path, states):
    with Checkpointer(tmp_path, keep=1) as checkpointer:
        with pytest.raises(TypeError, match="not JSON serializable"):
            checkpointer.save(states[2], {"x": object()}, step=2)
    assert kept(tmp_path) == [] and checkpointer.failed_saves == 0
