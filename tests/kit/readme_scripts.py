"""The short scripts of the README, and what they need: a tiny model and some files."""

import csv
import json
import pathlib
import re
import shlex

import finetuned_run
import jax
import numpy as np
from random_encoder_decoders import random_params
from repository import ROOT
from squad_commands_test import questions
from written_samples import write_release

from etc_jax.conversion import hugging_face
from etc_jax.data.tokenizers.hub_writing import files_of
from etc_jax.models.bert.config import BertConfig
from etc_jax.models.encoder.heads import EncoderWithoutHead
from etc_jax.models.led.config import LedConfig
from etc_jax.tasks.synthetic import long_documents

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


def write_led(folder: pathlib.Path) -> None:
    """A folder of Hugging Face with a tiny LED."""
    tokenizer = finetuned_run.tokenizer()
    sizes = {"embed_dim": 8, "num_layers": 1, "num_heads": 2, "mlp_dim": 8}
    ends = {"eos_id": tokenizer.special_id("sep"), "pad_id": 0, "forced_bos_id": None}
    model = LedConfig(
        vocab_size=tokenizer.vocab_size,
        num_decoder_layers=1,
        max_length=4096,
        max_target_length=256,
        attention_window=(64,),
        decoder_start_id=ends["eos_id"],
        forced_eos_id=ends["eos_id"],
        **sizes,
        **ends,
    )
    files = files_of(tokenizer, model.max_length)
    hugging_face.save(folder, random_params(model, 0), model, files=files)


def write_files(folder: pathlib.Path) -> None:
    """What the scripts read: `TEXTS`, labels, SQuAD's questions, texts to sum up."""
    for name, number in (("train", 6), ("dev", 2), ("test", 3)):
        records = long_documents.records(number, seed=0)
        lines = (json.dumps(record) + "\n" for record in records)
        (folder / f"{name}.jsonl").write_text("".join(lines))
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
