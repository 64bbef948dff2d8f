"""Memorising records: which ones, how, and what is reported of it."""

import json
import re
import types

import pytest

from benchmarks.kit import finetuning_runs
from benchmarks.rows import overfit
from etc_jax.data.tokenizers.wordpiece import WordPieceTokenizer
from etc_jax.data.tokenizers.wordpiece_training import SPECIAL_TOKENS
from etc_jax.datasets import task as task_lib
from etc_jax.tasks.synthetic import hotpotqa, wikihop
from etc_jax.tasks.synthetic.hotpotqa import HotpotQaSizes
from etc_jax.tasks.synthetic.wikihop import WikiHopSizes

LETTERS = [chr(c) for c in range(ord("a"), ord("z") + 1)]
PIECES = [*SPECIAL_TOKENS, *LETTERS, *(f"##{c}" for c in LETTERS), *".,?'_"]
SMALL = [
    "--config.model.embed_dim=32",
    "--config.model.mlp_dim=32",
    "--config.model.num_layers=1",
    "--config.model.scan_layers=False",
    "--config.model.attention=dense",
    "--config.train.num_steps=30",
    "--config.train.batch_size=8",
    "--config.schedule.warmup_steps=3",
    "--config.optimizer.learning_rate=0.01",
]


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    file = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    file.write_text("\n".join(PIECES))
    return file


@pytest.fixture(scope="module")
def questions():
    """Of which the second has an answer that is not in the text."""
    sizes = HotpotQaSizes(contexts=3, comparisons=0.0)
    made = list(hotpotqa.records(4, seed=1, sizes=sizes))
    made[1]["answer"] = "nowhere to be found"
    return made


def write(path, values):
    path.write_text(json.dumps(values))
    return str(path)


def test_the_first_records_that_can_be_trained_on_are_taken(questions, tmp_path):
    file = write(tmp_path / "questions.json", [{"_id": "broken"}, *questions])
    task, tokenizer = task_lib.find_task("hotpotqa"), WordPieceTokenizer(PIECES)
    chosen = overfit.choose(task, [file], tokenizer, 2)
    assert chosen == [questions[0], questions[2]]
    assert overfit.choose(task, [file], tokenizer, 3)[2] == questions[3]
    with pytest.raises(ValueError, match="3 records can be trained on, but --records"):
        overfit.choose(task, [file], tokenizer, 4)


@pytest.mark.full  # nearly a minute of compiling
def test_two_records_are_memorised(tmp_path, capsys, monkeypatch):
    sizes = WikiHopSizes(contexts=3, candidates=4, facts=2, pronouns=0.0)
    records = list(wikihop.records(3, seed=1, sizes=sizes))
    file = write(tmp_path / "queries.json", records)
    words = sorted(set(re.findall(r"\w+|[^\w\s]", json.dumps(records).lower())))
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join([*SPECIAL_TOKENS, *words]))
    argv = ["--task=wikihop", f"--tokenizer={vocabulary}", "--records=2", file, *SMALL]
    argv += [f"--workdir={tmp_path / 'run'}", f"--out={tmp_path / 'out.json'}"]
    assert overfit.main(argv) == 0
    assert "memorised, seed 0: accuracy 100.0" in capsys.readouterr().out
    shown = json.loads((tmp_path / "out.json").read_text())
    [made] = shown["runs"]
    assert (shown["records"], shown["upper_bound"]) == (2, 100.0)
    assert made["scores"]["share"] == 100.0 and made["curve"][-1][0] == 30
    # What was scored are the answers of the two records.
    folder = tmp_path / "run/memorised_seed0"
    record = json.loads((folder / "run.json").read_text())
    assert record["config"]["model"]["embed_dim"] == 32
    answers = json.loads((folder / "evaluation/predictions.json").read_text())
    assert answers == {r["id"]: r["answer"] for r in records[:2]}

    def never(*args):
        raise AssertionError("trained again")

    monkeypatch.setattr(finetuning_runs, "train_and_evaluate", never)
    assert overfit.main(argv) == 0  # what is finished is read


@pytest.mark.parametrize(
    ("share", "bound", "code"), [(0.95, 1.0, 0), (0.949, 1.0, 1), (0.932, 0.98, 0)]
)
def test_the_score_is_compared_with_the_upper_bound(
    vocabulary, questions, tmp_path, trained, monkeypatch, run, share, bound, code
):
    file = write(tmp_path / "questions.json", questions)
    trained.score_fn = lambda config: share
    best = types.SimpleNamespace(metrics={"joint_f1": bound})
    best = types.SimpleNamespace(scores=best)
    monkeypatch.setattr(overfit.Task, "upper_bound", lambda *args: best)
    argv = ["--task=hotpotqa", f"--tokenizer={vocabulary}", "--records=2", file]
    found, got = run(overfit.main, *argv, f"--workdir={tmp_path / 'run'}")
    assert found == code
    [made] = got["runs"]
    assert made["curve"][-1][0] == 20  # steps of two records
    assert made["scores"]["joint_f1"] == pytest.approx(100 * share)
    assert made["scores"]["share"] == pytest.approx(100 * share / bound)
    assert got["upper_bound"] == 100 * bound


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("--recrods=2", "'--recrods=2' is not of the form --config.A.B=VALUE"),
        ("--config.model.radios=2", "did you mean 'radius'?"),
        ("--config.train.seed.x=2", "--config.train.seed.x: seed has no fields"),
        ("--records=0", "--records is 0; expected at least 1"),
        ("--records=9", "3 records can be trained on, but --records is 9"),
    ],
)
def test_wrong_arguments_are_2(vocabulary, questions, tmp_path, capsys, argument, says):
    file = write(tmp_path / "questions.json", questions)
    argv = ["--task=hotpotqa", f"--tokenizer={vocabulary}", "--records=2", file]
    assert overfit.main([*argv, f"--workdir={tmp_path / 'run'}", argument]) == 2
    assert says in capsys.readouterr().err
