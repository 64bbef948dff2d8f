"""The short scripts of the README, and what they need: a tiny model and some files."""

import csv
import json
import pathlib
import re
import shlex

import finetuned_run
import jax
import numpy as np
from repository import ROOT
from squad_commands_test import questions
from written_samples import write_release

from etc_jax.conversion import hugging_face
from etc_jax.data.tokenizers.hub_writing import files_of
from etc_jax.models.bert.config import BertConfig
from etc_jax.models.encoder.heads import EncoderWithoutHead

MOST_LINES = 10
TEXTS = ["the mill was built in ton", "who owned it " * 400]
LABELS = ("aa", "bb", "cc")


def block(name: str, file: str = "README.md") -> str:
    """A script as it is written."""
    text = (ROOT / file).read_text()
    [found] = re.findall(rf"<!-- test: {name} -->\n```\w+\n(.*?)```", text, re.DOTALL)
    assert found.count("\n") <= MOST_LINES
    return found


def script(name: str) -> list[list[str]]:
    """What follows `etc-jax` in the commands of a block, each split as a shell does."""
    found = []
    for line in block(name).replace("\\\n", " ").splitlines():
        command, *arguments = shlex.split(line)
        assert command == "etc-jax"
        found.append(arguments)
    return found


def write_bert(folder: pathlib.Path) -> None:
    """A folder of Hugging Face with a tiny BERT."""
    tokenizer = finetuned_run.tokenizer()
    sizes = {"embed_dim": 16, "num_layers": 1, "num_heads": 2, "mlp_dim": 16}
    model = BertConfig(vocab_size=tokenizer.vocab_size, max_length=512, **sizes)
    module = EncoderWithoutHead(model, with_pooler=True)
    tokens = np.ones((1, 4), np.int32)
    params = jax.jit(module.init)(jax.random.key(0), tokens)["params"]
    files = files_of(tokenizer, model.max_length)
    params = jax.tree.map(np.asarray, params)
    hugging_face.save(folder, params, model, files=files)


def write_files(folder: pathlib.Path) -> None:
    """What the scripts read: `TEXTS`, three labels, SQuAD's questions."""
    lines = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)
    (folder / "documents.jsonl").write_text(lines)
    for name in ("train", "dev", "test", "new"):
        with (folder / f"{name}.csv").open("w") as file:
            rows = [(f"the {x} town", x) for x in LABELS]
            csv.writer(file).writerows([("body", "topic"), *rows * 3])
    for name, number in (("train", 12), ("dev", 6), ("new", 3)):
        asked = [
            {"id": f"q{i}", "title": "", "question": q, "context": c}
            | {"answers": [{"text": a, "answer_start": c.find(a)}]}
            for i, (q, c, a) in enumerate(questions(number, 0, unanswerable=False))
        ]
        write_release(folder, asked, name)


def scores_of(folder: pathlib.Path) -> dict:
    """What `evaluate` wrote."""
    return json.loads((folder / "scores.json").read_text())
