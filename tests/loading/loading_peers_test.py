"""Vectors beside those of transformers, and of a real sentence-transformers model."""

import json
import re

import hub_samples  # noqa: E402
import numpy as np
import pytest
from peer_models import random_model, saved
from real_bert import package_folder  # noqa: E402

import etc_jax
from etc_jax.cli import extend
from etc_jax.generation import text_writer

pytestmark = pytest.mark.torch

_SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
}
TOKENIZERS = {
    "Bert": hub_samples.bert_json,
    "Roberta": hub_samples.roberta_json,
    "Longformer": lambda folder: hub_samples.roberta_json(folder, "longformer"),
    "BigBird": hub_samples.unigram_json,
}
MORE = {
    "Bert": {"max_position_embeddings": 128},
    # Rows of padding come before those of positions.
    "Roberta": {"max_position_embeddings": 130, "pad_token_id": 1},
    "Longformer": {
        "max_position_embeddings": 130,
        "pad_token_id": 1,
        "attention_window": [4, 8],
    },
    "BigBird": {
        "max_position_embeddings": 128,
        "block_size": 4,
        "num_random_blocks": 1,
        "attention_type": "block_sparse",
    },
}
TEXTS = ["", *("the cat said hello " * n for n in (1, 3, 9)), "a cat, 1999." * 3]


@pytest.fixture(params=TOKENIZERS)
def folder(request, tmp_path):
    """A small random model as transformers saves it, with a tokenizer."""
    transformers = pytest.importorskip("transformers")
    made = TOKENIZERS[request.param](tmp_path / "tokenizer")
    vocabulary = len(transformers.AutoTokenizer.from_pretrained(made))
    sizes = {**_SIZES, **MORE[request.param], "vocab_size": vocabulary}
    model = random_model(f"{request.param}Model", 0.3, **sizes)
    return saved(model, tmp_path / "model", made)


def states(folder, text):
    """Hidden states `[t, e]` of one text; its first token is global."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    given = tokenizer(text, return_tensors="pt")
    if "longformer" in model.config.model_type:
        first = torch.zeros_like(given["input_ids"])
        first[:, 0] = 1
        given["global_attention_mask"] = first
    with torch.no_grad():
        return model(**given).last_hidden_state[0].numpy()


def test_five_lines_give_the_vectors_of_transformers(folder):
    texts, longformer = TEXTS, str(folder)
    want = np.stack([states(folder, text).mean(axis=0) for text in TEXTS])

    import etc_jax

    model = etc_jax.load(longformer)
    vectors = model.encode(texts, pooling="mean")

    np.testing.assert_allclose(vectors, want, atol=1e-5)


def test_special_tokens_in_texts_are_those_of_transformers(folder):
    texts = ["the [SEP] cat[MASK] a", "<s>the cat </s></s> said <mask>"]
    want = np.stack([states(folder, text).mean(axis=0) for text in texts])
    model = etc_jax.load(folder)
    got = model.encode(texts, special_tokens_in_text=True)
    np.testing.assert_allclose(got, want, atol=1e-5)
    assert (np.abs(model.encode(texts) - want).max(axis=1) > 1e-3).any()


_TINY_T5 = {
    "d_model": 16,
    "d_kv": 8,
    "d_ff": 24,
    "num_layers": 1,
    "num_heads": 2,
    "decoder_start_token_id": 0,
}
_TINY_BART = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 64,
    "forced_eos_token_id": None,
}


@pytest.mark.parametrize(
    "family, files, sizes, text",
    [
        ("T5", hub_samples.t5_files, _TINY_T5, "the <extra_id_0> cat <extra_id_1> a"),
        ("Bart", hub_samples.roberta_json, _TINY_BART, "the <mask> cat said<mask>."),
    ],
)
def test_blanks_are_filled_as_by_transformers(
    tmp_path, monkeypatch, family, files, sizes, text
):
    transformers = pytest.importorskip("transformers")
    made = files(tmp_path / "tokenizer", family=family.lower())
    tokenizer = transformers.AutoTokenizer.from_pretrained(made)
    sizes = {**sizes, "vocab_size": len(tokenizer)}
    model = random_model(f"{family}ForConditionalGeneration", 0.5, **sizes)
    given = tokenizer(text, return_tensors="pt")
    want = model.generate(**given, max_new_tokens=8, num_beams=1, do_sample=False)
    ours, read = etc_jax.load(saved(model, tmp_path / "model", made)), []
    input_of = text_writer.TextWriter.input_of
    monkeypatch.setattr(
        text_writer.TextWriter,
        "input_of",
        lambda *given: read.append(input_of(*given)) or read[-1],
    )
    monkeypatch.setattr(text_writer, "written_text", lambda ids, _: str(ids.tolist()))
    [got] = ours.generate([text], num_tokens=8, special_tokens_in_text=True)
    [one] = read
    assert one.ids.tolist() == given.input_ids[0].tolist()
    assert len(want[0]) > 2 and got == str(want[0, 1:].tolist())


def test_what_is_saved_is_read_by_transformers(folder, tmp_path):
    etc_jax.load(folder).save_pretrained(tmp_path / "back")
    for text in TEXTS[:3]:
        np.testing.assert_array_equal(
            states(tmp_path / "back", text), states(folder, text)
        )


def test_the_card_names_the_class_that_reads_the_model(folder, tmp_path, monkeypatch):
    etc_jax.load(folder).save_pretrained(tmp_path / "back")
    card = (tmp_path / "back/README.md").read_text()
    (code,) = re.findall(r"```python\n(import transformers\n.*?)```", card, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    values: dict = {}
    exec(code, values)
    [name] = json.loads((folder / "config.json").read_text())["architectures"]
    assert type(values["model"]).__name__ == name


@pytest.fixture(scope="module")
def minilm():
    pytest.importorskip("torch")
    return package_folder()


SENTENCES = [
    "The dense form of attention is a special case of the sparse one.",
    "Mount Erebus, on Ross Island, was first climbed in 1908.",
    "",
]


def sentence_vectors(folder) -> np.ndarray:
    """As sentence-transformers pools the model: the mean, of length 1."""
    means = np.stack([states(folder, text).mean(axis=0) for text in SENTENCES])
    return means / np.linalg.norm(means, axis=1, keepdims=True)


def test_a_real_model_gives_the_vectors_of_its_own_pooling(minilm, tmp_path):
    model = etc_jax.load(minilm)
    assert (model.max_length, model.sentences.normalize) == (256, True)
    want = sentence_vectors(minilm)
    np.testing.assert_allclose(model.encode(SENTENCES), want, atol=1e-5)
    model.save_pretrained(tmp_path / "back")
    for name in ("modules.json", "1_Pooling/config.json", "sentence_bert_config.json"):
        ours, theirs = (
            json.loads((x / name).read_text()) for x in (tmp_path / "back", minilm)
        )
        assert ours == theirs
    np.testing.assert_allclose(sentence_vectors(tmp_path / "back"), want, atol=1e-7)


def test_a_real_model_made_long_gives_the_same_vectors(minilm, tmp_path):
    made = f"--from={minilm}", "--to=longformer", f"--out={tmp_path / 'long'}"
    assert extend.main([*made, "--max_length=1024", "--window=128"]) == 0

    model = etc_jax.load(tmp_path / "long")
    vectors = model.encode(SENTENCES, normalize=True)
    np.testing.assert_allclose(vectors, sentence_vectors(minilm), atol=1e-5)
    assert model.encode(["a long text " * 250]).shape == (1, 384)
    model.save_pretrained(tmp_path / "hf")
    back = sentence_vectors(tmp_path / "hf")
    np.testing.assert_allclose(vectors, back, atol=1e-5)
