"""Google's two Reformers, cut down in size: read, computed, continued, written back."""

import dataclasses
import json
import shutil

import hub_samples  # noqa: E402
import jax
import numpy as np
import pytest
from peer_models import random_model

import etc_jax
from etc_jax.cli import generate
from etc_jax.models.reformer.body import ReformerLm

pytestmark = pytest.mark.torch

# Tokens of a chunk: texts of so many are attended whole, without hashing.
CHUNK = 16
_SHARED = {
    "is_decoder": True,
    "feed_forward_size": 24,
    "lsh_attn_chunk_length": CHUNK,
    "hash_seed": 3,
}
LAYOUTS = {
    # google/reformer-enwik8: bytes from id 2 on, 128 x 512 positions.
    "enwik8": {
        **_SHARED,
        "vocab_size": 258,
        "hidden_size": 16,
        "num_attention_heads": 2,
        "attention_head_size": 8,
        "attn_layers": ["local", "local", "lsh", "local"] * 2,
        "axial_pos_shape": [4, 12],
        "axial_pos_embds_dim": [4, 12],
        "max_position_embeddings": 48,
        "local_attn_chunk_length": 8,
        "num_buckets": 8,
        "num_hashes": 4,
        "hidden_dropout_prob": 0.2,
        "local_attention_probs_dropout_prob": 0.2,
        "lsh_attention_probs_dropout_prob": 0.1,
    },
    # google/reformer-crime-and-punishment: pieces, 512 x 1024 positions. Of more than
    # its tables reach, as transformers takes them, there are no positions.
    "crime-and-punishment": {
        **_SHARED,
        "vocab_size": 90,
        "hidden_size": 12,
        "num_attention_heads": 2,
        "attention_head_size": 6,
        "attn_layers": ["local", "lsh"] * 3,
        "axial_pos_shape": [6, 8],
        "axial_pos_embds_dim": [4, 8],
        "max_position_embeddings": 4096,
        "local_attn_chunk_length": CHUNK,
        "num_buckets": [2, 4],
        "num_hashes": 1,
        "hidden_dropout_prob": 0.05,
        "local_attention_probs_dropout_prob": 0.05,
        "lsh_attention_probs_dropout_prob": 0.0,
    },
}


@pytest.fixture(params=LAYOUTS)
def folder(request, tmp_path):
    """A small random model as transformers saves it, with its tokenizer."""
    model = random_model("ReformerModelWithLMHead", 0.4, **LAYOUTS[request.param])
    model.lm_head.bias.data.zero_()  # that of lm_head.decoder is added
    model.save_pretrained(tmp_path / "model")
    if request.param != "enwik8":
        made = hub_samples.spiece(tmp_path / "tokenizer", kind="bpe")
        shutil.copy(made / "spiece.model", tmp_path / "model")
    return tmp_path / "model"


def _peer(folder):
    import transformers

    return transformers.ReformerModelWithLMHead.from_pretrained(folder).eval()


def test_logits_and_rates_are_those_of_transformers(folder, tmp_path):
    import torch

    read = etc_jax.load(folder)
    length = read.config.position_limit
    assert length == 48  # what the axial tables reach
    tokens = np.random.default_rng(1).integers(4, 80, (2, length))
    with torch.no_grad():
        want = _peer(folder)(torch.tensor(tokens)).logits.numpy()
    config = dataclasses.replace(read.config, rounding="transformers")
    torch.manual_seed(config.hash_seed)
    half = sum(config.num_buckets) // 2
    sizes = config.num_heads, config.head_dim, config.num_hashes, half
    rotations = torch.randn(*sizes).numpy()
    with jax.default_matmul_precision("highest"):
        got = ReformerLm(config).apply(
            {"params": read.params}, tokens.astype(np.int32), None, rotations
        )
    np.testing.assert_allclose(got, want, atol=1e-5 * np.abs(want).max(), rtol=0)

    read.save_pretrained(tmp_path / "back")
    with torch.no_grad():
        back = _peer(tmp_path / "back")(torch.tensor(tokens)).logits.numpy()
    np.testing.assert_array_equal(back, want)
    values, written = (
        json.loads((path / "config.json").read_text())
        for path in (folder, tmp_path / "back")
    )
    for key in LAYOUTS["enwik8"]:
        assert written[key] == values[key], key


def test_texts_are_those_of_transformers(folder, capfdbinary):
    import torch
    import transformers

    prompt, is_bytes = "a cat", not (folder / "spiece.model").exists()
    if is_bytes:
        ids = [byte + 2 for byte in prompt.encode()]
    else:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    model, count = _peer(folder), CHUNK - len(ids)
    with torch.no_grad():
        for _ in range(count):  # without its cache, which keeps what was padded
            logits = model(torch.tensor([ids]), use_cache=False).logits[0, -1]
            if is_bytes:
                logits[:2] = -torch.inf  # ids of no byte
            ids.append(int(logits.argmax()))
    options = ["--first_id=2"] if is_bytes else []
    arguments = [f"--model={folder}", f"--prompt={prompt}", f"--num_tokens={count}"]
    assert generate.main([*arguments, "--temperature=0", *options]) == 0
    written = capfdbinary.readouterr().out
    if is_bytes:
        assert written == bytes(i - 2 for i in ids[-count:])
    else:
        assert written.decode() == tokenizer.decode(ids)[len(prompt) :]
