"""T5 and LongT5 have no longest input: 312 tokens of an `n_positions` of 64."""

import hub_samples  # noqa: E402
import numpy as np
import pytest
from peer_models import random_model, saved

import etc_jax

pytestmark = pytest.mark.torch

TOKENS, POSITIONS = 312, 64
_SIZES = {
    "d_model": 16,
    "d_kv": 8,
    "d_ff": 24,
    "num_layers": 2,
    "num_heads": 2,
    "n_positions": POSITIONS,
    "decoder_start_token_id": 0,
}
MODELS = {
    "T5": {},
    "LongT5": {
        "local_radius": 5,
        "global_block_size": 4,
        "encoder_attention_type": "transient-global",
        "feed_forward_proj": "gated-gelu",
    },
}


@pytest.mark.parametrize("name", MODELS)
def test_long_texts_are_read_whole(name, tmp_path, recwarn):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    made = hub_samples.t5_files(tmp_path / "tokenizer")
    folder = tmp_path / "model"
    tokenizer = transformers.AutoTokenizer.from_pretrained(made)
    sizes = {**_SIZES, **MODELS[name], "vocab_size": len(tokenizer)}
    peer = random_model(f"{name}ForConditionalGeneration", 0.3, **sizes)
    with torch.no_grad():
        # No sentinel is the likeliest token: transformers leaves them out of texts.
        for table in (peer.shared, peer.lm_head):
            table.weight[-100:] = 0
    saved(peer, folder, made)
    # As many words as give 312 tokens, the end token among them.
    text = "the cat"
    while len(ids := tokenizer(text)["input_ids"]) < TOKENS:
        text += " said hello the cat"[: 4 + len(text) % 7]
    read = etc_jax.load(folder)
    assert read.config.max_length == POSITIONS and read.max_length is None
    with torch.no_grad():
        want = peer.get_encoder()(torch.tensor([ids])).last_hidden_state[0].numpy()
        written = peer.generate(torch.tensor([ids]), max_new_tokens=20, do_sample=False)
    states, lengths = read([text])
    assert lengths.tolist() == [len(ids)] and len(ids) >= TOKENS
    np.testing.assert_allclose(states[0], want, rtol=0, atol=1e-5 * np.abs(want).max())
    vectors = read.encode([text, "the cat"])
    np.testing.assert_allclose(vectors[0], want.mean(axis=0), rtol=0, atol=1e-5)
    # Targets have no limit either.
    [got] = read.generate([text], num_tokens=20)
    assert got == tokenizer.decode(written[0], skip_special_tokens=True)
    assert not [x for x in recwarn if "tokens that the model" in str(x.message)]
    # What is asked for is a limit all the same.
    short = etc_jax.load(folder, max_length=POSITIONS)
    with pytest.warns(
        UserWarning, match=f"1 of 1 texts have more than the {POSITIONS}"
    ):
        cut = short.encode([text])
    assert np.abs(cut[0] - want.mean(axis=0)).max() > 0.01
    # A folder for transformers says nothing of a limit either.
    read.save_pretrained(tmp_path / "back")
    back = transformers.T5Tokenizer.from_pretrained(tmp_path / "back")
    assert back.model_max_length > 10**6
    assert len(back(text, truncation=True)["input_ids"]) == len(ids)
