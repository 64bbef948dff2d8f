"""The ablation of structure: its items, its rows, and the table of its runs."""

import json
import types

import numpy as np
import pytest
from etils import epath

from benchmarks import finetuning_runs, structure_ablation
from benchmarks.finetuning_runs import Spent
from benchmarks.structure_ablation import Run
from etc_jax import config as config_lib
from etc_jax.data.token_types import GLOBAL_CANDIDATE_TYPE
from etc_jax.data.windows import WindowReader
from etc_jax.training import workdir as workdir_lib

TINY = ["--items=40", "--held_back=8", "--steps=4"]


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    return tmp_path_factory.mktemp("ablation")


@pytest.fixture(scope="module")
def caches(workdir):
    return structure_ablation.make_caches(workdir / "items", 40, 8)


def one_batch(cache, *, flat=False):
    lengths = {"long_length": 128, "global_length": 32}
    reader = WindowReader(
        [cache], **lengths, batch_size=8, seed=0, evaluation=True, flat=flat
    )
    return reader.batch_at(0)


def test_an_answer_is_a_mention_in_the_document_of_the_subject():
    for item in structure_ablation.items(30, series=5):
        relation, _, subject = item["query"].partition(" ")
        assert relation == "teacher"
        [there] = [
            text
            for document in item["supports"]
            for text in document.split(". ")
            if text.lower().startswith(f"{subject} studied under")
        ]
        assert there.rstrip(".").split()[-1] == item["answer"]
        assert item["answer"] in item["candidates"]
        assert not any("_" in text for text in item["supports"])


def test_names_are_one_word_each_and_the_subject_is_unknown():
    items = list(structure_ablation.items(400, series=1))
    tokenizer = structure_ablation.word_tokenizer(items)
    names = [f"Mask{k}" for k in range(100)]
    found = [ids.tolist() for ids, _ in tokenizer.encode_batch(names)]
    assert len({ids[0] for ids in found if len(ids) == 1}) == 100
    _, _, subject = items[0]["query"].partition(" ")
    [(ids, _)] = tokenizer.encode_batch([subject])
    assert set(ids.tolist()) == {tokenizer.encode_batch(["zzz"])[0][0][0]}


def test_links_lead_from_candidates_to_mentions_unless_flat(caches):
    def linked(batch):
        candidates = batch["global_types"] == GLOBAL_CANDIDATE_TYPE
        places = np.where(candidates, np.arange(32), -2)
        links = batch["structure"].links
        return [
            len(set(row.ravel()) & set(own))
            for row, own in zip(links, places, strict=True)
        ], links.shape[-1]

    with_links, columns = linked(one_batch(caches[0]))
    assert with_links == [4] * 8 and columns == 3
    batch = one_batch(caches[0], flat=True)
    links = batch["structure"].links
    # A candidate's global token is tied to its own piece of the input alone.
    tied = np.sum((links >= 0) & (links < 4), axis=(1, 2))
    assert links.shape[-1] == 1 and list(tied) == [4] * 8


def test_rows_differ_in_what_they_say_alone(caches):
    configs = {
        row: config_lib.flat_items(
            config_lib.to_dict(
                structure_ablation.make_config(caches, row, seed=1, steps=16)
            )
        )
        for row in structure_ablation.ROWS
    }
    first = configs["structured"]
    for row, changes in structure_ablation.ROWS.items():
        differing = {k for k, v in configs[row].items() if v != first[k]}
        assert differing == set(changes), row
        assert all(configs[row][k] == v for k, v in changes.items()), row
    assert first["data.flat"] is False and first["model.hard_g2l"] is True
    assert first["train.seed"] == 1


def test_options_go_to_every_row_and_do_not_undo_it(caches):
    changes = ["--config.data.flat=False", "--config.model.radius=8"]
    config = structure_ablation.make_config(caches, "flat", 0, 16, changes)
    assert config.data.flat and config.model.radius == 8


def test_the_table_is_of_the_runs():
    runs = [
        Run("structured", 0, ((5, 20.0), (10, 90.0)), Spent(200.0, 60.0)),
        Run("structured", 1, ((5, 20.0), (10, 94.0)), Spent(200.0, 180.0)),
        Run("flat", 0, ((5, 20.0), (10, 70.0)), Spent(200.0, 60.0)),
    ]
    assert structure_ablation.lead(runs) == {0: 20.0}
    lines = structure_ablation.table(runs).splitlines()
    cells = [line.split("  ") for line in lines[2:]]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in cells]
    # Mean and standard deviation of 90 and 94, by hand.
    assert cells == [
        ["structured", "92.0 ± 2.8", "90.0", "94.0", "2.0"],
        ["flat", "70.0 ± 0.0", "70.0", "-", "1.0"],
        ["structured - flat", "20.0 ± 0.0", "+20.0", "-"],
    ]


@pytest.fixture
def trained(monkeypatch):
    """The configs that are trained; each leaves the files of a finished run."""
    seen = []

    def train(config, folder):
        seen.append(config)
        folder.mkdir(parents=True)
        workdir_lib.record(config, epath.Path(folder))
        last = 0.25 if config.data.flat else 0.5 + config.train.seed / 10
        lines = [
            {"kind": "eval", "step": 1, "accuracy": 0.2},
            {"kind": "train", "step": 2, "accuracy": 0.9},
            {"kind": "eval", "step": config.train.num_steps, "accuracy": last},
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "metrics.jsonl").write_text(text)
        return types.SimpleNamespace(exit_code=0, step=config.train.num_steps)

    monkeypatch.setattr(finetuning_runs, "train_and_evaluate", train)
    return seen


def test_every_row_is_trained_with_every_seed_once(caches, workdir, trained, capsys):
    """`caches` is made already, by the same function."""
    out = workdir / "out.json"
    argv = [f"--workdir={workdir}", "--rows=structured,flat", "--seeds=1,3", *TINY]
    assert structure_ablation.main([*argv, f"--out={out}"]) == 0
    assert [(c.data.flat, c.train.seed, c.train.num_steps) for c in trained] == [
        (False, 1, 4),
        (True, 1, 4),
        (False, 3, 4),
        (True, 3, 4),
    ]
    assert "flat, seed 3: 25.0" in capsys.readouterr().out
    runs = json.loads(out.read_text())["runs"]
    assert [run["curve"] for run in runs[:2]] == [
        [[1, 20.0], [4, 60.0]],
        [[1, 20.0], [4, 25.0]],
    ]
    assert structure_ablation.main(argv) == 0
    assert len(trained) == 4  # finished runs are not trained again
    changed = [*argv, "--config.optimizer.learning_rate=0.5"]
    assert structure_ablation.main(changed) == 2
    assert "holds a run with another config" in capsys.readouterr().err


def test_a_small_lead_is_1(caches, workdir, trained, monkeypatch):
    monkeypatch.setattr(structure_ablation, "WANTED_POINTS", 36.0)
    argv = [f"--workdir={workdir}", "--rows=structured,flat", *TINY]
    assert structure_ablation.main([*argv, "--seeds=4"]) == 0  # 90 - 25
    assert structure_ablation.main([*argv, "--seeds=1,4"]) == 1  # 60 - 25


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("--seedz=1", "'--seedz=1' is not of the form --config.A.B=VALUE"),
        ("--config.model.embed_dims=8", "did you mean 'embed_dim'?"),
    ],
)
def test_wrong_arguments_are_refused(caches, workdir, capsys, argument, says):
    argv = [f"--workdir={workdir}", "--items=40", "--held_back=8", argument]
    assert structure_ablation.main(argv) == 2
    assert says in capsys.readouterr().err


def test_an_unknown_row_is_refused(capsys):
    with pytest.raises(SystemExit):
        structure_ablation.main(["--rows=structured,flatt"])
    assert "no row 'flatt'; there are: structured, flat," in capsys.readouterr().err
