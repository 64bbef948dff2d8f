"""Questions of one's own go through all commands, and so does SQuAD 2.0's form."""

import csv
import io
import json

import numpy as np
import pytest
from small_run import once, prepared_here, scores_of
from written_samples import write_release

from etc_jax import config as config_lib
from etc_jax.cli import convert, evaluate, predict
from etc_jax.configs.own_data import squad as squad_config
from etc_jax.prediction import answering
from etc_jax.tasks.synthetic.__main__ import main as make_synthetic
from etc_jax.training import errors
from etc_jax.training.run import train_and_evaluate

pytestmark = pytest.mark.usefixtures("one_device")
COLUMNS = ("--question_column=q", "--context_column=text", "--answer_column=a")
LENGTHS = {"sequence": (20, 3), "structured": (20, 8)}
# Contexts of so many words are two windows or three.
SHORT = ("--question_tokens=2", "--stride=8")


def questions(number, seed, unanswerable=True):
    """(question, context, answer): the number in it, if there is one."""
    rng = np.random.default_rng(seed)
    for i in range(number):
        words = list(rng.choice(["the", "of", "a", "in", "born", "town"], 22))
        answer = "" if unanswerable and i % 3 == 0 else str(rng.integers(10))
        if answer:
            words[rng.integers(22)] = answer
        yield "which", " ".join(words), answer


def write_csv(path, values):
    file = io.StringIO()
    rows = [(q, c, a, c.find(a) if a else "") for q, c, a in values]
    csv.writer(file).writerows([("q", "text", "a", "answer_start"), *rows])
    path.write_text(file.getvalue())
    return path.name


def release(folder, values, name):
    """The same as an official file."""
    asked = []
    for i, (question, context, answer) in enumerate(values):
        given = [{"text": answer, "answer_start": context.find(answer)}]
        value = {"id": f"q{i}", "title": "", "question": question, "context": context}
        found = {"answers": given if answer else [], "is_impossible": not answer}
        asked.append(value | found)
    return write_release(folder, asked, name).name


def prepared(run, file, *flags, format="sequence"):
    made = ("squad", file, *SHORT, *flags)
    return prepared_here(run, *made, format=format, lengths=LENGTHS[format])


def config_of(arg, num_steps=80):
    values = squad_config.get_config(arg)
    values.optimizer.learning_rate = 3e-3
    values.update_from_flattened_dict(once(num_steps))
    return config_lib.from_config_dict(values)


@pytest.mark.parametrize(
    "format, family",
    [
        ("structured", "etc"),
        *(("sequence", x) for x in ("bert", "longformer", "roberta", "big_bird")),
    ],
)
@pytest.mark.full
def test_spans_of_a_csv_and_no_answer_are_learnt(format, family, run, tmp_path):
    train = write_csv(tmp_path / "train.csv", questions(120, 0))
    said = prepared(run, train, *COLUMNS, format=format)
    assert "of 120 records of squad" in said and "nothing left out" in said
    assert "unanswerable=true" in said
    dev = release(tmp_path, questions(18, 1), "dev")
    steps = 80 if family == "bert" else 160
    config = config_of(f"prepared=prepared,dev={dev},{family},tiny", steps)
    assert config.checkpoint.best_metric == "official_best_f1"
    assert train_and_evaluate(config, "run").exit_code == errors.DONE

    told = run(evaluate, "--model=run", "--out=scored", dev)
    scores = scores_of("scored")
    metrics, best = scores["metrics"], scores["best_thresholds"]
    assert metrics["best_f1"] == metrics["best_exact"] == 1.0
    assert f"best thresholds: null_threshold {best['null_threshold']:.4g}" in told
    odds = json.loads((tmp_path / "scored/null_odds.json").read_text())
    nbest = json.loads((tmp_path / "scored/nbest_predictions.json").read_text())
    assert odds.keys() == nbest.keys() == {f"q{i}" for i in range(18)}

    # With the threshold that was found, the answers are those of the best score.
    found = ("--model=run", "--thresholds=scored")
    run(evaluate, *found, "--out=again", dev)
    answers = json.loads((tmp_path / "again/predictions.json").read_text())
    assert answers == {f"q{i}": a for i, (_, _, a) in enumerate(questions(18, 1))}
    again = scores_of("again")
    assert again["metrics"]["f1"] == again["metrics"]["NoAns_exact"] == 1.0
    assert again["options"]["null_threshold"] == best["null_threshold"]

    run(convert, "--export=run", "--out=model")
    new = write_csv(tmp_path / "new.csv", questions(6, 2))
    flags = ("--model=model", "--thresholds=scored", "--json", "--html=page.html")
    lines = [json.loads(x) for x in run(predict, *flags, new).splitlines()]
    assert [x["answer"] for x in lines] == [a for _, _, a in questions(6, 2)]
    assert "<mark" in (tmp_path / "page.html").read_text()


def test_files_in_which_all_is_answered_ask_for_no_threshold(run, tmp_path):
    train = release(tmp_path, questions(8, 0, unanswerable=False), "train")
    assert "unanswerable" not in prepared(run, train)
    config = config_of(f"prepared=prepared,dev={train},bert,tiny")
    assert config.checkpoint.best_metric == "official_f1"
    assert config.data.input_options == ("question_tokens=2", "stride=8")


@pytest.mark.parametrize(
    "text, said",
    [
        (None, "scores.json has no best_thresholds"),
        ("{}", "scores.json has no best_thresholds"),
        ('{"best_thresholds": {"long": 1.5}}', "has long, none of which is an option"),
    ],
)
def test_thresholds_of_something_else_are_refused(tmp_path, text, said):
    if text is not None:
        (tmp_path / "scores.json").write_text(text)
    with pytest.raises(errors.UserError, match=said):
        answering.best_thresholds(tmp_path, {"null_threshold"})


def test_invented_questions_without_an_answer_are_those_of_squad_2(tmp_path):
    out = tmp_path / "made.json"
    flags = ("--task=squad", "--count=3", "--facts=2", f"--out={out}")
    assert make_synthetic([*flags, "--unanswerable=2"]) == 0
    articles = json.loads(out.read_text())["data"]
    for article in articles:
        [paragraph] = article["paragraphs"]
        kinds = [bool(q["answers"]) for q in paragraph["qas"]]
        assert kinds == [True, True, False, False]
        assert [q.get("is_impossible", False) for q in paragraph["qas"]] == [
            not kind for kind in kinds
        ]
        things = [q["question"].split()[3] for q in paragraph["qas"]]
        told = [f"the {thing} of" in paragraph["context"] for thing in things]
        assert told == kinds and len({*things}) == 4
    assert make_synthetic([*flags, "--unanswerable=5", "--overwrite"]) == 2
