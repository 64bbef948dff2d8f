"""Compiled programs are code: they lie where the user alone can write."""

import logging
import os
import pathlib
import stat

import jax
import pytest

from etc_jax.base import user_cache
from etc_jax.training.preflight import compile_cache

pytestmark = pytest.mark.usefixtures("compiled_anew", "one_device")


@pytest.fixture
def top(tmp_path, monkeypatch):
    monkeypatch.setenv(user_cache.VARIABLE, str(tmp_path / "top"))
    return tmp_path / "top"


def used(chosen=None):
    """The folder that is set inside, None if none is."""
    with compile_cache.use(chosen):
        folder = jax.config.jax_compilation_cache_dir
    assert jax.config.jax_compilation_cache_dir is None
    return folder and pathlib.Path(folder)


@pytest.mark.parametrize(
    "environment, expected",
    [
        ({"ETC_JAX_CACHE_DIR": "/a"}, "/a"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/etc_jax"),
        ({"XDG_CACHE_HOME": "b"}, "/c/.cache/etc_jax"),
        ({}, "/c/.cache/etc_jax"),
    ],
)
def test_where_it_is(monkeypatch, environment, expected):
    for name in ("ETC_JAX_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/c")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert user_cache.root() == pathlib.Path(expected)


def test_programs_are_kept_where_the_user_alone_can_write(top):
    before = os.umask(0)  # nothing is left to it
    try:
        with compile_cache.use(None):
            jax.jit(lambda x: x * 3.25 + 1.5)(2.0).block_until_ready()
        folder = used()
    finally:
        os.umask(before)
    assert folder.parent.parent == top and list(folder.iterdir())
    for path in (top, folder.parent, folder):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_a_folder_that_others_can_read_is_closed(top):
    top.mkdir(mode=0o755)
    assert used() is not None and stat.S_IMODE(top.stat().st_mode) == 0o700


def writable(top):
    top.mkdir()
    top.chmod(0o777)


def writable_below(top):
    (top / "compiled").mkdir(parents=True)
    (top / "compiled").chmod(0o770)


def a_link(top):
    top.with_name("theirs").mkdir()
    top.symlink_to(top.with_name("theirs"))


def a_file(top):
    top.write_text("")


@pytest.mark.parametrize(
    "make, message",
    [
        (writable, "can be written by others (mode 777)"),
        (writable_below, "compiled can be written by others (mode 770)"),
        (a_link, "is a link or a file"),
        (a_file, "File exists"),
    ],
)
def test_what_others_could_have_filled_is_not_used(top, caplog, make, message):
    make(top)
    with caplog.at_level(logging.WARNING):
        assert used() is None
    assert message in caplog.text and "are not kept" in caplog.text


def test_a_folder_of_another_user_is_not_used(top, caplog, monkeypatch):
    assert used() is not None
    monkeypatch.setattr(os, "geteuid", lambda: top.stat().st_uid + 1)
    with caplog.at_level(logging.WARNING):
        assert used() is None
    assert "belongs to user" in caplog.text


def test_without_a_home_the_run_goes_on(monkeypatch, caplog):
    monkeypatch.delenv(user_cache.VARIABLE)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def none():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(pathlib.Path, "home", none)
    with caplog.at_level(logging.WARNING):
        assert used() is None
    assert "home directory" in caplog.text


def test_a_named_folder_is_used_and_what_is_odd_is_said(tmp_path, caplog):
    (tmp_path / "shared").mkdir()
    with caplog.at_level(logging.WARNING):
        assert used(tmp_path / "shared") == tmp_path / "shared"
    assert not caplog.text
    (tmp_path / "shared").chmod(0o777)
    with caplog.at_level(logging.WARNING):
        assert used(tmp_path / "shared") == tmp_path / "shared"
    assert "can be written by others" in caplog.text


def test_the_oldest_entries_go_when_there_are_too_many(top, monkeypatch):
    folder = used()
    for age, name in enumerate("cba"):
        (folder / name).write_bytes(bytes(100))
        os.utime(folder / name, (1000 - age, 1000 - age))
    monkeypatch.setattr(compile_cache, "MOST_BYTES", 250)
    used()
    assert sorted(path.name for path in folder.iterdir()) == ["b", "c"]


@pytest.mark.parametrize("chosen, level", [(None, "INFO"), ("mine", "WARNING")])
def test_programs_of_several_cpus_are_not_kept(
    top, tmp_path, monkeypatch, caplog, chosen, level
):
    """Read back, they may wait for ever; see `_deadlocks_when_read_back`."""
    cpus = [*jax.devices(), *jax.devices()]
    monkeypatch.setattr(jax, "devices", lambda: cpus)
    with caplog.at_level(logging.INFO):
        assert used(chosen and tmp_path / chosen) is None
    (record,) = caplog.records
    assert record.levelname == level
    assert "not kept: for several CPU devices (here 2)" in record.message
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert used(chosen and tmp_path / chosen) is not None
