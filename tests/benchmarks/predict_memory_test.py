"""Memory of predicting: what is measured, at tiny sizes; that it is flat, at larger."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from benchmarks import long_files, predict_memory
from etc_jax.data.tokenizers.tokenizer import open_tokenizer
from etc_jax.prediction import answer_parts, runner
from etc_jax.prediction.model_files import open_model
from tasks import hotpotqa
from tasks import natural_questions as nq

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def articles(tmp_path, monkeypatch):
    """A file of three articles over and over, of different lengths."""
    monkeypatch.setattr(long_files, "DIFFERENT", 3)
    monkeypatch.setattr(long_files, "VOCABULARY_TEXTS", 3)
    monkeypatch.setattr(long_files, "article_words", lambda: [4000, 300, 9000])
    return long_files.write("natural_questions", tmp_path, 2.5)


def test_the_windows_of_all_records_are_counted(articles):
    tokenizer = open_tokenizer(articles.tokenizer)
    counts = [len(nq.features(r, tokenizer)) for r in nq.read([articles.path])]
    assert len(counts) == articles.records > 4 and len(set(counts)) == 3
    assert predict_memory.count_windows("natural_questions", articles) == sum(counts)


def test_the_model_is_one_that_predicts_at_the_lengths_of_the_paper(tmp_path):
    file = long_files.write("hotpotqa", tmp_path, 0.01)
    predict_memory.random_model("hotpotqa", file.tokenizer, tmp_path / "model")
    model = open_model(tmp_path / "model")
    runner.check(model)
    assert model.lengths == (hotpotqa.SIZES.long_length, hotpotqa.SIZES.global_length)
    assert model.config.objective.name == "hotpotqa"


def test_how_far_an_evaluation_is_are_its_parts(tmp_path):
    file = long_files.LongFile("f", "t", records=80, text_bytes=1)
    work = predict_memory.Command("evaluate", tmp_path, file)
    assert work.done_fn() == 0
    parts = answer_parts.Parts(work.out, [str(i) for i in range(80)], {})
    for part, share in ((1, 0.4), (0, 0.8)):
        answers = [answer_parts.Answer(str(i), [], None) for i in parts.numbers(part)]
        parts.write(part, answers)
        assert work.done_fn() == share


def test_how_far_a_prediction_is_are_its_lines(tmp_path):
    file = long_files.LongFile("f", "t", records=80, text_bytes=1)
    work = predict_memory.Command("predict", tmp_path, file)
    work.out.write_text("")
    for lines, share in ((8, 0.1), (0, 0.1), (32, 0.5)):
        with open(work.out, "a") as printed:
            printed.write("{}\n" * lines + "{")
        assert work.done_fn() == share


def measured(folder, *argv):
    """What the command finds, in a process of its own."""
    out = folder / "memory.json"
    command = [sys.executable, "-m", "benchmarks.predict_memory", f"--out={out}"]
    # Not on the devices of the tests, which are eight on one core.
    env = {k: x for k, x in os.environ.items() if k != "XLA_FLAGS"}
    subprocess.run(
        [*command, *argv], cwd=ROOT, env=env, check=True, capture_output=True
    )
    return json.loads(out.read_text())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")
@pytest.mark.parametrize("task", long_files.TASKS)
@pytest.mark.parametrize("command", ["evaluate", "predict"])
def test_memory_does_not_grow_with_the_file(tmp_path, command, task):
    # Of articles there must be some hundred: they differ in length.
    megabytes = {"hotpotqa": 2, "natural_questions": 300}[task]
    argv = [f"--command={command}", f"--task={task}", f"--megabytes={megabytes}"]
    got = measured(tmp_path, *argv)
    assert got["growth"] < 0.1 and 0.5 < got["share"] < 0.91
    assert got["windows"] >= got["records"] > 200
    assert len(got["peak_bytes"]) == {"evaluate": 3, "predict": 1}[command]
