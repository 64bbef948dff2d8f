"""The second half of the quickstart with its real commands, in very few steps."""

import json
import os
import re

import pytest
from repository import ROOT
from xla_flags import xla_flags

from etc_jax.data.tokenizers.wordpiece_training import train as train_wordpiece
from etc_jax.tasks.synthetic import teachers
from launch import quickstart_pictures, quickstart_questions
from launch.quickstart_questions import RUNS, Questions
from launch.quickstart_runs import Workdir

# A minute of compiling.
pytestmark = pytest.mark.full
VOCAB_SIZE = 480


@pytest.fixture
def pretraining(tmp_path):
    """What a run of pre-training leaves that is used: a config and a tokenizer."""
    texts = [
        x for r in teachers.records(40, seed=5) for x in (r["query"], *r["supports"])
    ]
    tokenizer = train_wordpiece(texts, vocab_size=VOCAB_SIZE, min_char_count=1)
    tokenizer.save(tmp_path / "tokenizer.json")
    config = {"data": {"vocab_size": VOCAB_SIZE}}
    (tmp_path / "run.json").write_text(json.dumps({"config": config}))
    return Workdir(tmp_path)


def test_both_runs_are_trained_evaluated_and_compared(pretraining, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("XLA_FLAGS", xla_flags(devices=1))
    monkeypatch.setenv("JAX_PLATFORMS", os.environ.get("JAX_PLATFORMS", "cpu"))
    monkeypatch.setattr(
        quickstart_questions, "COUNTS", {"train": 64, "dev": 32, "shown": 2}
    )
    steps = {"train.num_steps": 2, "train.eval_every_steps": 1}
    steps |= {"train.log_every_steps": 1, "schedule.warmup_steps": 1}
    overrides = [f"--config.{path}={value}" for path, value in steps.items()]
    questions = Questions(pretraining.folder / "questions", pretraining, overrides)
    questions.run()
    gold = json.loads(questions.raw("dev").read_text("utf-8"))
    assert len(gold) == 32 and gold[:2] == questions.records()
    for name in RUNS:
        assert questions.scores(name)["records"] == 32
        answers = questions.predictions(name)
        right = [answers[record["id"]] == record["answer"] for record in gold]
        assert questions.accuracy(name) == pytest.approx(sum(right) / 32)
        assert [x["step"] for x in questions.workdir(name).metrics("eval")] == [1, 2]
    text = re.sub("<[^>]*>", "", questions.page.read_text("utf-8"))
    for record in questions.records():
        assert record["supports"][0] in " ".join(text.split())
    quickstart_pictures._draw_structure(questions, pretraining.folder / "structure.png")
    assert (pretraining.folder / "structure.png").stat().st_size > 10_000
