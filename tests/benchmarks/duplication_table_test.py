"""The table of the duplication task, at a size at which nothing is learnt."""

import pytest

from benchmarks.rows import duplication

TINY = [
    "--config.model.max_length=32",
    "--config.data.input_length=32",
    "--config.model.lsh_chunk_length=8",
    "--config.model.num_buckets=(8,)",
    "--config.model.embed_dim=8",
    "--config.model.mlp_dim=8",
    "--config.schedule.warmup_steps=1",
    "--config.train.num_steps=3",
    "--config.train.batch_size=8",
]


@pytest.mark.full  # trains and evaluates with six kinds of attention
def test_a_run_is_evaluated_with_every_attention_and_not_trained_again(
    tmp_path, run, capsys, monkeypatch
):
    monkeypatch.setattr(duplication, "_BATCHES", 1)
    monkeypatch.setattr(duplication, "COLUMNS", ("full", "1"))
    argv = ["--short", "--rows=lsh1", "--seeds=0", f"--workdir={tmp_path}", *TINY]
    _, written = run(duplication.main, *argv)
    [made] = written["runs"]
    assert list(made["accuracy"]) == ["full", "1"]
    assert all(0 <= x < 20 for x in made["accuracy"].values())
    assert made["curve"][-1][0] == 3
    table = capsys.readouterr().out
    assert "lsh1" in table and "(77.9)" in table
    assert run(duplication.main, *argv)[1]["runs"] == [made]


def test_columns_differ_in_attention_alone():
    config = duplication.config_of("full", 0, short=True, changes=[])
    buckets = duplication.config_of("lsh4", 0, short=True, changes=[]).model
    full = duplication.model_for("full", config, buckets)
    assert full == config.model
    two = duplication.model_for("2", config, buckets)
    assert (two.num_hashes, two.lsh_chunk_length) == (2, buckets.lsh_chunk_length)
    assert two.num_buckets == buckets.num_buckets
    assert two.duplicates == "once"
