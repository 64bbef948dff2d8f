"""The layer benchmark at tiny sizes: what is compared, run and written."""

import dataclasses
import json

import numpy as np
import pytest

from benchmarks import harness, layer, layer_sides, machine, problem
from benchmarks.problem import Sizes

TINY = Sizes(
    long_length=45,
    global_length=6,
    radius=5,
    max_distance=3,
    embed_dim=16,
    num_heads=2,
    mlp_dim=24,
    bigbird_block_size=4,
)
ARGV = [f"--{k}={v}" for k, v in dataclasses.asdict(TINY).items()]
FEW = ["--sides=etc,jax_given_bias", "--modes=forward", "--rounds=3", "--no-memory"]


@pytest.fixture(scope="module")
def sides():
    made = layer_sides.make_sides(layer_sides.JAX_SIDES, TINY, gradient=True)
    return {side.name: side for side in made}


def run_tiny(tmp_path, *argv):
    out = tmp_path / "new" / "out.json"
    code = layer.main([*ARGV, *argv, "--allow_busy", f"--out={out}"])
    return code, json.loads(out.read_text())


def test_sentences_cover_the_long_tokens():
    assert TINY.sentence_lengths == [8, 8, 8, 7, 7, 7]
    assert sum(Sizes().sentence_lengths) == 4096


def test_impossible_sizes_are_refused():
    with pytest.raises(ValueError, match="16 is not a multiple of num_heads 3"):
        dataclasses.replace(TINY, num_heads=3)
    with pytest.raises(ValueError, match="global_length must be from 1 to long_length"):
        dataclasses.replace(TINY, global_length=46)


@pytest.mark.parametrize("name", layer_sides.JAX_SIDES)
def test_jax_sides_compute_what_they_claim(sides, name):
    assert harness.check(sides[name], tolerance=1e-5) <= 1e-5


def test_every_weight_and_the_inputs_have_a_gradient_that_matters(sides):
    arrays = sides["etc"].arrays(sides["etc"].run())
    names = {f"grad {name}" for name in problem.weights(TINY)} - {problem.ROUNDING_ONLY}
    assert arrays.keys() == names | {"output", "grad inputs"}
    assert all(np.max(np.abs(x)) > 1e-2 for x in arrays.values())


def test_labels_change_the_result(sides):
    with_labels, without = (
        sides[name].arrays(sides[name].run())["output"]
        for name in ("etc", "etc_no_labels")
    )
    assert harness.scaled_error(with_labels, without) > 0.1


def test_an_attention_that_is_wrong_is_refused(monkeypatch):
    from etc_jax.ops.attention import global_local

    right = global_local.attend

    def wrong(query, *args, implementation, **kwargs):
        out = right(query, *args, implementation=implementation, **kwargs)
        off = 1.001 if implementation == "xla" else 1.0
        return out._replace(long=out.long * off)

    monkeypatch.setattr(global_local, "attend", wrong)
    with pytest.raises(harness.WrongSideError, match="etc: .* differs from the oracle"):
        layer.time_sides(layer.parse(["--sides=etc", "--rounds=1"]), TINY, "forward")


def test_unknown_sides_are_refused(capsys):
    with pytest.raises(ValueError, match=r"no sides named \['etd'\]"):
        layer_sides.make_sides(["etd"], TINY, gradient=False)
    with pytest.raises(SystemExit):
        layer.main(["--sides=etc,etd"])
    assert "['etd'] is not among etc," in capsys.readouterr().err
    with pytest.raises(SystemExit):
        layer.main(["--sides=jax_dpa"])
    assert "must name the reference 'etc'" in capsys.readouterr().err


def test_json_of_a_run_says_everything(tmp_path, capsys):
    code, got = run_tiny(tmp_path, *FEW)
    assert code == 0
    assert got["benchmark"] == "layer" and got["dtype"] == "float32"
    assert got["shapes"] == dataclasses.asdict(TINY)
    assert {"date", "command", "machine", "busy", "quiet", "reference"} <= got.keys()
    assert got["quiet"]["other_cores_during"] is not None
    assert [r["mode"] for r in got["results"]] == ["forward"]
    rows = got["results"][0]["rows"]
    assert [row["name"] for row in rows] == ["etc", "jax_given_bias"]
    for row in rows:
        assert len(row["times"]) == 3
        assert row["median"] == pytest.approx(np.median(row["times"]))
        assert 0 <= row["error"] <= 1e-5
    assert rows[0]["ratio"] == 1
    assert "jax_given_bias" in capsys.readouterr().out


def test_json_of_scaling_has_exponents_and_memory(tmp_path):
    argv = ["--scaling", "--lengths=48,96", "--rounds=2", "--modes=forward"]
    code, got = run_tiny(tmp_path, *argv)
    assert code == 0
    assert got["scaling"]["lengths"] == [48, 96]
    (result,) = got["scaling"]["results"]
    assert [row["name"] for row in result["rows"]] == ["48", "96"]
    first, second = result["rows"]
    assert first["error"] <= 1e-5 and second["error"] is None
    found = result["exponents"]
    assert found["time"] == pytest.approx(np.log2(second["median"] / first["median"]))
    peaks = result["memory"]
    temp = [peaks[n]["xla_temp_bytes"] for n in ("48", "96")]
    assert found["xla_temp_bytes"] == pytest.approx(np.log2(temp[1] / temp[0]))
    assert all(peaks[n]["peak_bytes"] > 0 for n in ("48", "96"))


def busy(_seconds=None):
    return machine.Quiet(9.0, 1.5, reasons=("other processes use 1.50 cores",))


def test_a_busy_machine_is_refused_and_nothing_is_written(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(machine, "probe", busy)
    out = tmp_path / "out.json"
    assert layer.main([*ARGV, *FEW, f"--out={out}"]) == 3
    assert "the machine is busy: other processes use 1.50" in capsys.readouterr().err
    assert not out.exists()


def test_a_busy_machine_is_recorded_when_allowed(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "probe", busy)
    monkeypatch.setattr(layer, "compare_layers", lambda *_: {"results": ["figures"]})
    code, got = run_tiny(tmp_path)
    assert code == 0
    assert got["busy"] is True and got["results"] == ["figures"]
    assert "other processes use 1.50 cores" in got["quiet"]["reasons"]


def test_becoming_busy_is_recorded_and_fails_unless_allowed(tmp_path, monkeypatch):
    quiet = machine.Quiet(0.0, 0.0)
    monkeypatch.setattr(machine, "probe", lambda: quiet)
    monkeypatch.setattr(machine, "after", lambda *_: busy())
    monkeypatch.setattr(layer, "compare_layers", lambda *_: {})
    out = tmp_path / "out.json"
    assert layer.main([*ARGV, f"--out={out}"]) == 3
    assert json.loads(out.read_text())["busy"] is True


def test_exponents_are_those_of_known_times():
    lengths = (10, 20, 40)
    rows = [np.array([1.0, 1.1, 0.9]) * n**1.5 for n in lengths]
    sides = [
        harness.Timing(str(n), "", tuple(t), np.median(t), 0, 0, 1, (1, 1), None)
        for n, t in zip(lengths, rows, strict=True)
    ]
    found = layer.exponents(lengths, sides)
    assert found["time"] == pytest.approx(1.5)
    assert found["time_interval"] == (pytest.approx(1.5), pytest.approx(1.5))
