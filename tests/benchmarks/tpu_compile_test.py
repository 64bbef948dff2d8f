"""A TPU compile of the base encoder, and the search of its text."""

import json
import subprocess
import sys

import pytest

from benchmarks.tpu_compile import float32_shapes, quadratic_shapes
from etc_jax.models import etc


def test_the_search_finds_all_pairs_and_whole_bands():
    config = etc.base(attention_block_size=128)
    text = "f32[1,12,4096,4096]{3,2,1,0} bf16[4096,4096] f32[12,32,128,296] f32[]"
    shapes = float32_shapes(text)
    assert shapes == {(1, 12, 4096, 4096), (12, 32, 128, 296), ()}
    assert quadratic_shapes(shapes, config, 4096) == sorted(shapes - {()})


def test_the_search_passes_chunks_weights_and_activations():
    config = etc.base(attention_block_size=128)
    shapes = {(12, 8, 296, 128), (12, 768, 3072), (1, 4096, 768), (12, 4096, 230)}
    assert quadratic_shapes(shapes, config, 4096) == []


@pytest.mark.tpu_aot
def test_base_encoder_compiles_for_v5e_without_quadratic_arrays(tmp_path):
    out = tmp_path / "tpu.json"
    command = [sys.executable, "-m", "benchmarks.tpu_compile", f"--out={out}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    row = json.loads(out.read_text())
    # 165,825,024 float32 parameters and the token ids.
    assert row["parameter_bytes"] == pytest.approx(4 * 165_825_024, rel=0.01)
    assert row["temporary_bytes"] < 2**30
    print(done.stdout)
