"""A training step over lengths, at tiny sizes."""

import pytest

from benchmarks.speed import step_lengths

# Those of `step_lengths.SMALL`, much smaller.
TINY = {"num_layers": 2, "embed_dim": 16, "num_heads": 2, "mlp_dim": 32}
ARGV = ("--size=small", "--lengths=96", "--target_length=8", "--allow_busy")


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setattr(step_lengths, "SMALL", step_lengths.SMALL | TINY)


def test_steps_are_timed_beside_the_first_model(run, capsys):
    code, got = run(step_lengths.main, *ARGV, "--rounds=2")
    (result,) = got["results"]
    assert code == 0 and result["length"] == 96 and got["equal_at"] == {"bert": None}
    assert [x["name"] for x in result["times"]] == ["etc", "bert"]
    assert result["times"][0]["ratio"] == 1
    assert "GFLOPs a step" in capsys.readouterr().out


def test_without_rounds_steps_are_compiled_alone(run):
    argv = ("--models=sled,led", "--rounds=0", *ARGV)
    code, got = run(step_lengths.main, *argv)
    assert code == 0 and got["equal_at"] == {"led": None}
    (result,) = got["results"]
    assert "times" not in result
    for step in result["steps"].values():
        # Parameters and moments are updated in place.
        assert step["fits"] and step["memory"]["aliased"] > 0
        assert step["total_bytes"] > step["memory"]["temporaries"] > 0


def test_a_step_that_does_not_fit_is_not_timed(run, monkeypatch):
    limit_fn = lambda device: 1.0  # noqa: E731
    monkeypatch.setattr(step_lengths.hardware, "memory_limit", limit_fn)
    argv = ("--models=bert", *ARGV, "--lengths=96,192")
    code, got = run(step_lengths.main, *argv)
    assert code == 0 and not any("times" in x for x in got["results"])
    short, long = (x["steps"]["bert"] for x in got["results"])
    assert not short["fits"] and not long["fits"]
    # Pairs of tokens are quadratic.
    assert 2 * short["flops"] < long["flops"] < 4 * short["flops"]


@pytest.mark.parametrize(
    "ratios, expected",
    [
        ([0.5, 2.0, 4.0], 200**0.5 * 10),  # halfway of 100 and 200 by logarithms
        ([2.0, 1.5, 0.5], 200 * 2 ** (0.4054651 / 1.0986123)),
        ([2.0, 3.0, 4.0], None),
        ([], None),
    ],
)
def test_models_are_as_fast_where_the_ratio_passes_1(ratios, expected):
    lengths = (100, 200, 400)[: len(ratios)]
    got = step_lengths.equal_at(lengths, ratios)
    assert got == (expected and pytest.approx(expected))
