"""The short scripts of the README do what they say, with a tiny model."""

import csv
import json
import pathlib
import re
import shlex

import finetuned_run
import jax
import jax.numpy as jnp
import numpy as np
import programs
import pytest
from flax import linen, nnx
from score_packages import require_for
from squad_commands_test import questions
from written_samples import write_release

from etc_jax.conversion import hugging_face
from etc_jax.data.tokenizers.hub_writing import files_of
from etc_jax.models.encoder_config import BertConfig
from etc_jax.models.encoder_heads import EncoderWithoutHead
from etc_jax.ops.attention import sliding_window

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_LINES = 10


def block(name: str, file: str = "README.md") -> str:
    """A script as it is written."""
    text = (ROOT / file).read_text()
    [found] = re.findall(rf"<!-- test: {name} -->\n```\w+\n(.*?)```", text, re.DOTALL)
    assert found.count("\n") <= MOST_LINES
    return found


def script(name: str) -> list[list[str]]:
    """The commands of a block, each split as a shell does it."""
    text = block(name).replace("\\\n", " ")
    return [shlex.split(x) for x in text.splitlines()]


@pytest.mark.parametrize("name", ["labels", "squad"])
def test_a_script_is_the_same_in_the_documentation(name):
    assert block(name) == block(name, "docs/finetuning.md")


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


def test_a_model_is_made_long_and_encodes(run, tmp_path, monkeypatch):
    texts = ["the mill was built in ton", "who owned it " * 400]
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    (tmp_path / "documents.jsonl").write_text(lines)
    run("extend")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "long").rename("longformer")
    found = {"texts": texts}
    exec(block("encode"), found)
    vectors = np.load("vectors.npy")
    assert vectors.shape == (2, 16) and found["model"].max_length == 4096
    np.testing.assert_allclose(found["vectors"], vectors, atol=1e-5)
    # A short text as the BERT reads it.
    short = found["etc_jax"].load("bert").encode(texts[:1])
    np.testing.assert_allclose(vectors[:1], short, atol=1e-5)


def attention_of(name):
    """The class of a block."""
    given = {"nn": linen, "nnx": nnx, "jnp": jnp, "sliding_window": sliding_window}
    exec(block(name), given)
    return given["LocalAttention"]


def test_attention_stands_in_modules_of_linen_and_of_nnx():
    x = jax.random.normal(jax.random.key(1), (2, 600, 16))
    module = attention_of("linen")()
    made = jax.jit(module.init)(jax.random.key(0), x)
    params = made["params"]
    want = jax.jit(module.apply)(made, x)

    other = attention_of("nnx")(16, nnx.Rngs(0))
    layers = {"DenseGeneral_0": other.heads, "DenseGeneral_1": other.out}
    for name, layer in layers.items():
        of = params[name]
        layer.kernel[...], layer.bias[...] = of["kernel"], of["bias"]
    np.testing.assert_allclose(nnx.jit(other)(x), want, atol=1e-5)

    # Each of all pairs, by hand.
    heads = jnp.einsum("bne,eshd->sbnhd", x, params["DenseGeneral_0"]["kernel"])
    query, key, value = heads + params["DenseGeneral_0"]["bias"][:, None, None]
    logits = jnp.einsum("bqhd,bkhd->bhqk", query, key) / 2
    place = np.arange(600)
    near = jnp.asarray(abs(place[:, None] - place) <= 256)
    weights = jax.nn.softmax(jnp.where(near[None, None], logits, -jnp.inf))
    seen = jnp.einsum("bhqk,bkhd->bqhd", weights, value)
    of = params["DenseGeneral_1"]
    got = jnp.einsum("bnhd,hde->bne", seen, of["kernel"]) + of["bias"][None, None]
    np.testing.assert_allclose(got, want, atol=1e-5)


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
    assert told.startswith("3 records answered\n")
    assert (tmp_path / "answers.html").read_text().count("<article") == 3
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
