"""Questions with options go through all commands, and are learnt above chance."""

import json
import pathlib
import re

import pytest

from etc_jax import config as config_lib
from etc_jax.cli import convert, evaluate, predict, prepare
from etc_jax.configs.own_data import multiple_choice as choice_config
from etc_jax.data.tokenizers.wordpiece import WordPieceTokenizer
from etc_jax.tasks.synthetic import multiple_choice as invented
from etc_jax.training import errors
from etc_jax.training.run import train_and_evaluate

pytestmark = [pytest.mark.usefixtures("one_device"), pytest.mark.full]
SPECIAL = ["[PAD]", *(f"[unused{i}]" for i in range(6)), "[UNK]", "[CLS]", "[SEP]"]
LENGTHS = {
    "sequence": ("--input_length=56", "--global_length=8"),
    "structured": ("--long_length=56", "--global_length=24"),
}


def articles(count, seed):
    # The options that are wrong are not in the article: it is enough to look there.
    return list(
        invented.records(count, seed=seed, sizes=invented.ChoiceSizes(hard=0.0))
    )


def write(name, values):
    pathlib.Path(name).write_text("".join(f"{json.dumps(x)}\n" for x in values))


@pytest.mark.parametrize(
    "format, variants, steps, least",
    [("sequence", "tiny", 300, 0.4), ("structured", "etc,tiny", 100, 0.9)],
)
def test_invented_questions_are_learnt_above_chance(
    format, variants, steps, least, tmp_path, monkeypatch, capsys
):
    pytest.importorskip("nupunkt")
    monkeypatch.chdir(tmp_path)
    train, dev = articles(400, 1), articles(60, 2)
    text = json.dumps(train).lower()
    pieces = [*SPECIAL, "[MASK]", *sorted({*re.findall(r"[a-z]+", text)}), ".", "?"]
    WordPieceTokenizer(pieces).save("tokenizer.json")
    write("train.jsonl", train)
    write("dev.jsonl", dev)

    def run(command, *arguments):
        assert command.main(list(map(str, arguments))) == 0, capsys.readouterr()
        return capsys.readouterr().out

    made = ("--tokenizer=tokenizer.json", f"--format={format}", "--out=prepared")
    task = ("--task=multiple_choice", "--workers=0")
    said = run(prepare, *task, *made, *LENGTHS[format], "train.jsonl")
    assert "800 windows of 800 records" in said and "nothing left out" in said
    values = choice_config.get_config(f"prepared=prepared,dev=dev.jsonl,{variants}")
    for field in ("num_steps", "eval_every_steps"):
        values.train[field] = steps
    values.checkpoint.every_steps = steps
    values.optimizer.learning_rate = 3e-3
    values.schedule.warmup_steps = 10
    config = config_lib.from_config_dict(values)
    assert config.checkpoint.best_metric == "official_accuracy"
    assert train_and_evaluate(config, "run").exit_code == errors.DONE

    run(evaluate, "--model=run", "--out=scored", "dev.jsonl")
    metrics = json.loads(pathlib.Path("scored/scores.json").read_text())["metrics"]
    # One of four would be right by chance, with a deviation of 0.04.
    assert metrics.keys() == {"accuracy"} and metrics["accuracy"] > least
    answers = json.loads(pathlib.Path("scored/predictions.json").read_text())
    asked = [question for article in dev for question in article["questions"]]
    assert list(answers) == [x["question_unique_id"] for x in asked]
    right = [answers[x["question_unique_id"]] == x["gold_label"] for x in asked]
    assert sum(right) / len(right) == pytest.approx(metrics["accuracy"])

    told = run(predict, "--model=run", "--json", "--html=page.html", "dev.jsonl")
    first = json.loads(told.splitlines()[0])
    assert first["prediction"] == answers[first["id"]]
    assert {x["text"] for x in first["candidates"]} == {*asked[0]["options"]}
    if format == "sequence":
        run(convert, "--to_hf=run", "--out=hf")
        values = json.loads(pathlib.Path("hf/config.json").read_text())
        assert values["architectures"] == ["BertForMultipleChoice"]
