"""The longest input of a TPU chip: the command, and a small compile."""

import argparse
import json
import subprocess
import sys

import jax
import pytest

from benchmarks import longest_input


def test_lengths_are_read():
    assert longest_input._lengths("512,1024") == [512, 1024]
    with pytest.raises(argparse.ArgumentTypeError, match="at least 1"):
        longest_input._lengths("512,0")


def test_an_unknown_chip_is_2(capsys):
    assert longest_input.main(["--topology=v5e:4xx4"]) == 2
    assert "did you mean v5e:4x4?" in capsys.readouterr().err


@pytest.fixture
def on_cpu(monkeypatch):
    """The devices of this machine in place of a TPU's."""
    lib = longest_input.topology_lib
    monkeypatch.setattr(lib, "devices", lambda name: jax.devices())
    monkeypatch.setattr(longest_input.hardware, "memory_limit", lambda chip: 1000.0)


def test_what_fits_and_what_does_not_is_told(on_cpu, monkeypatch, tmp_path, capsys):
    def measure(args, length, limit):
        return {"long_length": length, "total_bytes": 2 * length, "fits": length < 500}

    monkeypatch.setattr(longest_input, "measure", measure)
    out = tmp_path / "out.json"
    argv = ["--size=large", f"--out={out}"]
    assert longest_input.main([*argv, "--long_lengths=300,400"]) == 0
    assert longest_input.main([*argv, "--long_lengths=400,600"]) == 1
    result = json.loads(out.read_text())
    assert result["longest_that_fits"] == 400
    assert result["paper_long_length"] == 8448
    assert [row["fits"] for row in result["rows"]] == [True, False]
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == result["rows"][-1]


def test_a_refusal_of_the_compiler_is_a_row(monkeypatch):
    def refuse(*args, **kwargs):
        raise jax.errors.JaxRuntimeError(
            "RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 18.50G of "
            "15.75G hbm."
        )

    monkeypatch.setattr(longest_input, "compile_encoder", refuse)
    row = longest_input.measure(longest_input._parse([]), 10**6, 1e9)
    assert row["fits"] is False and row["total_bytes"] == 18.5 * 2**30
    assert "Used 18.50G" in row["refused"]


@pytest.mark.tpu_aot
def test_base_trains_on_long_inputs_of_one_chip(tmp_path):
    """Three times the paper's 22,656, which had another set-up, in half the memory."""
    out = tmp_path / "out.json"
    argv = [sys.executable, "-m", "benchmarks.longest_input", "--long_lengths=65536"]
    got = subprocess.run(
        [*argv, f"--out={out}"], capture_output=True, text=True, timeout=1500
    )
    assert got.returncode == 0, got.stdout + got.stderr[-2000:]
    (row,) = json.loads(out.read_text())["rows"]
    assert row["arguments"] >= 4 * 165_825_024
    assert row["aliased"] >= 4 * 165_825_024  # updated in place
    assert row["total_bytes"] < 0.6 * row["limit_bytes"]
