"""Files appear whole or not at all; pipes, devices and links stay what they are."""

import errno
import os
import stat
import threading

import pytest

from etc_jax.data.whole_files import whole, write_whole


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "a.txt"
    write_whole(path, "first")
    with pytest.raises(RuntimeError), whole(path) as part:
        part.write_text("half")
        raise RuntimeError
    assert path.read_text() == "first"
    write_whole(path, "second")
    assert path.read_text() == "second"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_half_a_character_is_written_as_json_spells_it(tmp_path):
    write_whole(tmp_path / "a.txt", "a \ud800 b")
    assert (tmp_path / "a.txt").read_bytes() == rb"a \ud800 b"


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    with pytest.raises(RuntimeError), whole(tmp_path / "a") as part:
        part.mkdir()
        raise RuntimeError
    assert os.listdir(tmp_path) == []
    with whole(tmp_path / "a") as part:
        (part / "b").mkdir(parents=True)
    assert (tmp_path / "a" / "b").is_dir() and os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space"), OSError("48 requested and 7 written")]
)
def test_a_full_disk_is_said_with_the_path(tmp_path, error):
    path = tmp_path / "a.txt"
    with pytest.raises(OSError, match="(No space|7 written): '.*a.txt'$") as caught:
        with whole(path):
            raise error
    assert caught.value.errno == errno.ENOSPC and os.listdir(tmp_path) == []
    for other in (OSError(errno.EPIPE, "gone"), FileNotFoundError(2, "no", "b")):
        with pytest.raises(OSError) as caught, whole(path):
            raise other
        assert caught.value is other


def test_a_pipe_is_written_to_and_stays_one(tmp_path):
    path, got = tmp_path / "pipe", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: got.append(path.read_text()))
    reader.start()
    write_whole(path, "text")
    reader.join()
    assert got == ["text"]
    assert stat.S_ISFIFO(os.stat(path).st_mode) and os.listdir(tmp_path) == ["pipe"]


def test_a_device_is_written_to_and_stays_one(tmp_path):
    path = tmp_path / "null"
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        write_whole(path, "text")
    except PermissionError:
        pytest.skip("device nodes may not be made or opened here")
    assert stat.S_ISCHR(os.stat(path).st_mode) and os.listdir(tmp_path) == ["null"]


def test_what_a_link_points_to_is_written(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    for text in ("first", "second"):
        write_whole(link, text)
        assert link.is_symlink() and target.read_text() == text
    assert sorted(os.listdir(tmp_path)) == ["link", "target"]


def test_a_folder_in_the_place_of_a_file_is_an_error(tmp_path):
    with pytest.raises(OSError):
        write_whole(tmp_path, "text")
    assert os.listdir(tmp_path) == []
