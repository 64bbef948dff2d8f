"""What is compiled is announced, with the time that the same program took."""

import json
import logging
import re

import jax
import jax.numpy as jnp
import pytest

from etc_jax.training.preflight import compile_cache, compiling

pytestmark = pytest.mark.usefixtures("compiled_anew")


@pytest.fixture
def told(tmp_path, monkeypatch, caplog):
    """Announces something that takes `secs`; gives the two lines."""
    caplog.set_level(logging.INFO, "etc_jax")

    def told(secs, *program, cache=tmp_path / "cache"):
        caplog.clear()
        times = iter([10.0, 10.0 + secs])
        with compile_cache.keep_in(str(cache)), monkeypatch.context() as patch:
            patch.setattr(compiling.time, "perf_counter", lambda: next(times))
            with compiling.announced("the step", *program):
                assert "compiling" in caplog.messages[-1]  # before the silence
        return caplog.messages

    return told


def test_the_last_time_is_that_of_the_same_program(told, tmp_path):
    first = ["compiling the step ...", "compiled in 114 s"]
    assert told(114.2, "a") == first
    assert told(3.25, "a") == [
        "compiling the step, 114 s last time ...",
        "compiled in 3.2 s",
    ]
    assert told(114.2, "b") == first  # of which nothing is known
    assert told(1.0, "a")[0] == "compiling the step, 3.2 s last time ..."
    assert told(114.2, "a", cache=tmp_path / "other") == first


def test_other_devices_or_versions_have_times_of_their_own(told, monkeypatch):
    told(114.2, "a")
    alone = jax.devices()[:1]
    with monkeypatch.context() as patch:
        patch.setattr(jax, "devices", lambda: alone)
        assert told(50.0, "a")[0] == "compiling the step ..."
    monkeypatch.setattr(jax, "__version__", "0.0.1")
    assert told(50.0, "a")[0] == "compiling the step ..."


def test_what_fails_has_no_time(told, tmp_path, caplog):
    with (
        pytest.raises(ZeroDivisionError),
        compile_cache.keep_in(str(tmp_path / "cache")),
    ):
        with compiling.announced("the step", "a"):
            raise ZeroDivisionError
    assert caplog.messages == ["compiling the step ..."]
    assert told(2.0, "a")[0] == "compiling the step ..."


def test_the_newest_times_are_kept(told, tmp_path, monkeypatch):
    monkeypatch.setattr(compiling, "MOST_KEPT", 2)
    for name in "ababc":
        told(5.0, name)
    kept = json.loads((tmp_path / "cache" / compiling.FILE).read_text())
    assert len(kept) == 2
    assert "last time" in told(5.0, "b")[0] and "last time" in told(5.0, "c")[0]


@pytest.mark.parametrize("content", ["[1]", "{", '{"a": "b"}', '{"a": [1]}'])
def test_a_damaged_file_is_named_and_made_anew(told, tmp_path, content):
    path = tmp_path / "cache" / compiling.FILE
    path.parent.mkdir()
    path.write_text(content)
    assert f"{path} has no times" in told(5.0, "a")[0]
    assert told(5.0, "a")[0] == "compiling the step, 5.0 s last time ..."


def test_a_function_is_compiled_once_for_each_shape_of_a_batch(caplog):
    caplog.set_level(logging.INFO, "etc_jax")
    double = compiling.Announced("the model", jax.jit(lambda params, x: params * x))
    for size in (2, 3, 2):
        assert double(2.0, jnp.ones(size)).tolist() == [2.0] * size
    assert [re.sub("[0-9.]+ s", "N s", x) for x in caplog.messages] == 2 * [
        "compiling the model ...",
        "compiled in N s",
    ]
