"""The table of growing windows, at a size at which nothing is learnt."""

import argparse
import dataclasses
import json
import pathlib

import numpy as np
import pytest

from benchmarks import window_growth
from benchmarks.finetuning_runs import Spent
from etc_jax import config as config_lib

TINY = [
    "--config.model.num_layers=1",
    "--config.model.attention_window=(8,)",
    "--config.model.attention_dilation=((2,2,1,1),)",
    "--config.model.embed_dim=8",
    "--config.model.mlp_dim=8",
    "--config.model.max_length=32",
    "--config.data.input_length=32",
    "--config.data.scored_length=16",
    "--config.train.batch_size=8",
]


def options(**changes):
    args = argparse.Namespace(
        file=pathlib.Path("text8"), size="short", steps=None, workdir=pathlib.Path("w")
    )
    vars(args).update(changes)
    return args


def fields_of(row, **changes):
    config = window_growth.config_of(row, 0, options(**changes), [])
    return config_lib.flat_items(config_lib.to_dict(config))


def test_rows_differ_in_windows_and_dilation_alone():
    fields = {row: fields_of(row) for row in window_growth.ROWS}
    base = fields["increasing"]
    differing = {
        row: {name for name in base if base[name] != fields[row][name]}
        for row in window_growth.ROWS
    }
    windows = "model.attention_window"
    assert differing == {
        "decreasing": {windows},
        "fixed": {windows},
        "increasing": set(),
        "dilation": {"model.attention_dilation"},
    }
    of_row = {row: fields[row][windows] for row in fields}
    assert of_row["increasing"] == [32, 64, 128, 256]  # twice what a byte sees
    assert of_row["decreasing"] == of_row["increasing"][::-1]
    assert sum(of_row["fixed"]) == sum(of_row["increasing"])


def test_steps_and_size_are_those_asked_for():
    made = fields_of("fixed", steps=150_000, size="stage1")
    assert made["train.num_steps"] == 150_000
    assert made["schedule.warmup_steps"] == 10_000
    assert (made["model.num_layers"], made["model.embed_dim"]) == (12, 512)
    few = fields_of("fixed", steps=8)
    assert (few["train.num_steps"], few["schedule.warmup_steps"]) == (8, 0)
    assert (few["train.eval_every_steps"], few["checkpoint.every_steps"]) == (2, 4)


@pytest.mark.slow  # trains two models
def test_a_run_is_told_and_not_trained_again(tmp_path, capsys):
    file, out = tmp_path / "text", tmp_path / "out.json"
    file.write_bytes(np.random.default_rng(0).bytes(2000))
    argv = [f"--file={file}", "--rows=dilation", "--seeds=4", "--steps=2"]
    argv += [f"--workdir={tmp_path / 'runs'}", f"--out={out}", *TINY]
    assert window_growth.main(argv) == 0
    written = json.loads(out.read_text())
    (run,) = written["runs"]
    assert (run["row"], run["seed"], run["windows"]) == ("dilation", 4, [4])
    # Bytes that follow from nothing take 8 bits.
    assert 7 < run["bits"] < 20 and run["curve"][-1] == [2, run["bits"]]
    assert written["steps"] == 2
    assert "1.20" in capsys.readouterr().out

    assert window_growth.main(argv) == 0
    assert json.loads(out.read_text())["runs"] == [run]


def test_the_table_is_of_the_runs():
    spent = Spent(200.0, 60.0)
    one = window_growth.Run("fixed", 0, (60,) * 4, 2.0, ((1, 2.0),), spent)
    two = dataclasses.replace(one, seed=1, bits=2.2, spent=Spent(200.0, 180.0))
    other = dataclasses.replace(one, row="increasing", windows=(16, 128))
    _, _, *lines = window_growth.table([one, other, two]).splitlines()
    # Mean and standard deviation of two values, by hand.
    assert [line.split() for line in lines] == [
        ["fixed", "60,60,60,60", "2", "2.100", "±", "0.141", "1.23", "2.0"],
        ["increasing", "16,128", "1", "2.000", "±", "0.000", "1.21", "1.0"],
    ]


@pytest.mark.parametrize(
    "argv, message",
    [
        (["--config.model.attention_windows=(4,)"], "attention_windows"),
        (["--steps=0"], "train.num_steps"),
    ],
)
def test_what_does_not_fit_is_told_before_training(argv, message, tmp_path, capsys):
    argv = ["--file=text8", f"--workdir={tmp_path}", *argv]
    assert window_growth.main(argv) == 2
    assert message in capsys.readouterr().err


def test_a_file_that_is_not_there_is_told(tmp_path, capsys):
    argv = ["--file=nowhere", f"--workdir={tmp_path}", "--rows=fixed", "--seeds=0"]
    assert window_growth.main([*argv, "--steps=1", *TINY]) == 2
    assert "'nowhere' in data.paths matches no file" in capsys.readouterr().err
