"""Words with tags go through all commands, and come back in the form of their files."""

import json
import pathlib

import numpy as np
import pytest
from natural_questions_samples import write_lines
from small_run import once, prepared_here, scores_of

from etc_jax import config as config_lib
from etc_jax.cli import convert, evaluate, predict
from etc_jax.configs.own_data import token_classification as tags_config
from etc_jax.tasks.synthetic import token_classification as invented
from etc_jax.training import errors
from etc_jax.training.run import train_and_evaluate

pytest.importorskip("seqeval")
pytestmark = pytest.mark.usefixtures("one_device")
# What is tagged: a word by itself, and two words.
ENTITIES = (["town B-loc"], ["which B-org", "company I-org"])
LABELS = ["B-loc", "B-org", "I-loc", "I-org", "O"]


def sentences(number, seed):
    """Lines `word tag`, in sentences."""
    rng = np.random.default_rng(seed)
    for i in range(number):
        parts = [[f"{x} O"] for x in rng.choice(["the", "of", "a", "born"], 4)]
        parts += [ENTITIES[i % 2], ENTITIES[rng.integers(2)]]
        order = rng.permutation(len(parts))
        yield [line for k in order for line in parts[k]]


def write_conll(path, number, seed, per_document=4):
    lines = []
    for i, sentence in enumerate(sentences(number, seed)):
        lines += ["-DOCSTART- -X- O", ""] if i % per_document == 0 else []
        lines += [f"{line.split()[0]} X {line.split()[1]}" for line in sentence] + [""]
    path.write_text("\n".join(lines) + "\n")
    return path


def prepared(run, file, format="sequence", lengths=(24, 1)):
    made = ("token_classification", file)
    return prepared_here(run, *made, format=format, lengths=lengths)


def trained(arg, **changes):
    values = tags_config.get_config(arg)
    values.update_from_flattened_dict(changes)
    config = config_lib.from_config_dict(values)
    assert train_and_evaluate(config, "run").exit_code == errors.DONE
    return config


@pytest.mark.full
def test_tags_are_learnt_from_columns_and_written_as_columns(run, tmp_path):
    train = write_conll(tmp_path / "train.conll", 48, 0)
    dev = write_conll(tmp_path / "dev.conll", 8, 1)
    said = prepared(run, train)
    # Documents are longer than an input.
    assert "windows of 12 records" in said and "nothing left out" in said
    steps = once(60)
    config = trained("prepared=prepared,dev=dev.conll,tiny", **steps)
    assert config.checkpoint.best_metric == "official_f1"
    assert 'scheme="iob2"' in config.data.input_options

    run(evaluate, "--model=run", "--out=scored", dev)
    metrics = scores_of("scored")["metrics"]
    assert metrics["f1"] == metrics["macro_f1"] == metrics["accuracy"] == 1.0
    assert {"f1_loc", "precision_org", "recall_org"} <= metrics.keys()
    # Words that are all right: the column that is predicted is the last but one.
    written = (tmp_path / "scored/predicted/dev.conll").read_text().splitlines()
    for line, got in zip(dev.read_text().splitlines(), written, strict=True):
        is_word = line and not line.startswith("-DOCSTART-")
        assert got == (f"{line} {line.split()[2]}" if is_word else line)
    said = (tmp_path / "scored/predictions.jsonl").read_text().splitlines()
    assert [json.loads(x)["id"] for x in said] == ["dev.conll:1", "dev.conll:2"]

    run(convert, "--to_hf=run", "--out=hf")
    values = json.loads((tmp_path / "hf/config.json").read_text())
    assert values["architectures"] == ["BertForTokenClassification"]
    assert values["id2label"] == {str(i): x for i, x in enumerate(LABELS)}

    # Words alone are tagged too; gold tags are shown beside those that are predicted.
    new = tmp_path / "new.jsonl"
    new.write_text('{"id": "n", "tokens": ["the", "town", "of", "which", "company"]}\n')
    told = run(predict, "--model=run", "--json", "--html=page.html", new, dev)
    first, second, _ = map(json.loads, told.splitlines())
    assert first["prediction"] == [["O", "B-loc", "O", "B-org", "I-org"]]
    assert first["answer"] == "town (loc), which company (org)"
    assert "reference" not in first and second["reference"] == second["answer"]
    page = (tmp_path / "page.html").read_text()
    # A column of lines has the name, and so has one of each record with tags.
    assert page.count(">Gold<") == 3 and page.count(">Predicted<") == 4
    assert 'style="--hue:0">town<sup class="rank">loc</sup></mark>' in page
    assert 'style="--hue:180">which company<sup class="rank">org</sup>' in page
    assert "doubted" not in page.split("</style>")[1]
    run(evaluate, "--model=run", "--out=untagged", new)
    written = (tmp_path / "untagged/predicted/new.jsonl").read_text()
    assert json.loads(written)["predicted_tags"] == first["prediction"][0]
    said = run(evaluate, "--model=run", "--out=twice", dev, "x/dev.conll", code=2)
    assert "2 of the files are named dev.conll" in said


@pytest.mark.full
def test_plain_tags_of_other_words_are_known_by_their_labels(run, tmp_path):
    train = tmp_path / "train.txt"
    train.write_text("the DET\ntown NOUN\n\na DET\n")
    assert 'scheme="plain"' in prepared(run, train)
    changes = {**once(1), "schedule.warmup_steps": 1}
    config = trained("prepared=prepared,tiny", **changes)
    assert config.data.input_options[0] == 'labels=["DET", "NOUN"]'
    other = tmp_path / "other.txt"
    other.write_text("is VERB\n")
    said = run(evaluate, "--model=run", "--out=scored", other, code=2)
    assert "other.txt, record 1: 'other.txt:1' has the tag 'VERB'" in said
    run(evaluate, "--model=run", "--out=scored", train)
    names = {"accuracy", "macro_f1", "f1_DET", "f1_NOUN"}
    assert names == scores_of("scored")["metrics"].keys()


@pytest.mark.full
@pytest.mark.parametrize(
    "format, variants, lengths",
    [("sequence", "tiny", (128, 1)), ("structured", "etc,tiny", (128, 24))],
)
def test_names_of_invented_documents_are_found(format, variants, lengths, run):
    for name, count, seed in (("train", 300, 1), ("dev", 20, 2)):
        made = invented.records(count, seed=seed)
        write_lines(pathlib.Path(f"{name}.jsonl"), made)
    prepared(run, "train.jsonl", format=format, lengths=lengths)
    rate = {"optimizer.learning_rate": 5e-3}
    trained(f"prepared=prepared,dev=dev.jsonl,{variants}", **once(200), **rate)
    run(evaluate, "--model=run", "--out=scored", "dev.jsonl")
    metrics = scores_of("scored")["metrics"]
    # Without any entity it is 0; names at random places are hardly ever whole.
    assert metrics["f1"] > 0.25 and metrics["accuracy"] > 0.8
