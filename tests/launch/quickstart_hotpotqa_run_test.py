"""The second half of the quickstart with its real commands, on a very small model."""

import json
import os
import pathlib

import pytest
from xla_flags import xla_flags

from etc_jax import config as config_lib
from etc_jax.data.wordpiece_training import train as train_wordpiece
from etc_jax.training import errors, loop
from launch import quickstart_hotpotqa_report as hotpotqa_report
from launch.quickstart_hotpotqa import RUNS, Finetuning, made_up
from launch.quickstart_record import Workdir
from tasks import prepare
from tasks import task as task_lib
from tasks.multihop import Sizes
from tasks.synthetic.__main__ import write_records

# A minute of compiling.
pytestmark = pytest.mark.slow
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
VOCAB_SIZE = 480
# Made of three letters twice, so that none is in another.
WORDS = [2 * f"{a}{b}{c}" for a in "bdgz" for b in "aeiou" for c in "lnrs"]
MODEL = {
    "model.vocab_size": VOCAB_SIZE,
    "model.embed_dim": 16,
    "model.num_layers": 1,
    "model.num_heads": 2,
    "model.mlp_dim": 32,
    "model.radius": 8,
    "model.attention": "dense",
}


@pytest.fixture
def pretrained(tmp_path):
    """A run of one step, in place of pre-training: an encoder and a tokenizer."""
    made = list(made_up(40, seed=2, words=WORDS))
    texts = [r["question"] for r in made]
    texts += [s for r in made for _, document in r["context"] for s in document]
    tokenizer = train_wordpiece(texts, vocab_size=VOCAB_SIZE, min_char_count=1)
    write_records(tmp_path / "raw.json", made)
    sizes = Sizes(512, 96)
    task = task_lib.find("hotpotqa")
    prepare.prepare(
        task, [tmp_path / "raw.json"], tokenizer, tmp_path / "cache", sizes=sizes
    )
    values = config_lib.default_config()
    changes = {
        "objective.name": "hotpotqa",
        "data.source": "windows",
        "data.vocab_size": VOCAB_SIZE,
        "data.long_length": sizes.long_length,
        "data.global_length": sizes.global_length,
        "data.paths": (str(tmp_path / "cache"),),
        "data.held_back_paths": (str(tmp_path / "cache"),),
        "train.num_steps": 1,
        "train.batch_size": 8,
        "train.eval_steps": 1,
    }
    values.update_from_flattened_dict(MODEL | changes)
    config = config_lib.from_config_dict(values)
    result = loop.train_and_evaluate(config, tmp_path / "run")
    assert result.exit_code == errors.DONE
    return Workdir(tmp_path / "run")


def test_both_runs_are_trained_evaluated_and_compared(pretrained, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("XLA_FLAGS", xla_flags(devices=1))
    monkeypatch.setenv("JAX_PLATFORMS", os.environ.get("JAX_PLATFORMS", "cpu"))
    steps = {"train.num_steps": 2, "train.eval_every_steps": 1}
    steps |= {"train.log_every_steps": 1, "schedule.warmup_steps": 1}
    overrides = [f"--config.{path}={value}" for path, value in steps.items()]
    folder = pretrained.folder / "hotpotqa"
    half = Finetuning(folder, pretrained, overrides, records=32, dev_records=8)
    half.run()
    found = hotpotqa_report.figures(half)
    assert list(found)[2:] == ["pre-trained", "from scratch"]
    assert all(0 <= x <= 1 for values in found.values() for x in values.values())
    assert found["best constant guess"]["sp_f1"] > 0
    gold = json.loads(half.raw("dev").read_text("utf-8"))
    assert len(gold) == 8
    for name in RUNS:
        assert half.scores(name)["records"] == 8
        assert set(half.predictions(name)["answer"]) == {r["_id"] for r in gold}
        assert [x["step"] for x in half.workdir(name).metrics("eval")] == [1, 2]
    first, second = (half.workdir(n).metrics("train")[0] for n in RUNS)
    assert first["loss"] != second["loss"]  # they start from other parameters
    assert "## Questions over documents" in hotpotqa_report.section(half, found)
