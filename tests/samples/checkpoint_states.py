"""What the tests of checkpoints share: a small state, and how files go bad."""

import pathlib
import shutil

import jax
import pytest
import toy_job

from etc_jax.sharding import MeshConfig, make_mesh
from etc_jax.training.checkpoints.checkpointer import Checkpointer
from etc_jax.training.optimizers.optimizer import make_optimizer
from etc_jax.training.optimizers.schedule import make_schedule
from etc_jax.training.preflight.plan import RULES
from etc_jax.training.state import abstract_state, init_state

STEPS = (2, 4, 6)


def optimizer():
    c = toy_job.config()
    return make_optimizer(
        c.optimizer, make_schedule(c.schedule, learning_rate=0.1, num_steps=5)
    )


def init_params(rng, **sizes):
    return toy_job.init_params(toy_job.ToyConfig(**sizes), rng)


def make_state(mesh=None):
    return init_state(init_params, optimizer(), wanted(mesh), jax.random.key(3))


def wanted(mesh=None, **sizes):
    mesh = mesh or make_mesh(MeshConfig())
    return abstract_state(lambda r: init_params(r, **sizes), optimizer(), mesh, RULES)


def shapes_of(state):
    """What restores a state of arrays."""
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), state
    )


def states_by_step(state):
    """Another state for each of `STEPS`."""
    return {step: jax.tree.map(lambda x, s=step: x + s, state) for step in STEPS}


def save_all(workdir, states, data=None, **options):
    """A checkpoint of each state, with `data` besides its step."""
    with Checkpointer(workdir, **{"keep": 3, **options}) as checkpointer:
        for step, state in states.items():
            checkpointer.save(state, {"step": step, **(data or {})}, step=step)


# The names of the functions are not those of the fixtures, which would hide what a
# file imports after the arguments of its tests.
@pytest.fixture(name="states", scope="module")
def states_fixture():
    return states_by_step(make_state())


@pytest.fixture(name="saved", scope="module")
def saved_fixture(states, tmp_path_factory):
    """A workdir with checkpoints of steps 2, 4 and 6."""
    folder = tmp_path_factory.mktemp("saved")
    save_all(folder, states)
    return folder


@pytest.fixture(name="workdir")
def workdir_fixture(saved, tmp_path):
    """A copy of it."""
    shutil.copytree(saved, tmp_path, dirs_exist_ok=True)
    return tmp_path


def restore(workdir, abstract=None):
    with Checkpointer(workdir, keep=3) as checkpointer:
        return checkpointer.restore(abstract or wanted())


def kept(workdir):
    """Everything in the folder of checkpoints, by name."""
    return sorted(path.name for path in (workdir / "checkpoints").iterdir())


def files_of(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file())


def data_file(folder: pathlib.Path) -> pathlib.Path:
    """The largest file of arrays."""
    return max(files_of(folder / "state"), key=lambda p: p.stat().st_size)


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-1])


def empty(path):
    path.write_bytes(b"")


def zero(path):
    path.write_bytes(bytes(path.stat().st_size))


def delete(path):
    path.unlink()


def add_a_stray_file(path):
    shutil.copy(path, path.with_name(f"{path.name}.stray"))


DAMAGES = (flip_a_bit, truncate, empty, zero, delete, add_a_stray_file)
