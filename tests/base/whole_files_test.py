"""Files appear whole or not at all; pipes, devices and links stay what they are."""

import errno
import os
import stat
import subprocess
import sys
import threading

import limits
import pytest

from etc_jax.base import whole_files
from etc_jax.base.whole_files import whole, whole_folder, write_whole


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
    with pytest.raises(RuntimeError), whole_folder(tmp_path / "a") as part:
        (part / "b").mkdir()
        raise RuntimeError
    assert os.listdir(tmp_path) == []
    with whole_folder(tmp_path / "a") as part:
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


OTHERS = {"NOTES.md": "mine", "eval/scores.json": "0.5", "eval/parts/1.jsonl": "{}"}
OURS = ("a", "b", "c")

# A process for each call of the system that writes: there it ends, as by a kill.
KILLS = """
import itertools, os, pathlib, shutil, sys
from etc_jax.base import whole_files
what, exchanges = sys.argv[1], sys.argv[2] == "True"
others = eval(sys.argv[3])
top, begun = pathlib.Path(sys.argv[4]), ("os.", "open", "shutil.", "ctypes.")
path = top / "model"
if not exchanges:
    whole_files._exchange = lambda one, other: False

def write(text):
    if what == "file":
        return whole_files.write_whole(path, text * 9)
    names = ("a", "b") if text == "old" else ("a", "c")
    with whole_files.whole_folder(path, lambda folder: ("a", "b", "c")) as part:
        for name in names:
            (part / name).write_text(text)

def read():
    if what == "file":
        return path.read_text()
    found = {x.relative_to(path).as_posix() for x in path.rglob("*") if x.is_file()}
    assert {n: (path / n).read_text() for n in found & others.keys()} == others
    return sorted(found - others.keys()), (path / "a").read_text()

def begin():
    shutil.rmtree(top)
    top.mkdir()
    write("old")
    if what == "folder":
        for name, text in others.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text(text)
    return read()

def killed_at(number):
    calls = itertools.count(1)
    def hook(event, args):
        if event.startswith(begun) and next(calls) == number:
            os._exit(9)
    sys.addaudithook(hook)
    write("new")
    os._exit(0)

old = begin()
write("new")
new = read()
for number in itertools.count(1):
    begin()
    if not (child := os.fork()):
        killed_at(number)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if path.exists():
        assert read() in (old, new), (number, read())
    else:
        assert not exchanges, number
    write("new")
    assert read() == new
    assert os.listdir(top) == ["model"], os.listdir(top)
    if ended == 0:
        break
print(number)
"""


@pytest.mark.parametrize(
    "what, exchanges", [("file", True), ("folder", True), ("folder", False)]
)
def test_a_kill_at_any_call_leaves_the_old_or_the_new_and_all_of_others(
    what, exchanges, tmp_path
):
    top = tmp_path / "top"
    top.mkdir()
    words = (sys.executable, "-c", KILLS, what, str(exchanges), repr(OTHERS), str(top))
    got = subprocess.run(words, capture_output=True, text=True, timeout=limits.SECS)
    assert got.returncode == 0, got.stderr
    assert int(got.stdout) > {"file": 3, "folder": 30}[what]


@pytest.fixture
def model(tmp_path):
    with whole_folder(tmp_path / "model") as part:
        for name in OURS:
            (part / name).write_text("old")
    for name, text in OTHERS.items():
        (tmp_path / "model" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "model" / name).write_text(text)
    return tmp_path / "model"


def files_of(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_only_what_is_listed_is_replaced(model):
    inodes = {name: (model / name).stat().st_ino for name in OTHERS}
    with whole_folder(model, lambda folder: OURS) as part:
        (part / "a").write_text("new")
    assert files_of(model) == OTHERS | {"a": "new"}
    assert {name: (model / name).stat().st_ino for name in OTHERS} == inodes
    assert os.listdir(model.parent) == ["model"]


@pytest.mark.parametrize("replaced_fn", [None, lambda folder: OURS])
def test_a_file_of_others_is_never_replaced(model, replaced_fn):
    before = files_of(model)
    with pytest.raises((OSError, ValueError), match="NOTES.md is not one|not empty"):
        with whole_folder(model, replaced_fn) as part:
            (part / "NOTES.md").write_text("new")
    assert files_of(model) == before and os.listdir(model.parent) == ["model"]


def test_what_others_write_during_the_exchange_stays(model, monkeypatch):
    exchange = whole_files._exchange

    def later(new, target):
        (target / "eval" / "late.json").write_text("late")
        return exchange(new, target)

    monkeypatch.setattr(whole_files, "_exchange", later)
    with whole_folder(model, lambda folder: OURS) as part:
        (part / "a").write_text("new")
    assert files_of(model) == OTHERS | {"a": "new", "eval/late.json": "late"}


def test_without_hard_links_files_are_copied(model, monkeypatch):
    monkeypatch.setattr(os, "link", lambda *_, **__: os.stat("/none"))
    with whole_folder(model, lambda folder: OURS) as part:
        (part / "a").write_text("new")
    assert files_of(model) == OTHERS | {"a": "new"}


@pytest.mark.parametrize("opened", [whole, whole_folder, whole_files.work_folder])
def test_what_killed_processes_left_goes_and_what_one_is_writing_stays(
    opened, tmp_path
):
    others = [".a.old", ".a.part", ".a-part", ".b.etc_jax-0"]
    for name in others:
        (tmp_path / name).mkdir()
    with opened(tmp_path / "a"), opened(tmp_path / "a"):
        written = sorted({*os.listdir(tmp_path)} - {*others})
        assert written == [".a.etc_jax-0", ".a.etc_jax-1"]
    for name in written:  # as a kill leaves them
        (tmp_path / name).touch() if opened is whole else (tmp_path / name).mkdir()
    with opened(tmp_path / "a"), opened(tmp_path / "a"):
        assert {*os.listdir(tmp_path)} - {*others} <= {*written, "a"}
    assert {*os.listdir(tmp_path)} - {"a"} == {*others}


def test_a_file_may_have_a_work_folder_beside_it(tmp_path):
    with whole_files.work_folder(tmp_path / "a") as work, whole(tmp_path / "a") as part:
        assert work.is_dir() and part.is_file()
    assert os.listdir(tmp_path) == ["a"]
