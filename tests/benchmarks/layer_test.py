"""The layer benchmark at tiny sizes: what is compared, run and written."""

import dataclasses
import importlib.util

import numpy as np
import pytest

from benchmarks.kit import harness, machine, memory, scaling
from benchmarks.speed import attention, layer, layer_sides, problem
from benchmarks.speed.problem import Sizes

TINY = Sizes(
    long_length=45,
    global_length=6,
    radius=5,
    max_distance=3,
    embed_dim=16,
    num_heads=2,
    mlp_dim=24,
    bigbird_block_size=4,
)  # 51 tokens: no multiple of Longformer's window (10), nor of BigBird's block
ARGV = [f"--{k}={v}" for k, v in dataclasses.asdict(TINY).items()]
FEW = ["--sides=etc,jax_given_bias", "--modes=forward", "--rounds=3", "--no-memory"]


# Compiled in every run of the tests, and when there is time.
FIRST = ("etc", "jax_dpa", "longformer", "big_bird")
OTHERS = tuple(name for name in layer_sides.JAX_SIDES if name not in FIRST)


@pytest.fixture(scope="module")
def sides():
    made = layer_sides.make_sides(FIRST, TINY, gradient=True)
    return {side.name: side for side in made}


def test_sentences_cover_the_long_tokens():
    assert TINY.sentence_lengths == [8, 8, 8, 7, 7, 7]
    assert sum(Sizes().sentence_lengths) == 4096


def test_impossible_sizes_are_refused():
    with pytest.raises(ValueError, match="16 is not a multiple of num_heads 3"):
        dataclasses.replace(TINY, num_heads=3)
    with pytest.raises(ValueError, match="global_length must be from 1 to long_length"):
        dataclasses.replace(TINY, global_length=46)


@pytest.mark.parametrize("name", FIRST)
def test_jax_sides_compute_what_they_claim(sides, name):
    assert harness.check(sides[name], tolerance=1e-5) <= 1e-5


@pytest.mark.full
def test_other_sides_compute_what_they_claim():
    for side in layer_sides.make_sides(OTHERS, TINY, gradient=True):
        assert harness.check(side, tolerance=1e-5) <= 1e-5


def test_every_weight_and_the_inputs_have_a_gradient_that_matters(sides):
    arrays = sides["etc"].arrays(sides["etc"].run())
    names = {f"grad {name}" for name in problem.weights(TINY)} - {problem.ROUNDING_ONLY}
    assert arrays.keys() == names | {"output", "grad inputs"}
    assert all(np.max(np.abs(x)) > 1e-2 for x in arrays.values())


def test_labels_change_the_result(sides):
    # Longformer is compared with this layer without labels.
    with_labels, without = (sides[name].oracle() for name in ("etc", "longformer"))
    assert harness.scaled_error(with_labels["output"], without["output"]) > 0.1


def test_an_attention_that_is_wrong_is_refused(monkeypatch):
    from etc_jax.ops.attention import global_local

    right = global_local.attend

    def wrong(query, *args, implementation, **kwargs):
        out = right(query, *args, implementation=implementation, **kwargs)
        off = 1.0 if implementation == "dense" else 1.001
        return out._replace(long=out.long * off)

    monkeypatch.setattr(global_local, "attend", wrong)
    with pytest.raises(harness.WrongSideError, match="etc: .* differs from the oracle"):
        layer.main([*ARGV, *FEW, "--allow_busy"])


def test_unknown_sides_are_refused(capsys):
    with pytest.raises(ValueError, match=r"no sides named \['etd'\]"):
        layer_sides.make_sides(["etd"], TINY, gradient=False)
    with pytest.raises(SystemExit):
        layer.main(["--sides=etc,etd"])
    assert "['etd'] is not among etc," in capsys.readouterr().err
    with pytest.raises(SystemExit):
        layer.main(["--sides=jax_dpa"])
    assert "must name the reference 'etc'" in capsys.readouterr().err


def test_json_of_a_run_says_everything(run, capsys):
    code, got = run(layer.main, *ARGV, *FEW, "--allow_busy")
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


@pytest.mark.full
def test_json_of_scaling_has_exponents_and_memory(run, monkeypatch):
    in_process = memory.measure

    def measure(build, name, sizes, **how):
        n = sizes.long_length
        if n == 48:  # a process of its own can do it
            got = in_process(build, name, sizes, **how)
            assert got["peak_bytes"] > 0 and got["xla_temp_bytes"] > 0
        return {"peak_bytes": n**2, "xla_temp_bytes": n**3}

    monkeypatch.setattr(memory, "measure", measure)
    argv = ["--scaling", "--lengths=48,96", "--rounds=2", "--modes=forward"]
    code, got = run(layer.main, *ARGV, *argv, "--allow_busy")
    assert code == 0
    assert got["scaling"]["lengths"] == [48, 96]
    (result,) = got["scaling"]["results"]
    assert [row["name"] for row in result["rows"]] == ["48", "96"]
    first, second = result["rows"]
    assert first["error"] <= 1e-5 and second["error"] is None
    found = result["exponents"]
    assert found["time"] == pytest.approx(np.log2(second["median"] / first["median"]))
    assert found["peak_bytes"] == pytest.approx(2)
    assert found["xla_temp_bytes"] == pytest.approx(3)
    assert result["memory"]["96"]["xla_temp_bytes"] == 96**3


BUSY = machine.Quiet(9.0, 1.5, reasons=("other processes use 1.50 cores",))


def test_a_busy_machine_is_refused_and_nothing_is_written(run, monkeypatch, capsys):
    monkeypatch.setattr(machine, "probe", lambda: BUSY)
    assert run(layer.main, *ARGV, *FEW) == (3, None)
    assert "the machine is busy: other processes use 1.50" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("before", "after", "more", "code"),
    [(BUSY, BUSY, ["--allow_busy"], 0), (machine.Quiet(0.0, 0.0), BUSY, [], 3)],
)
def test_a_machine_that_is_or_becomes_busy_is_recorded(
    run, monkeypatch, before, after, more, code
):
    monkeypatch.setattr(machine, "probe", lambda: before)
    monkeypatch.setattr(machine, "after", lambda *_: after)
    monkeypatch.setattr(layer, "compare_layers", lambda *_: {"results": ["metrics"]})
    found, got = run(layer.main, *ARGV, *more)
    assert found == code
    assert got["busy"] is True and got["results"] == ["metrics"]
    assert "other processes use 1.50 cores" in got["quiet"]["reasons"]


def test_exponents_are_those_of_known_times():
    lengths = (10, 20, 40)
    rows = [np.array([1.0, 1.1, 0.9]) * n**1.5 for n in lengths]
    sides = [
        harness.Timing(str(n), "", tuple(t), np.median(t), 0, 0, 1, (1, 1), None)
        for n, t in zip(lengths, rows, strict=True)
    ]
    found = scaling.exponents(lengths, sides, {}, time="time")
    assert found["time"] == pytest.approx(1.5)
    assert found["time_interval"] == (pytest.approx(1.5), pytest.approx(1.5))


# --- the operation alone --------------------------------------------------------------


@pytest.fixture(scope="module")
def op_sides():
    return make_op_sides("etc", "jax_dpa")


def make_op_sides(*names):
    small = dataclasses.replace(TINY, long_length=40, global_length=3)
    how = {"gradient": True, "checked": True}
    sides, temp_bytes = attention.make_sides(names, small, **how)
    assert temp_bytes.keys() == set(names) and min(temp_bytes.values()) > 0
    return sides


def test_sides_of_the_operation_compute_the_same(op_sides):
    for side in op_sides:
        assert harness.check(side, tolerance=1e-5) <= 1e-5


@pytest.mark.full
def test_other_sides_of_the_operation_compute_the_same():
    for side in make_op_sides("etc_dense", "jax_given_bias"):
        assert harness.check(side, tolerance=1e-5) <= 1e-5


def test_gradients_are_of_queries_keys_values_and_labels(op_sides):
    names = {"grad query", "grad key", "grad value", "output"}
    for table in ("long_labels", "global_labels"):
        names |= {f"grad {table}/embedding", f"grad {table}/bias"}
    side = op_sides[0]
    assert side.arrays(side.run()).keys() == names


@pytest.mark.full
def test_json_covers_lengths_and_leaves_dense_forms_out_beyond_their_limit(run):
    argv = ["--lengths=32,64", "--max_dense_length=32", "--rounds=2", "--radius=5"]
    argv += ["--embed_dim=16", "--num_heads=2", "--allow_busy", "--modes=forward"]
    code, got = run(attention.main, *argv, "--dtype=bfloat16", "--sides=etc,jax_dpa")
    assert code == 0
    assert got["dtype"] == "bfloat16"
    assert got["shapes"]["lengths"] == [32, 64]
    found = [
        (r["long_length"], r["global_length"], r["mode"], r["checked"], len(r["rows"]))
        for r in got["results"]
    ]
    assert found == [(32, 2, "forward", True, 2), (64, 4, "forward", False, 1)]
    assert all(row["error"] is None for row in got["results"][-1]["rows"])
    assert all(row["error"] <= 3e-2 for row in got["results"][0]["rows"])


# --- peers in PyTorch -----------------------------------------------------------------


def peers(test):
    """Needs the libraries of the peers."""
    needed = map(importlib.util.find_spec, ("torch", "transformers"))
    missing = not all(needed)
    skip = pytest.mark.skipif(missing, reason="needs torch and transformers")
    return pytest.mark.torch(skip(test))


@peers
@pytest.mark.parametrize(
    ("name", "gradient"),
    [
        *[("hf_longformer", False), ("hf_longformer", True), ("torch_sdpa", True)],
        *[("hf_bigbird", False), ("hf_bigbird", True)],
    ],
)
def test_peer_equals_this_librarys_layer(name, gradient):
    (side,) = layer_sides.make_sides([name], TINY, gradient=gradient)
    assert harness.check(side, tolerance=1e-5) <= 1e-5


@peers
def test_bigbird_refuses_inputs_that_its_blocks_do_not_fit():
    sizes = dataclasses.replace(TINY, bigbird_block_size=64)
    with pytest.raises(ValueError, match="needs more than 704 tokens, got 64"):
        layer_sides.make_sides(["hf_bigbird"], sizes, gradient=False)


@peers
def test_a_peer_with_another_window_is_refused():
    wide = dataclasses.replace(TINY, radius=6)
    (other,) = layer_sides.make_sides(["hf_longformer"], wide, gradient=False)
    (side,) = layer_sides.make_sides(["hf_longformer"], TINY, gradient=False)
    wrong = dataclasses.replace(side, run=other.run)
    with pytest.raises(harness.WrongSideError, match="hf_longformer: output differs"):
        harness.check(wrong, tolerance=1e-4)


@peers
def test_gradients_do_not_add_up_over_calls():
    (side,) = layer_sides.make_sides(["hf_longformer"], TINY, gradient=True)
    first = side.arrays(side.run())
    second = side.arrays(side.run())
    for name in first:
        np.testing.assert_allclose(second[name], first[name], rtol=1e-5, atol=1e-5)


@peers
def test_peers_get_as_many_threads_as_this_process_has_cores():
    import torch

    layer_sides.make_sides(["torch_sdpa"], TINY, gradient=False)
    assert torch.get_num_threads() == machine.num_threads()
