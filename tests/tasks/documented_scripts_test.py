"""The short scripts of docs/finetuning.md do what they say, with a tiny model."""

import csv
import json
import pathlib
import re
import shlex

import finetuned_run
import jax
import numpy as np
import programs
import pytest
from score_packages import require_for
from squad_commands_test import questions
from written_samples import write_release

from etc_jax.conversion import hugging_face
from etc_jax.data.tokenizers.hub_writing import files_of
from etc_jax.models.encoder_config import BertConfig
from etc_jax.models.encoder_heads import EncoderWithoutHead

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_LINES = 10


def script(name: str) -> list[list[str]]:
    """The commands of a block, each split as a shell does it."""
    text = (ROOT / "docs/finetuning.md").read_text()
    [block] = re.findall(rf"<!-- test: {name} -->\n```sh\n(.*?)```", text, re.DOTALL)
    assert block.count("\n") <= MOST_LINES
    return [shlex.split(x) for x in block.replace("\\\n", " ").splitlines()]


@pytest.fixture
def run(tmp_path):
    """Runs a script in a folder with a model; gives what each command prints."""
    tokenizer = finetuned_run.tokenizer()
    sizes = {"embed_dim": 16, "num_layers": 1, "num_heads": 2, "mlp_dim": 16}
    model = BertConfig(vocab_size=tokenizer.vocab_size, max_length=512, **sizes)
    module = EncoderWithoutHead(model, with_pooler=True)
    tokens = np.ones((1, 4), np.int32)
    params = jax.jit(module.init)(jax.random.key(0), tokens)["params"]
    files = files_of(tokenizer, model.max_length)
    params = jax.tree.map(np.asarray, params)
    hugging_face.save(tmp_path / "bert", params, model, files=files)

    def run(name):
        printed = []
        for command, *arguments in script(name):
            assert command == "etc-jax"
            done = programs.run("etc_jax", *arguments, cwd=tmp_path, timeout=500)
            assert done.returncode == 0, (arguments, done.stdout, done.stderr)
            printed.append(done.stdout)
        return printed

    return run


@pytest.mark.slow
def test_a_file_of_squad_is_learnt_in_ten_lines(run, tmp_path):
    for name, number in (("train", 12), ("dev", 6), ("new", 3)):
        asked = [
            {"id": f"q{i}", "title": "", "question": q, "context": c}
            | {"answers": [{"text": a, "answer_start": c.find(a)}]}
            for i, (q, c, a) in enumerate(questions(number, 0, unanswerable=False))
        ]
        write_release(tmp_path, asked, name)
    *_, told = run("squad")
    assert told.count("question") == 3 and (tmp_path / "answers.html").is_file()
    scores = json.loads((tmp_path / "runs/squad/dev/scores.json").read_text())
    assert scores["metrics"].keys() == {"exact_match", "f1"}


@pytest.mark.slow
def test_a_csv_with_three_labels_is_learnt_in_ten_lines(run, tmp_path):
    require_for("classification")
    for name in ("train", "dev", "test", "new"):
        with (tmp_path / f"{name}.csv").open("w") as file:
            labels = [(f"the {x} town", x) for x in ("aa", "bb", "cc")]
            csv.writer(file).writerows([("body", "topic"), *labels * 3])
    *_, told = run("labels")
    assert told.count("Text") == 0 and all(x in told for x in ("aa", "bb", "cc"))
    scores = json.loads((tmp_path / "runs/topics/test/scores.json").read_text())
    assert scores["records"] == 9
