import os
import subprocess
import sys
import textwrap
import types

import jax
import limits
import pytest

from etc_jax.sharding import MeshConfig
from etc_jax.training.errors import UserError
from etc_jax.training.preflight import topology

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def lock(tmp_path, monkeypatch):
    """The lock file of the test, and a wait that is over soon."""
    monkeypatch.setattr(topology, "LOCK_FILE", tmp_path / "lock")
    monkeypatch.setattr(topology, "WAIT_SECS", 0.3)
    monkeypatch.setattr(topology, "_POLL_SECS", 0.05)
    monkeypatch.delenv("ALLOW_MULTIPLE_LIBTPU_LOAD", raising=False)
    topology._wait_for_lock.cache_clear()
    yield tmp_path / "lock"
    topology._wait_for_lock.cache_clear()


@pytest.fixture
def holder(lock):
    """Another process that holds the lock until its input ends."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout.readline() == "held\n"
    yield child
    if child.poll() is None:
        child.communicate(timeout=limits.SECS)


@pytest.mark.parametrize(
    "name, hint",
    [
        ("v5e:4xx4", "did you mean 'v5e:4x4'?"),
        ("v5e", "v5e:{1x1,2x2,2x4,4x4,4x8,8x8,8x16,16x16}"),
        ("V5P:2x2x2", "did you mean 'v5p:2x2x2'?"),
        ("v5litepod-16", "v6e:{"),
        ("v9:2x2", "v5p:{"),
        ("v5e:0x4", "v5e:{1x1"),
        ("", "tpu7x:{"),
    ],
)
def test_an_unknown_name_is_refused_with_those_there_are(name, hint):
    with pytest.raises(UserError, match="is not known") as caught:
        topology.devices(name)
    assert f"--topology={name} " in str(caught.value)
    assert hint in str(caught.value)


def test_every_name_of_the_list_is_taken():
    for kind, sizes in topology.KNOWN.items():
        for size in sizes:
            topology.check_name(f"{kind}:{size}")
    topology.check_name("v5e:2x16")  # not in the list; libtpu is asked


def test_a_missing_libtpu_is_told_with_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "libtpu", None)
    with pytest.raises(UserError, match=r"pip install -e '\.\[tpu_aot\]'"):
        topology.devices("v5e:2x2")


@pytest.mark.parametrize(
    "name, wanted",
    [
        ("v5e:1x1", {"num_slices": 1, "chips_per_host_bounds": (1, 1, 1)}),
        ("v5e:2x2", {"num_slices": 1}),
        ("v5e:2x2*3", {"num_slices": 3}),
    ],
)
def test_libtpu_is_asked_for_slices_of_whole_hosts(name, wanted, lock, monkeypatch):
    asked = []

    def described(name, platform, **options):
        asked.append((name, platform, options))
        return types.SimpleNamespace(devices=["a chip"])

    monkeypatch.setitem(sys.modules, "libtpu", types.ModuleType("libtpu"))
    monkeypatch.setattr(topology.topologies, "get_topology_desc", described)
    assert topology.devices(name) == ["a chip"]
    assert asked == [(name.partition("*")[0], "tpu", wanted)]


def test_a_lock_that_nobody_holds_is_free(lock):
    topology._wait_for_lock()  # there is no file
    topology._wait_for_lock.cache_clear()
    lock.touch()
    topology._wait_for_lock()
    assert lock.exists()


def test_a_lock_is_waited_for_with_a_word(lock, holder, caplog, monkeypatch):
    monkeypatch.setattr(topology, "WAIT_SECS", 60.0)
    real, polls = topology._is_held, []

    def polled():
        polls.append(real())
        if len(polls) == 3:
            holder.communicate(timeout=limits.SECS)
        return polls[-1]

    monkeypatch.setattr(topology, "_is_held", polled)
    with caplog.at_level("WARNING"):
        topology._wait_for_lock()
    assert polls[:3] == [True, True, True] and polls[-1] is False
    (record,) = caplog.records
    assert "another process uses libtpu" in record.message
    assert "waiting up to 60 s" in record.message


def test_a_lock_held_for_too_long_is_an_error_and_the_file_stays(lock, holder):
    with pytest.raises(UserError, match="Wait until it has ended") as caught:
        topology._wait_for_lock()
    assert str(lock) in str(caught.value)
    assert lock.exists() and holder.poll() is None


def test_a_user_who_allows_many_does_not_wait(lock, holder, monkeypatch):
    monkeypatch.setenv("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    topology._wait_for_lock()


def test_the_environment_is_as_before(monkeypatch):
    monkeypatch.setenv("TPU_WORKER_ID", "7")
    monkeypatch.delenv("TPU_ACCELERATOR_TYPE", raising=False)
    before = dict(os.environ)
    with topology._environment():
        assert os.environ["TPU_WORKER_ID"] == "7"
        assert os.environ["TPU_ACCELERATOR_TYPE"]
        assert os.environ["TPU_SKIP_MDS_QUERY"] == "1"
    assert dict(os.environ) == before


def test_what_libtpu_refuses_is_told_in_the_users_words():
    text = topology._refused("v5e:3x3", "not divisible by 2x2x1")
    assert "libtpu knows no topology v5e:3x3 (not divisible" in text
    assert "v5e:{1x1" in text
    text = topology._refused("v5e:2x2", "ABORTED: ... multi-process lockfile. $ rm")
    assert "another process uses libtpu" in text and "$ rm" not in text


def test_meshes_that_fit_are_named():
    with pytest.raises(ValueError, match="needs 12 devices, but there are 8") as caught:
        topology.mesh_over(MeshConfig(data=3, fsdp=2, tensor=2), jax.devices())
    fits = str(caught.value).partition("Meshes over 8 devices: ")[2]
    assert fits == (
        "data=4 x fsdp=1 x tensor=2, data=2 x fsdp=2 x tensor=2, "
        "data=1 x fsdp=4 x tensor=2"
    )
    with pytest.raises(ValueError) as caught:
        topology.mesh_over(MeshConfig(tensor=3), jax.devices())
    fits = str(caught.value).partition("Meshes over 8 devices: ")[2]
    assert fits.startswith("data=8 x fsdp=1, data=4 x fsdp=2")
    mesh = topology.mesh_over(MeshConfig(fsdp=2), jax.devices())
    assert dict(mesh.shape) == {"data": 4, "fsdp": 2, "tensor": 1, "sequence": 1}


def run(code):
    """In a process of its own, whose jax is to compile for TPUs."""
    argv = [sys.executable, "-c", textwrap.dedent(code)]
    got = subprocess.run(argv, capture_output=True, text=True, timeout=limits.SECS)
    assert got.returncode == 0, got.stderr[-2000:]
    return got.stdout


@pytest.mark.tpu_aot
def test_chips_are_those_of_the_data_sheets():
    """Kinds, counts, and the memory that the compiler itself says there is."""
    code = """
    import jax, jax.numpy as jnp, re
    from etc_jax.training.preflight import device_memory, hardware, topology

    for name, count in (
        ("v5e:1x1", 1), ("v5e:4x4", 16), ("v5p:2x2x2", 8), ("v6e:4x4", 16),
        ("tpu7x:2x2x1", 8),
    ):
        chips = topology.devices(name)
        assert len(chips) == count, (name, chips)
        assert hardware.is_absent(chips[0])
        limit = hardware.memory_limit(chips[0])
        layout = jax.sharding.SingleDeviceSharding(chips[0])
        huge = jax.ShapeDtypeStruct((1 << 18, 1 << 18), jnp.float32, sharding=layout)
        refused = device_memory.compile_step(jax.jit(lambda x: x + 1).lower(huge))
        assert refused.needed == 512 * 2**30, refused
        said = re.search(r"available HBM \\(([\\d.]+)G\\)", refused.message)
        assert abs(float(said[1]) * 2**30 - limit) < 0.01 * 2**30, refused
        print(name, chips[0].device_kind, said[1])
    assert jax.devices()[0].platform == "cpu"
    assert not hardware.is_absent(jax.devices()[0])
    """
    assert "v5e:4x4 TPU v5 lite 15.75" in run(code)


@pytest.mark.tpu_aot
def test_slices_have_rows_of_data_of_their_own():
    """Weights are gathered within a slice, also where the axes are split over chips."""
    code = """
    import jax, re
    from jax.sharding import NamedSharding
    from etc_jax.sharding import MeshConfig
    from etc_jax.training.preflight import topology

    P = jax.P
    chips = topology.devices("v5e:2x2*2")
    for config, rows in ((MeshConfig(fsdp=4), 2), (MeshConfig(fsdp=2, tensor=2), 2)):
        mesh = topology.mesh_over(config, chips)
        assert mesh.shape["data"] == rows
        assert [{x.slice_index for x in row.flat} for row in mesh.devices] == [{0}, {1}]
    weights = NamedSharding(mesh, P("fsdp"))
    w = jax.ShapeDtypeStruct((512, 256), "float32", sharding=weights)
    rows = NamedSharding(mesh, P(("data", "fsdp")))
    x = jax.ShapeDtypeStruct((64, 512), "float32", sharding=rows)
    step = jax.jit(
        lambda w, x: w - jax.grad(lambda w: ((x @ w) ** 2).sum())(w),
        out_shardings=weights,
    )
    text = step.lower(w, x).compile().as_text()
    groups = re.findall(r"all-gather.*replica_groups=\\{\\{([0-9,]+)\\}", text)
    # Numbers below 4 are chips of one slice.
    assert groups and all(int(x) < 4 for x in ",".join(groups).split(",")), groups
    try:
        topology.mesh_over(MeshConfig(fsdp=8), chips)
    except ValueError as error:
        assert "expected a multiple of the 2 slices" in str(error), error
    else:
        raise AssertionError
    """
    run(code)
