"""Damaged checkpoints are named and the one before is used; half ones are removed."""

import json
import logging
import shutil

import pytest
import toy_job
from checkpoint_states import (
    DAMAGES,
    STEPS,
    data_file,
    delete,
    empty,
    files_of,
    flip_a_bit,
    kept,
    restore,
    saved_fixture,  # noqa: F401
    states_fixture,  # noqa: F401
    truncate,
    workdir_fixture,  # noqa: F401
    zero,
)
from etils import epath

from etc_jax.training.checkpoints import manifest
from etc_jax.training.checkpoints.folder import CheckpointFolder
from etc_jax.training.checkpoints.retention import Retention
from etc_jax.training.errors import CorruptCheckpointError


def choose(workdir):
    return CheckpointFolder(epath.Path(workdir)).choose()


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_to_any_file_is_noticed(saved, tmp_path, caplog, damage):
    names = [p.relative_to(saved) for p in files_of(saved / "checkpoints" / "6")]
    kinds = ("_CHECKPOINT_METADATA", "_METADATA", "_sharding", "manifest.ocdbt")
    kinds += ("data/metadata", "manifest.json", "commit_success.txt", "/d/")
    assert all(any(kind in str(name) for name in names) for kind in kinds)
    noticed = 0
    for i, name in enumerate(names):
        workdir = tmp_path / str(i)
        shutil.copytree(saved, workdir)
        before = (workdir / name).read_bytes()
        damage(workdir / name)
        caplog.clear()
        assert choose(workdir) == 4
        assert name.name in caplog.text and "using step 4" in caplog.text
        (aside,) = (workdir / "bad_checkpoints").iterdir()
        assert aside.name.startswith("6-")
        assert not (workdir / "checkpoints" / "6").exists()
        unchanged = (saved / name).read_bytes()
        assert before == unchanged
        noticed += 1
    print(f"{damage.__name__}: {noticed} of {len(names)} files")
    assert noticed == len(names)


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_checkpoint_before_a_damaged_one_is_used(workdir, states, caplog, damage):
    bad = data_file(workdir / "checkpoints" / "6")
    damage(bad)
    with caplog.at_level(logging.ERROR):
        got = restore(workdir)
    assert toy_job.digest(got.state) == toy_job.digest(states[4])
    assert "step 6" in caplog.text and bad.name in caplog.text


def test_a_copy_under_another_step_is_set_aside(workdir, states, caplog):
    shutil.copytree(workdir / "checkpoints" / "2", workdir / "checkpoints" / "9999")
    folder = CheckpointFolder(epath.Path(workdir))
    assert folder.finished() == [6, 4, 2]  # what others may read
    restored = restore(workdir)
    assert restored.data["step"] == 6
    assert toy_job.digest(restored.state) == toy_job.digest(states[6])
    assert "step 9999: holds step 2" in caplog.text
    (aside,) = (workdir / "bad_checkpoints").iterdir()
    assert aside.name.startswith("9999-") and kept(workdir) == ["2", "4", "6"]


def test_a_copy_that_comes_while_a_run_saves_pushes_nothing_out(workdir, states):
    shutil.copytree(workdir / "checkpoints" / "2", workdir / "checkpoints" / "9999")
    CheckpointFolder(epath.Path(workdir)).finish(6, Retention(keep=2))
    assert kept(workdir) == ["4", "6", "9999"]


def test_a_renamed_checkpoint_alone_is_an_error(workdir):
    for step in (2, 4):
        shutil.rmtree(workdir / "checkpoints" / str(step))
    (workdir / "checkpoints" / "6").rename(workdir / "checkpoints" / "7")
    with pytest.raises(CorruptCheckpointError, match="step 7: holds step 6"):
        choose(workdir)


def test_what_was_set_aside_is_kept_for_a_look(workdir):
    bad = data_file(workdir / "checkpoints" / "6")
    flip_a_bit(bad)
    content = bad.read_bytes()
    choose(workdir)
    (aside,) = (workdir / "bad_checkpoints").iterdir()
    assert data_file(aside).read_bytes() == content


@pytest.mark.parametrize("damage", [flip_a_bit, truncate, empty, zero])
def test_a_damaged_note_of_the_last_step_is_noticed(workdir, states, caplog, damage):
    note = workdir / "last_checkpoint.json"
    damage(note)
    got = restore(workdir)
    assert toy_job.digest(got.state) == toy_job.digest(states[6])
    assert "last_checkpoint.json cannot be read" in caplog.text
    caplog.clear()
    assert choose(workdir) == 6  # it has been written anew
    assert "cannot be read" not in caplog.text


def test_every_flipped_bit_of_the_note_is_noticed(workdir):
    note = workdir / "last_checkpoint.json"
    whole = note.read_bytes()
    for bit in range(8 * len(whole)):
        content = bytearray(whole)
        content[bit // 8] ^= 1 << bit % 8
        note.write_bytes(content)
        folder = CheckpointFolder(epath.Path(workdir))
        assert folder.last_step is None and folder.choose() == 6
        assert note.read_bytes() == whole


def test_a_note_that_is_gone_costs_nothing(workdir):
    delete(workdir / "last_checkpoint.json")
    assert choose(workdir) == 6


def test_without_a_note_an_unlisted_checkpoint_is_kept_for_a_look(workdir):
    zero(workdir / "last_checkpoint.json")
    delete(workdir / "checkpoints" / "6" / manifest.NAME)
    assert choose(workdir) == 4
    names = {path.name.partition("-")[0] for path in workdir.glob("bad_checkpoints/*")}
    assert names == {"6", "last_checkpoint.json"}


def test_two_damaged_checkpoints_leave_the_oldest(workdir, states):
    flip_a_bit(data_file(workdir / "checkpoints" / "6"))
    shutil.rmtree(workdir / "checkpoints" / "4")
    got = restore(workdir)
    assert toy_job.digest(got.state) == toy_job.digest(states[2])


def test_no_whole_checkpoint_left_is_an_error_that_names_each(workdir):
    for step, damage in zip(STEPS, (flip_a_bit, truncate, delete), strict=True):
        damage(data_file(workdir / "checkpoints" / str(step)))
    with pytest.raises(CorruptCheckpointError) as caught:
        restore(workdir)
    assert caught.value.exit_code == 4
    for step in STEPS:
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


def test_a_save_that_was_cut_short_is_set_aside(workdir, states, caplog):
    folder = workdir / "checkpoints" / "6"
    (folder / manifest.NAME).unlink()
    (workdir / "last_checkpoint.json").write_text(json.dumps({"step": 4}))
    got = restore(workdir)
    assert toy_job.digest(got.state) == toy_job.digest(states[4])
    assert not folder.exists()
    (aside,) = (workdir / "bad_checkpoints").iterdir()
    assert data_file(aside).exists()
    assert "cut short" in caplog.text and "CORRUPT" not in caplog.text


def test_a_first_save_that_was_cut_short_is_a_fresh_start(workdir):
    for step in (2, 4):
        shutil.rmtree(workdir / "checkpoints" / str(step))
    (workdir / "checkpoints" / "6" / manifest.NAME).unlink()
    (workdir / "last_checkpoint.json").unlink()
    assert restore(workdir) is None


def test_what_a_crash_left_half_deleted_or_written_goes(workdir):
    root = workdir / "checkpoints"
    for name in ("1.deleting", "8.orbax-checkpoint-tmp", "8.orbax-checkpoint-tmp-12"):
        shutil.copytree(root / "2", root / name)
    CheckpointFolder(epath.Path(workdir)).prepare()
    assert sorted(path.name for path in root.iterdir()) == ["2", "4", "6"]


def test_the_next_save_removes_what_a_failed_one_wrote_after_it_failed(workdir):
    root = workdir / "checkpoints"
    shutil.copytree(root / "2", root / "5.orbax-checkpoint-tmp")
    (root / "6" / manifest.NAME).unlink()
    CheckpointFolder(epath.Path(workdir)).finish(6, Retention(keep=3))
    assert sorted(path.name for path in root.iterdir()) == ["2", "4", "6"]
    assert choose(workdir) == 6


@pytest.mark.parametrize("name", ["²", "٣", "007", "1" * 5000, "1_0", "6~", ".6"])
def test_a_folder_of_another_name_is_no_checkpoint(tmp_path, name):
    for folder in ("0", "60", name[:200]):
        (tmp_path / "checkpoints" / folder).mkdir(parents=True)
    assert CheckpointFolder(epath.Path(tmp_path)).steps() == [60, 0]


def test_what_is_not_ours_stays(workdir):
    """In the folder of checkpoints, under names like ours too."""
    root = workdir / "checkpoints"
    foreign = [
        "notes.tex",
        ".DS_Store",
        ".nfs000001",
        "8.deleting",  # a file: ours is a folder
        "x.orbax-checkpoint-tmp/y",
        "my 8.orbax-checkpoint-tmp/y",
        "8.orbax-checkpoint-tmp-of-mine/y",
        "old.deleting/y",
        "backup/6/y",
    ]
    for name in foreign:
        (root / name).parent.mkdir(exist_ok=True, parents=True)
        (root / name).write_text("mine")
    folder = CheckpointFolder(epath.Path(workdir))
    folder.prepare()
    assert choose(workdir) == 6
    (root / "6" / manifest.NAME).unlink()
    folder.finish(6, Retention(keep=1))
    assert all((root / name).read_text() == "mine" for name in foreign)
    assert not (root / "2").exists() and not (workdir / "bad_checkpoints").exists()


@pytest.mark.parametrize("name", [".DS_Store", "state/.DS_Store", "state/d/.nfs00ab12"])
def test_what_file_systems_leave_in_a_checkpoint_is_no_damage(workdir, name, caplog):
    (workdir / "checkpoints" / "6" / name).write_bytes(b"\0\0\0\1Bud1")
    assert choose(workdir) == 6
    assert restore(workdir).data == {"step": 6}
    assert caplog.text == ""


def test_a_note_in_a_checkpoint_is_moved_out_before_it_is_deleted(workdir, caplog):
    note = workdir / "checkpoints" / "2" / "notes.tex"
    note.write_text("a thesis")
    (workdir / "checkpoints" / "6" / manifest.NAME).unlink()
    CheckpointFolder(epath.Path(workdir)).finish(6, Retention(keep=2))
    (aside,) = (workdir / "bad_checkpoints").iterdir()
    assert aside.name.startswith("notes.tex-") and aside.read_text() == "a thesis"
    assert not (workdir / "checkpoints" / "2").exists() and str(aside) in caplog.text


def test_a_checkpoint_with_a_damaged_list_is_not_deleted(workdir):
    (workdir / "checkpoints" / "2" / manifest.NAME).write_text("{")
    (workdir / "checkpoints" / "6" / manifest.NAME).unlink()
    CheckpointFolder(epath.Path(workdir)).finish(6, Retention(keep=2))
    (aside,) = (workdir / "bad_checkpoints").iterdir()
    assert aside.name.startswith("2-") and data_file(aside).exists()


def test_a_copy_without_its_json_files_is_refused_and_left_as_it_is(workdir):
    """rsync --exclude='*.json': three checkpoints, none of them with its list."""
    note = workdir / "checkpoints" / "4" / "notes.tex"
    note.write_text("a thesis")
    for path in workdir.rglob("*.json"):
        path.unlink()
    before = files_of(workdir)
    for _ in range(2):
        with pytest.raises(CorruptCheckpointError) as caught:
            restore(workdir)
        assert "checkpoints 2, 4, 6" in str(caught.value)
        assert "copy them again with all files" in str(caught.value)
    assert files_of(workdir) == before


def test_a_copy_without_lists_beside_a_whole_one_is_set_aside(workdir):
    (workdir / "last_checkpoint.json").unlink()
    for step in ("4", "6"):
        (workdir / "checkpoints" / step / manifest.NAME).unlink()
    assert choose(workdir) == 2
    names = {path.name[0] for path in (workdir / "bad_checkpoints").iterdir()}
    assert names == {"4", "6"}
