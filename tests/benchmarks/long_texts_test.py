"""A real BERT made long beside itself cut: models, inputs, runs, the table."""

import numpy as np
import pytest

from benchmarks.rows import long_texts
from etc_jax.conversion.engine import flatten
from etc_jax.conversion.formats import native
from etc_jax.models.bert.config import BertConfig
from etc_jax.models.longformer.config import LongformerConfig
from etc_jax.tasks.synthetic import (
    coreference as invented_stories,
    imdb as invented_reviews,
)
from etc_jax.tasks.synthetic.maker import write_records


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with official files."""
    folder = tmp_path_factory.mktemp("long_texts")
    for name, seed in (("train", 1), ("test", 2)):
        reviews = list(invented_reviews.records(12, seed=seed))
        write_records(folder / f"{name}.jsonl.gz", reviews, lines=True)
        stories = invented_stories.records(3, seed=seed)
        invented_stories.write(stories, folder / f"{name}.conll")
    return folder


@pytest.fixture
def argv(here, tiny_bert, tmp_path, converted):
    def make(*more, task="imdb"):
        end = "conll" if task == "coreference" else "jsonl.gz"
        return [
            *(f"--task={task}", f"--bert={tiny_bert}", f"--workdir={tmp_path}"),
            *(f"--train={here}/train.{end}", f"--validation={here}/te*.{end}"),
            *("--long_length=512", "--short_length=64", "--window=16", "--seeds=0"),
            *("--steps=4", "--batch_size=8", "--config.model.attention=dense", *more),
        ]

    return make


@pytest.fixture
def texts(argv, tmp_path):
    def make(*more, **task):
        given = long_texts.COMMAND.options().parse_known_args(argv(*more, **task))
        return long_texts.Texts(*given, tmp_path)

    return make


@pytest.mark.full  # trains several models
def test_runs_are_reported_and_not_made_again(argv, run, tmp_path, capsys):
    code, written = run(long_texts.main, *argv())
    shown = capsys.readouterr().out
    assert code == 0 and [r["row"] for r in written["runs"]] == ["long", "cut"]
    assert all(0 <= r["scores"]["accuracy"] <= 100 for r in written["runs"])
    [head] = [line for line in shown.splitlines() if line.startswith("row")]
    assert head.split()[:2] == ["row", "accuracy"] and "f1" in head
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("metrics.jsonl")}
    assert long_texts.main(argv()) == 0 and len(before) == 2
    assert before == {p: p.stat().st_mtime_ns for p in before}


def test_rows_have_the_same_weights_and_their_own_lengths(texts):
    made = texts()
    long, cut = (made.config(row, 3) for row in long_texts.ROWS)
    assert isinstance(long.model, LongformerConfig)
    assert type(cut.model) is BertConfig
    assert (long.data.input_length, cut.data.input_length) == (512, 64)
    assert long.train.seed == cut.train.seed == 3
    params = [flatten(native.load(made.model(row))[0]) for row in long_texts.ROWS]
    words = "encoder/embeddings/token_embedder/embedding"
    np.testing.assert_array_equal(*(p[words] for p in params))
    longest = [made.cache(row, "train").longest["input"] for row in long_texts.ROWS]
    assert 64 < longest[0] <= 512 and longest[1] == 64


def test_mentions_are_looked_for_in_whole_texts(texts):
    made = texts("--singletons", task="coreference")
    long, cut = (made.config(row, 0) for row in long_texts.ROWS)
    assert long.data.input_length == cut.data.input_length == 512
    options = [set(x.data.input_options) for x in (long, cut)]
    assert options[1] - options[0] == {"part_length=64"}
    assert all("singletons=true" in x for x in options)


def test_a_bert_that_is_not_there_ends_the_command(argv, tmp_path, capsys):
    assert long_texts.main(argv(f"--bert={tmp_path / 'nothing'}")) == 2
    assert "benchmarks long_texts: " in capsys.readouterr().err
