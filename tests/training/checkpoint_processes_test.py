"""Two real processes save and restore together, and hear of each other's failures."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys

import jax
import numpy as np
import pytest
from checkpoint_process import state_of, values
from checkpoint_states import files_of, flip_a_bit, restore, wanted
from xla_flags import xla_flags

from etc_jax.sharding import MeshConfig, make_mesh
from etc_jax.training.checkpoints import manifest
from etc_jax.training.checkpoints.checkpointer import Checkpointer

HERE = pathlib.Path(__file__).parent


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(script, port, index, *args):
    env = {
        **os.environ,
        "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}",
        "JAX_NUM_PROCESSES": "2",
        "JAX_PROCESS_ID": str(index),
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": xla_flags(devices=4),
        "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent), *sys.path]),
    }
    command = [sys.executable, str(HERE / script), *map(str, args)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=env, stdout=pipe, stderr=pipe, text=True)


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """The workdir that two processes have worked in, and what each has seen."""
    folder, one = tmp_path_factory.mktemp("two"), tmp_path_factory.mktemp("one")
    with Checkpointer(one, keep=1) as checkpointer:
        checkpointer.save(state_of(3, wanted()), {"step": 3}, step=3)
    port = free_port()
    script = "checkpoint_process.py"
    processes = [start(script, port, i, folder, one) for i in range(2)]
    try:
        ends = [process.communicate(timeout=120) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert [p.returncode for p in processes] == [0, 0], "\n".join(e[1] for e in ends)
    seen = [json.loads(out.splitlines()[-1]) for out, _ in ends]
    return folder, seen, [err for _, err in ends]


def test_both_restore_what_both_have_saved(together):
    _, seen, _ = together
    for one in seen:
        assert one["processes"] == 2
        assert one["whole"] == [6, True]
        assert one["of one process"] == [3, True]


def test_both_use_the_one_before_a_damaged_one(together):
    folder, seen, errors = together
    assert [one["after damage"] for one in seen] == [[4, True]] * 2
    assert "differs from its checksum" in errors[0]
    (aside,) = (folder / "bad_checkpoints").iterdir()
    assert aside.name.startswith("6-")


def test_an_error_on_process_0_alone_is_heard_by_the_other(together):
    _, seen, _ = together
    assert seen[0]["unreadable"] == "OSError: [Errno 5] Input/output error"
    assert seen[1]["unreadable"] == (
        "PeerError: process 0 cannot go on: OSError: [Errno 5] Input/output error"
    )


def test_a_save_that_fails_on_one_fails_on_both_and_holds_nobody_up(together):
    _, seen, errors = together
    for one in seen:
        told = [[step, good, again, n] for step, good, again, n, _ in one["saves"]]
        assert told == [
            [step, False, True, n]
            for n, step in enumerate((10, 12, 14, 16, 18), start=1)
        ]
        assert max(secs for *_, secs in one["saves"]) < 20
    for step in (10, 12, 14, 16, 18):
        assert all(f"SAVE FAILED at step {step}" in text for text in errors)
    assert all("No space left on device" in text for text in errors)
    assert "process 1 failed" in errors[0]
    # What failed has left nothing; what was there, and the others, stay.
    good = ["11", "13", "15", "17", "19", "2", "4"]
    assert seen[0]["kept"] == good and seen[1]["kept"] == good


@pytest.mark.parametrize("sizes", [(8, 1, 1), (1, 2, 4)])
def test_one_process_restores_what_two_have_saved(together, sizes):
    folder, _, _ = together
    got = restore(folder, wanted(make_mesh(MeshConfig(*sizes))))
    assert got.data == {"step": 19}
    for path, leaf in jax.tree_util.tree_flatten_with_path(got.state)[0]:
        np.testing.assert_array_equal(leaf, values(path, leaf, 19))


def test_every_file_of_both_processes_is_listed(together, tmp_path):
    folder, _, _ = together
    shutil.copytree(folder / "checkpoints" / "19", tmp_path, dirs_exist_ok=True)
    files = [path for path in files_of(tmp_path) if path.name != manifest.NAME]
    assert any("ocdbt.process_1/" in str(path) for path in files)
    for path in files:
        whole = path.read_bytes()
        flip_a_bit(path)
        assert path.name in manifest.verify(tmp_path)
        path.write_bytes(whole)
    assert manifest.verify(tmp_path) is None
