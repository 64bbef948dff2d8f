"""Vectors beside transformers': documents of the lengths that are said, both sides."""

import argparse
import shutil

import hub_samples  # noqa: E402
import pytest

import etc_jax
from benchmarks.kit.harness import WrongSideError
from benchmarks.speed import encode

SIZES = encode.EncodeSizes(documents=5, shortest=8, longest=128, batch_size=2)

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small random BERT as transformers saves it."""
    transformers = pytest.importorskip("transformers")
    made = hub_samples.bert_json(tmp_path_factory.mktemp("tokenizer"))
    config = transformers.BertConfig(
        vocab_size=len(transformers.AutoTokenizer.from_pretrained(made)),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=64,
    )
    model = tmp_path_factory.mktemp("model")
    transformers.BertModel(config).save_pretrained(model)
    for path in made.iterdir():
        if path.name != "config.json":
            shutil.copy(path, model)
    return str(model)


def measure(folder, dtype="float32"):
    args = argparse.Namespace(rounds=1, platform="cpu", dtype=dtype)
    return encode.measure(args, SIZES, folder)


@pytest.mark.filterwarnings("ignore:.*were cut")
def test_both_sides_give_the_same_vectors(folder, monkeypatch):
    metrics, floors = measure(folder)
    assert [len(x) for x in metrics["seconds"].values()] == [1, 1]
    assert 0 < metrics["error"] < 1e-5
    assert metrics["compiling_seconds"] > 0
    assert [floor.limit for floor in floors] == [1.0, 1.0]
    rounded, _ = measure(folder, "bfloat16")
    assert 1e-4 < rounded["error"] < 0.03

    other = encode.TransformersEncoder.encode
    monkeypatch.setattr(
        encode.TransformersEncoder, "encode", lambda *given: other(*given) + 0.01
    )
    with pytest.raises(WrongSideError, match="vectors differs"):
        measure(folder)


def test_documents_have_the_lengths_that_are_said(folder):
    model = etc_jax.load(folder)
    texts = encode.texts_of(model, SIZES)

    def pieces(texts):
        return [len(ids) for ids, _ in model.tokenizer.encode_batch(texts)]

    # A boundary lies behind a whole word.
    longest = max(pieces([word for text in texts for word in text.split()]))
    for length, want in zip(sorted(pieces(texts)), (8, 16, 32, 64, 128), strict=True):
        assert abs(length - want) <= longest
    assert abs(sum(pieces(texts)) - 248) <= longest
