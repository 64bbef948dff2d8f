"""The comparison of positions, at a size at which nothing is learnt."""

import numpy as np
import pytest
import tiny_text

from benchmarks.rows import position_extension

TINY = [
    "--config.model.embed_dim=8",
    "--config.model.mlp_dim=8",
    "--config.model.num_heads=2",
    "--config.model.num_layers=1",
    "--config.model.attention=dense",
    "--config.data.text_field=body",
    "--config.data.held_back_fraction=0.4",
    "--config.data.max_sentence_tokens=64",
    "--config.train.batch_size=8",
]


@pytest.fixture
def argv(tmp_path):
    tiny_text.write_rows(tmp_path / "a.jsonl")
    return [
        f"--paths={tmp_path}/*.jsonl",
        f"--workdir={tmp_path / 'runs'}",
        f"--vocab_size={tiny_text.VOCAB_SIZE}",
        *(
            "--near_steps=2",
            "--near_window=4",
            "--steps=2",
            "--more_steps=1",
            "--short_length=64",
            "--window=32",
        ),
        *("--seeds=0", *TINY),
    ]


@pytest.mark.full  # trains twice
def test_a_run_says_what_both_begin_and_end_with(argv, run, capsys):
    code, written = run(position_extension.main, *argv)
    [made] = written["runs"]
    assert code == 0
    # Nothing is learnt: masked words are guessed, from as many as there are.
    for loss in (made["short"], *made["start"].values(), *made["later"].values()):
        assert abs(loss - np.log(tiny_text.VOCAB_SIZE)) < 0.5
    assert 2 < made["entropy"] < np.log(tiny_text.VOCAB_SIZE)
    assert set(made["start"]) == set(made["later"]) == {"copy", "new"}
    assert "gap new / gap copy" in capsys.readouterr().out


def test_the_gaps_are_those_of_the_losses(argv):
    options = position_extension.parser()
    study = position_extension.prepare(*options.parse_known_args(argv))
    run = position_extension.Run(
        0, 6.0, 4.0, {"copy": 4.2, "new": 5.0}, {"copy": 4.0, "new": 4.1}, 60.0
    )
    [_, _, line] = study.table([run]).splitlines()
    assert line.split() == "0 6.000 4.000 4.200 5.000 4.000 4.100 5.0 1.0".split()
