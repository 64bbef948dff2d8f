"""Compiles for a TPU: the longest input of a chip, and arrays not to be there."""

import json
import subprocess
import sys

import jax
import pytest

from benchmarks.memory import tpu_compile
from benchmarks.memory.tpu_compile import float32_shapes, quadratic_shapes
from etc_jax.models.etc import config as etc_config


def test_lengths_are_one_or_more(capsys):
    with pytest.raises(SystemExit):
        tpu_compile.main(["--long_lengths=512,0"])
    assert "--long_lengths is (512, 0); expected at least 1" in capsys.readouterr().err


def test_an_unknown_chip_is_2(capsys):
    assert tpu_compile.main(["--topology=v5e:4xx4"]) == 2
    assert "did you mean 'v5e:4x4'?" in capsys.readouterr().err


@pytest.fixture
def on_cpu(monkeypatch):
    """The devices of this machine in place of a TPU's."""
    lib = tpu_compile.topology_lib
    monkeypatch.setattr(lib, "devices", lambda name: jax.devices())
    monkeypatch.setattr(tpu_compile.hardware, "memory_limit", lambda chip: 1000.0)


def test_what_fits_and_what_does_not_is_printed(on_cpu, monkeypatch, run, capsys):
    def measure(args, length, limit):
        return {"long_length": length, "total_bytes": 2 * length, "fits": length < 500}

    monkeypatch.setattr(tpu_compile, "measure", measure)
    main = tpu_compile.main
    assert tpu_compile.parse([])[1].global_length == 230
    assert tpu_compile.parse(["--updates"])[1].remat_policy == "full"
    assert run(main, "--size=large", "--long_lengths=300,400")[0] == 0
    code, result = run(main, "--size=large", "--long_lengths=400,600")
    assert code == 1
    assert result["longest_that_fits"] == 400
    assert result["paper_long_length"] == 8448
    assert [row["fits"] for row in result["rows"]] == [True, False]
    *_, last, _ = capsys.readouterr().out.splitlines()
    assert json.loads(last) == result["rows"][-1]


def test_a_refusal_of_the_compiler_is_a_row(monkeypatch):
    def refuse(*args, **kwargs):
        raise jax.errors.JaxRuntimeError(
            "RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 18.50G of "
            "15.75G hbm."
        )

    monkeypatch.setattr(tpu_compile, "compile_encoder", refuse)
    row = tpu_compile.measure(tpu_compile.parse([])[1], 10**6, 1e9)
    assert row["fits"] is False and row["total_bytes"] == 18.5 * 2**30
    assert "Used 18.50G" in row["refused"]


@pytest.mark.tpu_aot
def test_base_trains_on_long_inputs_of_one_chip(tmp_path):
    """Three times the paper's 22,656, which had another set-up, in half the memory."""
    out = tmp_path / "out.json"
    argv = [sys.executable, "-m", "benchmarks", "tpu_compile", "--updates"]
    got = subprocess.run(
        [*argv, "--long_lengths=65536", f"--out={out}"],
        capture_output=True,
        text=True,
        timeout=1500,
    )
    assert got.returncode == 0, got.stdout + got.stderr[-2000:]
    (row,) = json.loads(out.read_text())["rows"]
    assert row["arguments"] >= 4 * 165_825_024
    assert row["aliased"] >= 4 * 165_825_024  # updated in place
    assert row["total_bytes"] < 0.6 * row["limit_bytes"]


# --- arrays of a compiled program -----------------------------------------------------


def test_the_search_finds_all_pairs_and_whole_bands():
    config = etc_config.base(attention_block_size=128)
    text = "f32[1,12,4096,4096]{3,2,1,0} bf16[4096,4096] f32[12,32,128,296] f32[]"
    shapes = float32_shapes(text)
    assert shapes == {(1, 12, 4096, 4096), (12, 32, 128, 296), ()}
    assert quadratic_shapes(shapes, config, 4096) == sorted(shapes - {()})


def test_the_search_passes_chunks_weights_and_activations():
    config = etc_config.base(attention_block_size=128)
    shapes = {(12, 8, 296, 128), (12, 768, 3072), (1, 4096, 768), (12, 4096, 230)}
    assert quadratic_shapes(shapes, config, 4096) == []


@pytest.mark.tpu_aot
def test_base_encoder_compiles_for_v5e_without_quadratic_arrays(tmp_path):
    out = tmp_path / "tpu.json"
    command = [sys.executable, "-m", "benchmarks", "tpu_compile", f"--out={out}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    [row] = json.loads(out.read_text())["rows"]
    # 165,825,024 float32 parameters and the token ids.
    assert row["arguments"] == pytest.approx(4 * 165_825_024, rel=0.01)
    assert row["temporaries"] < 2**30
    assert row["forbidden_float32"] == []
    print(done.stdout)
