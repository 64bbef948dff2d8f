"""The table of growing windows, at a size at which nothing is learnt."""

import argparse
import pathlib

import numpy as np
import pytest
from stand_ins import flat

from benchmarks.rows import window_growth

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


def config_of(row, *, size="short", steps=None):
    args = {"file": pathlib.Path("text8"), "size": size, "steps": steps}
    args = argparse.Namespace(**args, workdir=pathlib.Path("w"))
    return window_growth.config_of(row, 0, args, [])


def test_windows_widen_narrow_or_are_of_one_width_and_the_same_sum():
    fields = {row: flat(config_of(row)) for row in window_growth.PAPER}
    windows = {row: x["model.attention_window"] for row, x in fields.items()}
    assert windows["increasing"] == [32, 64, 128, 256]  # twice what a byte sees
    assert windows["decreasing"] == windows["increasing"][::-1]
    assert windows["dilation"] == windows["increasing"]
    assert len(set(windows["fixed"])) == 1
    assert sum(windows["fixed"]) == sum(windows["increasing"])


def test_steps_and_size_are_those_asked_for():
    made = config_of("fixed", steps=150_000, size="stage1")
    assert made.train.num_steps == 150_000
    assert made.schedule.warmup_steps == 10_000
    assert (made.model.num_layers, made.model.embed_dim) == (12, 512)
    few = config_of("fixed", steps=8)
    assert (few.train.num_steps, few.schedule.warmup_steps) == (8, 0)
    assert (few.train.eval_every_steps, few.checkpoint.every_steps) == (2, 4)


@pytest.mark.full  # trains two models
def test_a_run_is_reported_and_not_trained_again(tmp_path, run, capsys):
    file = tmp_path / "text"
    file.write_bytes(np.random.default_rng(0).bytes(2000))
    argv = [f"--file={file}", "--rows=dilation", "--seeds=4", "--steps=2"]
    argv += [f"--workdir={tmp_path / 'runs'}", *TINY]
    code, written = run(window_growth.main, *argv)
    [made] = written["runs"]
    assert code == 0 and written["steps"] == 2
    assert (made["row"], made["seed"], made["windows"]) == ("dilation", 4, [4])
    # Bytes that follow from nothing take 8 bits.
    assert 7 < made["bits"] < 20 and made["curve"][-1] == [2, made["bits"]]
    assert "(1.2)" in capsys.readouterr().out
    assert run(window_growth.main, *argv)[1]["runs"] == [made]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--file=text8", "--steps=0"], "train.num_steps"),
        (
            ["--file=nowhere", "--rows=fixed", "--steps=1", *TINY],
            "'nowhere' in data.paths matches no file",
        ),
    ],
)
def test_what_does_not_fit_is_named(argv, message, tmp_path, capsys):
    assert window_growth.main([f"--workdir={tmp_path}", *argv]) == 2
    assert message in capsys.readouterr().err
