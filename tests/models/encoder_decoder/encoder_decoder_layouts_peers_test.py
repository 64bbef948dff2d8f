"""Live models of transformers, renamed by hand: the same logits in float64."""

from __future__ import annotations

import argparse
import dataclasses
import json

import double_precision
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from etc_jax.conversion import hugging_face
from etc_jax.data.pretraining.global_tokens import global_index
from etc_jax.models.bart import fairseq as fairseq_bart
from etc_jax.models.encoder_decoder.body import EncoderDecoder

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("float64")]

TOLERANCE = 1e-9
SIZES = {
    "vocab_size": 23,
    "d_model": 12,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 10,
    "decoder_ffn_dim": 7,
    "activation_function": "gelu",
    "init_std": 0.4,
}
TOKENS = np.random.default_rng(0).integers(4, 23, (2, 21))
TARGETS = np.random.default_rng(1).integers(4, 23, (2, 7))


def live(name: str, **sizes):
    """A random model of transformers, with norms and biases that are not trivial."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = getattr(transformers, f"{name}Config")(**SIZES, **sizes)
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    model = getattr(transformers, f"{name}ForConditionalGeneration")(config).eval()
    with torch.no_grad():
        for name, x in model.named_parameters():
            if name.endswith("bias") or "norm" in name:
                x.add_(torch.randn_like(x) * 0.3)
    return model


def theirs(model, **inputs):
    """Its logits, computed in float64."""
    torch = pytest.importorskip("torch")
    inputs = {"input_ids": TOKENS, "decoder_input_ids": TARGETS, **inputs}
    with double_precision.theirs(), torch.no_grad():
        out = model.double()(**{k: torch.tensor(x) for k, x in inputs.items()})
    return out.logits.numpy()


def ours(config, params, is_global=None):
    model = EncoderDecoder(dataclasses.replace(config, dtype="float64"))
    params = jax.tree.map(lambda x: np.asarray(x, np.float64), params)
    index = None if is_global is None else global_index(is_global)
    mask = jnp.ones(TOKENS.shape, jnp.int32)
    inputs = jnp.asarray(TOKENS), jnp.asarray(TARGETS), mask, None, index
    return np.asarray(jax.jit(model.apply)({"params": params}, *inputs))


def test_a_bart_of_fairseq_gives_the_logits_of_the_live_model(tmp_path):
    torch = pytest.importorskip("torch")
    model = live("Bart", max_position_embeddings=30)
    weights = {
        name.removeprefix("model."): x.clone()
        for name, x in model.model.state_dict().items()
    }
    # fairseq has a table on each side and one for the logits, and no common one.
    weights["decoder.output_projection.weight"] = weights.pop("shared.weight")
    weights["encoder.version"] = weights["decoder.version"] = torch.tensor([3.0])
    settings = argparse.Namespace(
        encoder_attention_heads=3,
        decoder_attention_heads=2,
        activation_fn="gelu",
        no_scale_embedding=True,
        encoder_normalize_before=False,
        decoder_normalize_before=False,
    )
    torch.save({"args": settings, "model": weights}, tmp_path / "model.pt")
    params, config, *_ = fairseq_bart.read(tmp_path / "model.pt")
    assert config.max_length == 30
    want = theirs(model)
    assert np.abs(want).max() > 1
    np.testing.assert_allclose(ours(config, params), want, TOLERANCE, TOLERANCE)


def test_an_led_of_allenai_gives_the_logits_of_the_live_model(tmp_path):
    torch = pytest.importorskip("torch")
    model = live(
        "LED",
        max_encoder_position_embeddings=32,
        max_decoder_position_embeddings=20,
        attention_window=[4, 8],
    )
    weights = {}
    for name, x in model.state_dict().items():
        if "embed_positions" in name:
            # Rows that nothing reads.
            x = torch.cat([torch.full((2, 12), torch.nan), x])
        weights[name.replace("led.", "model.", 1)] = x.clone()
    del weights["lm_head.weight"]
    torch.save(weights, tmp_path / "pytorch_model.bin")
    values = {
        **SIZES,
        "model_type": "bart",
        "architectures": ["LongformerEncoderDecoderForConditionalGeneration"],
        "max_encoder_position_embeddings": 32,
        "max_decoder_position_embeddings": 20,
        "attention_mode": "sliding_chunks",
        # Of one side.
        "attention_window": [2, 4],
        "attention_dilation": [1, 1],
        "autoregressive": False,
        "gradient_checkpointing": False,
    }
    (tmp_path / "config.json").write_text(json.dumps(values))
    found = hugging_face.read(tmp_path)
    is_global = np.zeros_like(TOKENS)
    is_global[:, [0, 9]] = 1
    want = theirs(model, global_attention_mask=is_global)
    assert np.abs(want).max() > 1
    got = ours(found.config, found.params, is_global)
    np.testing.assert_allclose(got, want, TOLERANCE, TOLERANCE)
