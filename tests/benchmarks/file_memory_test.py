"""Memory over long files: what is measured, and that it does not grow with them."""

import json
import os
import subprocess
import sys

import pytest

from benchmarks.data import long_files
from benchmarks.kit.memory import ROOT
from benchmarks.memory import file_memory
from etc_jax.data.tokenizers.tokenizer import open_tokenizer
from etc_jax.prediction import answer_parts, runner
from etc_jax.prediction.model_files import open_model
from etc_jax.tasks import hotpotqa, natural_questions as nq

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="looks at processes in /proc"
)


def measured(folder, *argv):
    """(what a command finds, what it prints), in a process of its own."""
    out = folder / "memory.json"
    command = [sys.executable, "-m", "benchmarks", "file_memory", f"--out={out}", *argv]
    # Not on the devices of the tests, which are eight on one core.
    env = {k: x for k, x in os.environ.items() if k != "XLA_FLAGS"}
    how = {"cwd": ROOT, "env": env, "check": True, "capture_output": True}
    done = subprocess.run(command, text=True, **how)
    print(done.stdout)  # of interest with -s
    return json.loads(out.read_text()), done.stdout


@pytest.mark.full
def test_peaks_are_those_of_all_processes(tmp_path):
    argv = ("--command=prepare", "--megabytes=0.2")
    got, text = measured(tmp_path, *argv)
    peaks = got["peak_bytes"]
    # This one, a worker, and the helper that multiprocessing starts.
    assert len(peaks) == 3 and "self" in peaks
    assert sum(x > 50 * 2**20 for x in peaks.values()) == 2
    assert got["task"] == "hotpotqa" and got["growth"] >= 0
    assert got["records"] == got["windows"] > 20
    rate = got["records"] / got["secs"]
    assert f"{got['records']} records" in text and f"{rate:.1f} records/s" in text


@pytest.fixture
def articles(tmp_path, monkeypatch):
    """A file of three articles over and over, of different lengths."""
    monkeypatch.setattr(long_files, "DIFFERENT", 3)
    monkeypatch.setattr(long_files, "VOCABULARY_TEXTS", 3)
    monkeypatch.setattr(long_files, "article_words", lambda: [4000, 300, 9000])
    return long_files.write("natural_questions", tmp_path, 2.5)


def test_the_windows_of_all_records_are_counted(articles):
    tokenizer = open_tokenizer(articles.tokenizer)
    counts = [
        len(nq.inputs.features(r, tokenizer)) for r in nq.records.read([articles.path])
    ]
    assert len(counts) == articles.records > 4 and len(set(counts)) == 3
    assert file_memory.count_windows("natural_questions", articles) == sum(counts)


def test_the_model_is_one_that_predicts_at_the_lengths_of_the_paper(tmp_path):
    file = long_files.write("hotpotqa", tmp_path, 0.01)
    file_memory.random_model("hotpotqa", file.tokenizer, tmp_path / "model")
    model = open_model(tmp_path / "model")
    runner.check(model)
    assert model.lengths == (
        hotpotqa.inputs.SIZES.long_length,
        hotpotqa.inputs.SIZES.global_length,
    )
    assert model.config.objective.name == "hotpotqa"


def test_reports_are_read_by_a_model_that_writes(tmp_path):
    file = long_files.write("text_to_text", tmp_path, 0.1)
    assert (file.records, file_memory.count_windows("text_to_text", file)) == (2, 2)
    file_memory.random_model("text_to_text", file.tokenizer, tmp_path / "model")
    model = open_model(tmp_path / "model")
    runner.check(model)
    assert (model.config.family, model.lengths) == ("led", (16384, 64))
    assert model.config.objective.generation.num_beams == 2


FILE = long_files.LongFile("f", "t", records=80, text_bytes=1)


def test_how_far_an_evaluation_is_are_its_parts(tmp_path):
    work = file_memory.Answering("evaluate", tmp_path, FILE)
    assert work.done_fn() == 0
    parts = answer_parts.Parts(work.out, [str(i) for i in range(80)], {})
    for part, share in ((1, 0.4), (0, 0.8)):
        answers = [answer_parts.Answer(str(i), [], None) for i in parts.numbers(part)]
        parts.write(part, answers)
        assert work.done_fn() == share


def test_how_far_a_prediction_is_are_its_lines(tmp_path):
    work = file_memory.Answering("predict", tmp_path, FILE)
    work.out.write_text("")
    for lines, share in ((8, 0.1), (0, 0.1), (32, 0.5)):
        with open(work.out, "a") as printed:
            printed.write("{}\n" * lines + "{")
        assert work.done_fn() == share


# Of articles there must be some hundred: they differ in length. What is packed is
# unpacked by one function for all data sets. What a file leaves behind grows with it:
# of a small file it must be little.
@pytest.mark.full
@pytest.mark.parametrize(
    ("task", "megabytes", "more"),
    [("hotpotqa", 40, ()), ("natural_questions", 240, ("--gzip",))],
    ids=["an array", "packed lines"],
)
def test_memory_of_preparing_does_not_grow_with_the_file(
    tmp_path, task, megabytes, more
):
    argv = (f"--task={task}", f"--megabytes={megabytes}", "--workers=2", *more)
    got, _ = measured(tmp_path, "--command=prepare", *argv)
    assert got["growth"] < 0.04
    assert (got["bytes"] < got["text_bytes"] / 2) == bool(more)


@pytest.mark.full
@pytest.mark.parametrize(
    ("task", "megabytes"), [("hotpotqa", 2), ("natural_questions", 240)]
)
@pytest.mark.parametrize(("command", "processes"), [("evaluate", 3), ("predict", 1)])
def test_memory_of_answering_does_not_grow_with_the_file(
    tmp_path, command, processes, task, megabytes
):
    argv = (f"--command={command}", f"--task={task}", f"--megabytes={megabytes}")
    got, _ = measured(tmp_path, *argv)
    assert got["growth"] < 0.1 and 0.5 < got["share"] < 0.91
    assert got["windows"] >= got["records"] > 200
    assert len(got["peak_bytes"]) == processes
