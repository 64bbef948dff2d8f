"""The benchmark of the input pipeline, at tiny sizes."""

import numpy as np
import pytest

from benchmarks.kit import harness
from benchmarks.speed import input_pipeline
from benchmarks.speed.input_pipeline import SIDES, Sizes

TINY = Sizes(
    long_length=256, global_length=20, batch_size=2, num_batches=2, text_tokens=20_000
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return input_pipeline.write_text(tmp_path_factory.mktemp("text"), TINY.text_tokens)


def test_the_text_has_the_lengths_that_it_claims(tmp_path):
    cache = input_pipeline.write_text(tmp_path, 300_000)
    assert cache.num_tokens == pytest.approx(300_000, rel=0.2)
    lengths = np.diff(cache.sentence_offsets)
    assert lengths.mean() == pytest.approx(18, rel=0.05)
    assert str(cache.tokens.filename) == str(tmp_path / "tokens.npy")
    assert cache.word_starts(0, cache.num_tokens)[cache.sentence_offsets[:-1]].all()


@pytest.mark.parametrize("side", SIDES)
def test_metrics_count_real_tokens_and_bytes(cache, side):
    reader = input_pipeline.make_reader(cache, TINY, side)
    batch = reader.batch_at(0)
    assert ("cpc_long_tokens" in batch) == (side == "mlm_cpc")
    used = sum(batch["structure"].long_example_ids[row].any() for row in range(2))
    tokens = input_pipeline.real_tokens(batch)
    assert used == 2 and 256 < tokens <= 512
    parts = input_pipeline.bytes_per_example(batch)
    assert parts["long_tokens"] == 4 * 256
    assert parts["structure.links"] == 2 * 256
    assert parts["mlm_overflow"] == 4
    assert "structure.parent" not in parts


def test_rates_are_tokens_over_time():
    rounds = input_pipeline._Rounds(None, 2)
    rounds.tokens = [1, 1, 100, 300, 200]  # the first two are not timed
    timing = harness.Timing(
        "x", "", (1.0, 2.0, 0.5), 1.0, 0.5, 0.0, 1.0, (1.0, 1.0), None
    )
    rounds.batch = {"a": np.zeros((2, 8), np.int16)}
    got = input_pipeline._result(timing, rounds, TINY)
    assert got["tokens_per_sec"] == 150
    assert got["batches_per_sec"] == 2.0 and got["examples_per_sec"] == 4.0
    assert got["fill"] == pytest.approx(200 / 1024)
    assert got["bytes_per_example"] == 16


def test_json_and_table(run, capsys):
    argv = ["--long_length=256", "--global_length=20", "--batch_size=2"]
    argv += ["--num_batches=2", "--text_tokens=20000", "--rounds=2", "--num_workers=1"]
    code, got = run(input_pipeline.main, *argv, "--allow_busy")
    assert code == 0
    assert got["benchmark"] == "input_pipeline" and got["shapes"]["batch_size"] == 2
    assert [row["side"] for row in got["rows"]] == [*SIDES, "workers"]
    for row in got["rows"]:
        low, high = row["tokens_per_sec_quartiles"]
        assert 0 < low <= row["tokens_per_sec"] <= high
        assert 0.5 < row["fill"] <= 1 and len(row["times"]) == 2
    assert got["unpacked_windows"] > got["windows"] > 40
    sizes = [row["bytes_per_example"] for row in got["rows"]]
    assert sizes[0] == sizes[3] > sizes[1] == sizes[2]
    assert "tokens/s" in capsys.readouterr().out


def test_the_reference_cannot_be_left_out(capsys):
    with pytest.raises(SystemExit):
        input_pipeline.main(["--sides=no_cpc"])
    assert "must name the reference 'mlm_cpc'" in capsys.readouterr().err
