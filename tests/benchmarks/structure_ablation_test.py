"""The ablation of structure: its rows, its runs, and the table of them."""

import json
import types

import pytest
from etils import epath

from benchmarks import finetuning_runs, structure_ablation
from benchmarks.finetuning_runs import Spent
from benchmarks.structure_ablation import Ablation
from benchmarks.structure_items import SETS
from etc_jax import config as config_lib
from etc_jax.training import workdir as workdir_lib

TINY = ["--items=40", "--held_back=8", "--steps=4", "--pretraining_steps=2"]
WIKIHOP = SETS["wikihop"]


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    return tmp_path_factory.mktemp("ablation")


@pytest.fixture(scope="module")
def caches(workdir):
    return WIKIHOP.make_caches(workdir / "items", 40, 8)


@pytest.fixture
def ablation(caches, workdir):
    def make(changes=()):
        return Ablation(WIKIHOP, caches, workdir, 16, 8, changes)

    return make


def flat(config):
    return config_lib.flat_items(config_lib.to_dict(config))


def test_rows_differ_in_what_they_say_alone(ablation):
    configs = {row: flat(ablation().config(row, 1)) for row in structure_ablation.ROWS}
    first = configs["structured"]
    for row, changes in structure_ablation.ROWS.items():
        differing = {k for k, v in configs[row].items() if v != first[k]}
        wanted = set(changes)
        if row in structure_ablation.PRETRAINED:
            wanted |= {"checkpoint.init_from", "checkpoint.init_from_only"}
        assert differing == wanted, row
        assert all(configs[row][k] == v for k, v in changes.items()), row
    assert first["data.flat"] is False and first["model.hard_g2l"] is True
    assert first["train.seed"] == 1


def test_what_is_pre_trained_has_the_sizes_and_the_seed_of_the_run(ablation):
    with_cpc, without = (
        flat(ablation().pretraining_config(row, 3))
        for row in ("pretrained", "pretrained_no_cpc")
    )
    differing = {k for k, v in with_cpc.items() if v != without[k]}
    assert differing == {"objective.mlm_weight", "objective.cpc_weight"}
    assert with_cpc["objective.cpc_weight"] > without["objective.cpc_weight"] == 0
    run = flat(ablation().config("pretrained", 3))
    models = [k for k in run if k.startswith("model.")]
    assert models and all(run[k] == with_cpc[k] for k in models)
    assert run["train.seed"] == with_cpc["train.seed"] == 3
    assert (run["train.num_steps"], with_cpc["train.num_steps"]) == (16, 8)


def test_options_go_to_every_row_and_do_not_undo_it(ablation):
    changes = ["--config.data.flat=False", "--config.model.radius=8"]
    config = ablation(changes).config("flat", 0)
    assert config.data.flat and config.model.radius == 8
    before = ablation(changes).pretraining_config("pretrained", 0)
    assert before.model.radius == 8


@pytest.fixture
def trained(monkeypatch):
    """The configs that are trained; each leaves the files of a finished run."""
    seen = []

    def train(config, folder):
        seen.append(config)
        folder.mkdir(parents=True)
        workdir_lib.record(config, epath.Path(folder))
        last = (
            0.25
            if getattr(config.data, "flat", False)
            else 0.5 + config.train.seed / 10
        )
        lines = [
            {"kind": "eval", "step": 1, "accuracy": 0.2},
            {"kind": "train", "step": 2, "accuracy": 0.9},
            {"kind": "eval", "step": config.train.num_steps, "accuracy": last},
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "metrics.jsonl").write_text(text)
        return types.SimpleNamespace(exit_code=0, step=config.train.num_steps)

    def evaluate(argv):
        model, out, file = argv
        folder = epath.Path(model.removeprefix("--model="))
        assert file.endswith("held_back.json")
        last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
        out = epath.Path(out.removeprefix("--out="))
        out.mkdir(exist_ok=True)
        scores = {"metrics": {"accuracy": last["accuracy"]}}
        (out / "scores.json").write_text(json.dumps(scores))
        return 0

    monkeypatch.setattr(finetuning_runs, "train_and_evaluate", train)
    monkeypatch.setattr(finetuning_runs.evaluate, "main", evaluate)
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
    assert "flat, seed 3: accuracy 25.0" in capsys.readouterr().out
    runs = json.loads(out.read_text())["runs"]
    assert [(run["scores"], run["curve"]) for run in runs[:2]] == [
        ({"accuracy": 60.0}, [[1, 20.0], [4, 60.0]]),
        ({"accuracy": 25.0}, [[1, 20.0], [4, 25.0]]),
    ]
    assert structure_ablation.main(argv) == 0
    assert len(trained) == 4  # finished runs are not trained again
    changed = [*argv, "--config.optimizer.learning_rate=0.5"]
    assert structure_ablation.main(changed) == 2
    assert "holds a run with another config" in capsys.readouterr().err


def test_a_pretrained_row_starts_from_the_run_of_its_seed(caches, workdir, trained):
    argv = [f"--workdir={workdir}", "--rows=pretrained_no_cpc", "--seeds=5,6", *TINY]
    assert structure_ablation.main(argv) == 0
    assert [(c.objective.name, c.train.seed, c.train.num_steps) for c in trained] == [
        ("mlm_cpc", 5, 2),
        ("wikihop", 5, 4),
        ("mlm_cpc", 6, 2),
        ("wikihop", 6, 4),
    ]
    for before, run in (trained[:2], trained[2:]):
        seed = before.train.seed
        folder = workdir / f"pretrained_no_cpc_seed{seed}_before"
        assert run.checkpoint.init_from == str(folder)
        # What lies there is that run.
        workdir_lib.check(before, folder)
    assert structure_ablation.main(argv) == 0
    assert len(trained) == 4


def test_a_threshold_is_not_chosen_on_what_is_scored(tmp_path, monkeypatch):
    item_set = SETS["hotpotqa"]
    caches = item_set.make_caches(tmp_path / "items", 40, 8)
    monkeypatch.setattr(finetuning_runs, "train", lambda *args: Spent(1.0, 1.0))
    asked = []

    def scores(*args, threshold):
        asked.append(threshold)
        return {"joint_f1": 0.5}

    monkeypatch.setattr(finetuning_runs, "official_scores", scores)
    run = Ablation(item_set, caches, tmp_path, 4, 2).run("flat", 0)
    assert asked == [0.4]  # the paper's, appendix C.2
    assert run.scores == {"joint_f1": 50.0}


def test_an_evaluation_that_fails_ends_the_command(
    caches, workdir, trained, monkeypatch, capsys
):
    monkeypatch.setattr(finetuning_runs.evaluate, "main", lambda argv: 4)
    argv = [f"--workdir={workdir}", "--rows=shared", "--seeds=7", *TINY]
    assert structure_ablation.main(argv) == 2
    assert "shared_seed7 ended with 4" in capsys.readouterr().err


def test_a_small_lead_is_1(caches, workdir, trained, monkeypatch):
    monkeypatch.setitem(structure_ablation.WANTED_POINTS, "wikihop", 36.0)
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
    assert "['flatt'] is not among structured,flat," in capsys.readouterr().err
