"""A real BERT made long beside itself cut: models, inputs, runs, the table."""

import json

import bert_reference as reference
import finetuned_run
import numpy as np
import pytest

from benchmarks import finetuning_runs, long_texts
from etc_jax import convert
from etc_jax.conversion.engine import flatten
from etc_jax.conversion.formats import native
from etc_jax.models.encoder import BertConfig, LongformerConfig
from etc_jax.training.errors import RunError
from tasks.synthetic import coreference as invented_stories
from tasks.synthetic import imdb as invented_reviews
from tasks.synthetic.__main__ import write_records

HF = reference.CONFIG | {
    "vocab_size": len(finetuned_run.PIECES),
    "hidden_size": 8,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "num_hidden_layers": 1,
    "max_position_embeddings": 64,
}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with a BERT and official files."""
    folder = tmp_path_factory.mktemp("long_texts")
    arrays = reference.random_arrays(HF)
    width = HF["hidden_size"]
    arrays["bert.pooler.dense.weight"] = np.eye(width, dtype=np.float32)
    arrays["bert.pooler.dense.bias"] = np.zeros(width, np.float32)
    reference.write_folder(folder / "bert", HF, arrays)
    (folder / "bert" / "vocab.txt").write_text("\n".join(finetuned_run.PIECES))
    for name, seed in (("train", 1), ("test", 2)):
        reviews = list(invented_reviews.records(12, seed=seed))
        write_records(folder / f"{name}.jsonl.gz", reviews, lines=True)
        stories = invented_stories.records(3, seed=seed)
        invented_stories.write(stories, folder / f"{name}.conll")
    return folder


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    def run(*argv):
        if code := convert.main(argv):
            raise RunError(f"ended with {code}")

    monkeypatch.setattr(finetuning_runs, "convert", run)


def argv(here, tmp_path, task="imdb", *more):
    end = "conll" if task == "coreference" else "jsonl.gz"
    return [
        *(f"--task={task}", f"--bert={here / 'bert'}", f"--workdir={tmp_path}"),
        *(f"--train={here}/train.{end}", f"--held_back={here}/te*.{end}"),
        *("--long_length=128", "--short_length=64", "--window=16", "--seeds=0"),
        *("--steps=4", "--batch_size=8", "--config.model.attention=dense", *more),
    ]


def study(here, tmp_path, *args):
    given, changes = long_texts._parse(argv(here, tmp_path, *args))
    return long_texts.Study(given, changes, tmp_path)


@pytest.mark.slow  # trains several models
def test_runs_are_told_and_not_made_again(here, tmp_path, capsys):
    out = tmp_path / "out.json"
    arguments = [*argv(here, tmp_path), f"--out={out}"]
    assert long_texts.main(arguments) == 0
    told = capsys.readouterr().out
    runs = json.loads(out.read_text())["runs"]
    assert [run["row"] for run in runs] == ["long", "cut"]
    assert all(0 <= run["scores"]["accuracy"] <= 100 for run in runs)
    [head] = [line for line in told.splitlines() if line.startswith("row")]
    assert head.split()[:3] == ["row", "accuracy", "f1"]
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("metrics.jsonl")}
    assert long_texts.main(arguments) == 0 and len(before) == 2
    assert before == {p: p.stat().st_mtime_ns for p in before}


def test_rows_have_the_same_weights_and_their_own_lengths(here, tmp_path):
    made = study(here, tmp_path)
    long, cut = (made.config(row, 3) for row in long_texts.ROWS)
    assert isinstance(long.model, LongformerConfig)
    assert type(cut.model) is BertConfig
    assert (long.data.input_length, cut.data.input_length) == (128, 64)
    assert long.train.seed == cut.train.seed == 3
    params = [flatten(native.load(made.model(row))[0]) for row in long_texts.ROWS]
    words = "encoder/embeddings/token_embedder/embedding"
    np.testing.assert_array_equal(*(p[words] for p in params))
    longest = [made.cache(row, "train").longest["input"] for row in long_texts.ROWS]
    assert 64 < longest[0] <= 128 and longest[1] == 64


def test_mentions_are_looked_for_in_whole_texts(here, tmp_path):
    made = study(here, tmp_path, "coreference", "--singletons")
    long, cut = (made.config(row, 0) for row in long_texts.ROWS)
    assert long.data.input_length == cut.data.input_length == 128
    options = [set(x.data.input_options) for x in (long, cut)]
    assert options[1] - options[0] == {"part_length=64"}
    assert all("singletons=true" in x for x in options)


def test_a_refusal_ends_the_command(here, tmp_path, capsys):
    wrong = argv(here, tmp_path, "imdb", "--config.train.num_steps=x")
    assert long_texts.main(wrong) == 2
    assert "benchmarks.long_texts: " in capsys.readouterr().err
    missing = [f"--bert={here / 'nothing'}"]
    assert long_texts.main([*argv(here, tmp_path / "b"), *missing]) == 2
