"""Questions with options go through all commands, and are learnt above chance."""

import json
import pathlib
import re

import pytest
from finetuned_run import SPECIAL
from natural_questions_samples import write_lines
from small_run import once, prepared_here, scores_of

from etc_jax import config as config_lib
from etc_jax.cli import convert, evaluate, predict
from etc_jax.configs.own_data import multiple_choice as choice_config
from etc_jax.data.tokenizers.wordpiece import WordPieceTokenizer
from etc_jax.tasks.synthetic import multiple_choice as invented
from etc_jax.training import errors
from etc_jax.training.run import train_and_evaluate

pytestmark = [pytest.mark.usefixtures("one_device"), pytest.mark.full]
LENGTHS = {"sequence": (56, 8), "structured": (56, 24)}


def articles(count, seed):
    # The options that are wrong are not in the article: it is enough to look there.
    return list(
        invented.records(count, seed=seed, sizes=invented.ChoiceSizes(hard=0.0))
    )


@pytest.mark.parametrize(
    "format, variants, steps, least",
    [("sequence", "tiny", 300, 0.4), ("structured", "etc,tiny", 100, 0.9)],
)
def test_invented_questions_are_learnt_above_chance(
    format, variants, steps, least, run
):
    pytest.importorskip("nupunkt")
    train, dev = articles(400, 1), articles(60, 2)
    text = json.dumps(train).lower()
    pieces = [*SPECIAL, "[MASK]", *sorted({*re.findall(r"[a-z]+", text)}), ".", "?"]
    WordPieceTokenizer(pieces).save("tokenizer.json")
    for name, values in (("train", train), ("dev", dev)):
        write_lines(pathlib.Path(f"{name}.jsonl"), values)
    made = ("multiple_choice", "train.jsonl")
    said = prepared_here(run, *made, format=format, lengths=LENGTHS[format])
    assert "800 windows of 800 records" in said and "nothing left out" in said
    values = choice_config.get_config(f"prepared=prepared,dev=dev.jsonl,{variants}")
    values.update_from_flattened_dict(once(steps))
    values.optimizer.learning_rate = 3e-3
    values.schedule.warmup_steps = 10
    config = config_lib.from_config_dict(values)
    assert config.checkpoint.best_metric == "official_accuracy"
    assert train_and_evaluate(config, "run").exit_code == errors.DONE

    run(evaluate, "--model=run", "--out=scored", "dev.jsonl")
    metrics = scores_of("scored")["metrics"]
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
