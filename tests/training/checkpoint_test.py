import json
import logging
import shutil

import jax
import jax.numpy as jnp
import pytest
import toy_job

from etc_jax.sharding import MeshConfig, make_mesh
from etc_jax.training import manifest
from etc_jax.training.checkpoint import Checkpointer, check_same_leaves
from etc_jax.training.errors import CorruptCheckpointError, UserError
from etc_jax.training.optimizer import make_optimizer
from etc_jax.training.plan import RULES
from etc_jax.training.schedule import make_schedule
from etc_jax.training.state import abstract_state, init_state

MESHES = [(8, 1, 1), (2, 2, 2), (1, 8, 1), (1, 1, 8)]


def optimizer():
    c = toy_job.config()
    return make_optimizer(
        c.optimizer, make_schedule(c.schedule, learning_rate=0.1, num_steps=5)
    )


def init_params(rng, **sizes):
    return toy_job.init_params(toy_job.ToyConfig(**sizes), rng)


def make_state(mesh=None):
    mesh = mesh or make_mesh(MeshConfig())
    return init_state(init_params, optimizer(), mesh, RULES, jax.random.key(3))


def wanted(mesh=None, **sizes):
    mesh = mesh or make_mesh(MeshConfig())
    return abstract_state(lambda r: init_params(r, **sizes), optimizer(), mesh, RULES)


@pytest.fixture(scope="module")
def states():
    state = make_state()
    return {step: jax.tree.map(lambda x, s=step: x + s, state) for step in (2, 4, 6)}


@pytest.fixture(scope="module")
def saved(states, tmp_path_factory):
    """A workdir with checkpoints of steps 2, 4 and 6."""
    folder = tmp_path_factory.mktemp("saved")
    with Checkpointer(folder, keep=3) as checkpointer:
        for step, state in states.items():
            checkpointer.save(state, {"step": step}, step=step)
    return folder


@pytest.fixture
def workdir(saved, tmp_path):
    shutil.copytree(saved, tmp_path, dirs_exist_ok=True)
    return tmp_path


def restore(workdir, abstract=None):
    with Checkpointer(workdir, keep=3) as checkpointer:
        return checkpointer.restore(abstract or wanted())


def test_newest_checkpoint_is_restored_bit_for_bit(workdir, states):
    got = restore(workdir)
    assert got.data == {"step": 6}
    assert toy_job.digest(got.state) == toy_job.digest(states[6])


def test_a_new_workdir_has_nothing_to_restore(tmp_path):
    assert restore(tmp_path) is None


@pytest.mark.parametrize("source", MESHES[1:3])
def test_any_mesh_restores_any_checkpoint(tmp_path, source):
    state = make_state(make_mesh(MeshConfig(*source)))
    with Checkpointer(tmp_path, keep=1) as checkpointer:
        checkpointer.save(state, {}, step=1)
    for target in MESHES:
        abstract = wanted(make_mesh(MeshConfig(*target)))
        got = restore(tmp_path, abstract).state
        assert toy_job.digest(got) == toy_job.digest(state)
        for leaf, want in zip(
            jax.tree.leaves(got), jax.tree.leaves(abstract), strict=True
        ):
            assert leaf.sharding.is_equivalent_to(want.sharding, leaf.ndim)


def files_of(folder):
    return sorted(p for p in folder.rglob("*") if p.is_file())


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-1])


def data_file(folder):
    return max(files_of(folder / "state"), key=lambda p: p.stat().st_size)


@pytest.mark.parametrize(
    "damage, message",
    [
        (flip_a_bit, "differs from its checksum"),
        (truncate, "bytes, expected"),
        (lambda path: path.unlink(), "is missing"),
    ],
)
def test_a_damaged_checkpoint_is_named_and_the_one_before_used(
    workdir, states, caplog, damage, message
):
    bad = data_file(workdir / "checkpoints" / "6")
    damage(bad)
    with caplog.at_level(logging.ERROR):
        got = restore(workdir)
    assert toy_job.digest(got.state) == toy_job.digest(states[4])
    assert bad.name in caplog.text and message in caplog.text
    assert "step 6" in caplog.text and "using step 4" in caplog.text
    assert list((workdir / "bad_checkpoints").iterdir())


def test_every_flipped_bit_is_found(saved, tmp_path):
    folder = tmp_path / "6"
    shutil.copytree(saved / "checkpoints" / "6", folder)
    assert manifest.verify(folder) is None
    damaged = 0
    for path in files_of(folder):
        if not path.stat().st_size or path.name == manifest.NAME:
            continue
        whole = path.read_bytes()
        flip_a_bit(path)
        fault = manifest.verify(folder)
        assert fault and str(path.relative_to(folder)) in fault
        path.write_bytes(whole)
        damaged += 1
    assert damaged >= 8
    assert manifest.verify(folder) is None


@pytest.mark.parametrize("content", ["", "[]", '{"files": {"a": 1}}', '{"files": 3}'])
def test_a_damaged_manifest_is_a_fault(tmp_path, content):
    (tmp_path / manifest.NAME).write_text(content)
    assert "cannot be read" in manifest.verify(tmp_path)


def test_two_damaged_checkpoints_leave_the_oldest(workdir, states):
    flip_a_bit(data_file(workdir / "checkpoints" / "6"))
    shutil.rmtree(workdir / "checkpoints" / "4")
    got = restore(workdir)
    assert toy_job.digest(got.state) == toy_job.digest(states[2])


def test_no_whole_checkpoint_left_is_an_error_that_names_each(workdir):
    for step in (2, 4, 6):
        flip_a_bit(data_file(workdir / "checkpoints" / str(step)))
    with pytest.raises(CorruptCheckpointError) as caught:
        restore(workdir)
    for step in (2, 4, 6):
        assert f"step {step}: file " in str(caught.value)
    with pytest.raises(CorruptCheckpointError, match="step 6: is missing"):
        restore(workdir)  # and it does not begin anew the next time either


def test_deleted_checkpoints_are_an_error(workdir):
    shutil.rmtree(workdir / "checkpoints")
    with pytest.raises(CorruptCheckpointError, match="step 6: is missing"):
        restore(workdir)


def test_a_missing_newest_checkpoint_is_reported(workdir, states, caplog):
    shutil.rmtree(workdir / "checkpoints" / "6")
    got = restore(workdir)
    assert toy_job.digest(got.state) == toy_job.digest(states[4])
    assert "step 6: is missing" in caplog.text


def test_a_save_that_was_cut_short_is_removed(workdir, states, caplog):
    folder = workdir / "checkpoints" / "6"
    (folder / manifest.NAME).unlink()
    (workdir / "last_checkpoint.json").write_text(json.dumps({"step": 4}))
    got = restore(workdir)
    assert toy_job.digest(got.state) == toy_job.digest(states[4])
    assert not folder.exists() and not (workdir / "bad_checkpoints").exists()
    assert "cut short" in caplog.text and "CORRUPT" not in caplog.text


def test_a_first_save_that_was_cut_short_is_a_fresh_start(workdir):
    for step in (2, 4):
        shutil.rmtree(workdir / "checkpoints" / str(step))
    (workdir / "checkpoints" / "6" / manifest.NAME).unlink()
    (workdir / "last_checkpoint.json").unlink()
    assert restore(workdir) is None


def test_a_finished_checkpoint_that_lost_its_manifest_is_damaged(workdir, caplog):
    (workdir / "checkpoints" / "6" / manifest.NAME).unlink()
    assert restore(workdir).data == {"step": 4}
    assert "manifest.json is missing" in caplog.text


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
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == ["4", "5"]
    assert restore(tmp_path).data == {"step": 5}


def test_state_may_be_donated_while_it_is_written(tmp_path):
    state = {"mlp": {"wi": {"kernel": jnp.arange(2.0**20).reshape(1024, 1024)}}}
    expected = toy_job.digest(state)
    overwrite = jax.jit(
        lambda s: jax.tree.map(lambda x: x * 0 - 1, s), donate_argnums=0
    )
    shapes = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), state
    )
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


def test_a_failed_save_is_raised(tmp_path, states, monkeypatch):
    def full(folder):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(manifest, "write", full)
    with pytest.raises(OSError, match="No space left"):
        with Checkpointer(tmp_path, keep=1) as checkpointer:
            checkpointer.save(states[2], {}, step=2)
