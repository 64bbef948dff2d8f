"""Two real processes save and restore together, and hear of each other's failures."""

import json
import shutil

import jax
import numpy as np
import processes
import pytest
from checkpoint_process import state_of, values
from checkpoint_states import files_of, flip_a_bit, restore, save_all, wanted

from etc_jax.sharding import MeshConfig, make_mesh
from etc_jax.training.checkpoints import manifest


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """The workdir that two processes have worked in, and what each has seen."""
    folder, one = tmp_path_factory.mktemp("two"), tmp_path_factory.mktemp("one")
    save_all(one, {3: state_of(3, wanted())})
    output = tmp_path_factory.mktemp("output")
    command = ("checkpoint_process", str(folder), str(one))
    with processes.start_each(output, *command) as started:
        assert started.wait() == [0, 0], started.all_output()
    printed = [started.output(number) for number in (0, 1)]
    seen = [json.loads(text.rpartition("SEEN ")[2].splitlines()[0]) for text in printed]
    return folder, seen, printed


@pytest.mark.full
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
