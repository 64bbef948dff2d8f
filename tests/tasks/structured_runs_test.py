"""Data sets of one text or some documents for ETC: raw files to official scores."""

import json

import classification_samples
import pytest
import triviaqa_samples
from multihop_samples import tokenizer
from natural_questions_samples import write_lines

from etc_jax import config as config_lib
from etc_jax import evaluate, predict, prepare
from etc_jax.training import errors, loop

pytest.importorskip("nupunkt")
WORDS = "the old mill stands . it is a town . lee built the mill".split()
LENGTHS = (48, 24)


def text(i: int) -> str:
    """Six sentences, of which the first has the label, or the answer."""
    name = ("ann", "lee", "owner", "baker")[i % 4]
    return " ".join(["The", name, "was", ("north", "south")[i % 2], ".", *WORDS * 2])


def triviaqa(folder):
    """Questions with one document each."""
    values = [
        {
            "Question": "Who was it?",
            "QuestionId": f"tc_{i}",
            "Answer": {"NormalizedAliases": [text(i).split()[1]]},
            "Documents": [{"Filename": f"{i}.txt", "Text": text(i)}],
        }
        for i in range(8)
    ]
    return triviaqa_samples.release_of(folder, values), values


def imdb(folder):
    """Reviews in the folders of the release."""
    folders = ("neg", "pos")
    texts = {f"{folders[i % 2]}/{i}_{1 + 8 * (i % 2)}.txt": text(i) for i in range(8)}
    names = [name.removesuffix(".txt") for name in texts]
    values = [
        {"id": f"train/{name}", "text": t}
        for name, t in zip(names, texts.values(), strict=True)
    ]
    return classification_samples.aclimdb(folder, texts), values


def hyperpartisan(folder):
    """Articles in XML, and beside them the truth."""
    labels, names = ("false", "true"), [f"{i:07}" for i in range(8)]
    articles, truth = [], []
    for i, name in enumerate(names):
        inside = f"<p>{text(i)}</p>"
        articles.append(classification_samples.article_xml(name, inside))
        truth.append(classification_samples.truth_xml(name, labels[i % 2]))
    values = [{"id": n, "title": "T", "text": text(i)} for i, n in enumerate(names)]
    return classification_samples.release(folder, articles, truth), values


def config_of(task, cache):
    values = config_lib.default_config()
    small = {
        "model.vocab_size": tokenizer().vocab_size,
        "model.embed_dim": 16,
        "model.num_heads": 2,
        "model.mlp_dim": 32,
        "model.num_layers": 1,
        "model.radius": 11,
        "model.max_distance": 8,
        "model.num_labels": 24,
        "model.attention": "dense",
        "model.dropout_rate": 0.0,
        "model.attention_dropout_rate": 0.0,
        "model.initializer_range": 0.2,
        "objective.name": task,
        "data.source": "windows",
        "data.paths": (cache,),
        "data.held_back_paths": (cache,),
        "data.vocab_size": tokenizer().vocab_size,
        "data.long_length": LENGTHS[0],
        "data.global_length": LENGTHS[1],
        "optimizer.learning_rate": 1e-2,
        "schedule.warmup_steps": 2,
        "train.batch_size": 8,
        "train.num_steps": 30,
        "train.eval_every_steps": 10,
        "checkpoint.every_steps": 30,
    }
    values.update_from_flattened_dict(small)
    return config_lib.from_config_dict(values)


@pytest.mark.parametrize(
    "make, measure",
    [(triviaqa, "f1"), (imdb, "accuracy"), (hyperpartisan, "f1")],
    ids=["triviaqa", "imdb", "hyperpartisan"],
)
def test_it_learns_what_the_raw_files_say(make, measure, tmp_path, capsys):
    task = make.__name__
    path, values = make(tmp_path)
    tokenizer().save(tmp_path / "tokenizer.json")
    cache, run, out = (str(tmp_path / name) for name in ("cache", "run", "dev"))
    lengths = (f"--long_length={LENGTHS[0]}", f"--global_length={LENGTHS[1]}")
    status = prepare.main(
        [
            *(f"--task={task}", "--format=structured", f"--out={cache}", *lengths),
            *(f"--tokenizer={tmp_path / 'tokenizer.json'}", "--workers=0", str(path)),
        ]
    )
    assert status == 0 and "nothing left out" in capsys.readouterr().out
    result = loop.train_and_evaluate(config_of(task, cache), run)
    assert result.exit_code == errors.DONE
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    losses = [x["loss"] for x in map(json.loads, lines) if x["kind"] == "eval"]
    assert len(losses) == 3 and losses[-1] < 0.5 * losses[0]

    assert evaluate.main([f"--model={run}", f"--out={out}", str(path)]) == 0
    scores = json.loads((tmp_path / "dev" / evaluate.SCORES).read_text())
    assert scores["task"] == task and scores["metrics"][measure] == 1.0
    capsys.readouterr()
    asked = write_lines(tmp_path / "asked.jsonl", values[:2])
    assert predict.main([f"--model={run}", "--json", str(asked)]) == 0
    answers = [json.loads(x) for x in capsys.readouterr().out.splitlines()]
    official = json.loads((tmp_path / "dev" / "predictions.json").read_text())
    assert len(answers) == 2
    assert all(official[a["id"]] == a["answer"] for a in answers)
