"""Random encoder-decoders of transformers in float64: every output and gradient."""

import dataclasses
import random

import double_precision
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parity.encoder_decoders import every_output, hidden_states
from parity.peers import token_loss
from random_encoder_decoders import FAMILIES, VOCABULARY, random_params

from etc_jax.conversion import hugging_face
from etc_jax.data.pretraining.global_tokens import global_index
from etc_jax.models.encoder_decoder import weights as conversion
from etc_jax.models.encoder_decoder.body import EncoderDecoder
from etc_jax.models.led.config import LedConfig

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("float64")]

TOLERANCE = 1e-9
QUICK, ALL = 8, 40


def _batch(config, rng: np.random.Generator) -> dict[str, np.ndarray]:
    n, m = rng.integers(1, 50), rng.integers(1, 20)
    tokens = rng.integers(3, VOCABULARY, (2, n))
    mask = np.ones_like(tokens)
    if padding := rng.integers(0, n):
        mask[1, -padding:] = 0
        tokens[1, -padding:] = config.pad_id
    labels = rng.integers(3, VOCABULARY, (2, m))
    start = np.full((2, 1), config.decoder_start_id)
    batch = {
        "input_ids": tokens,
        "attention_mask": mask,
        "decoder_input_ids": np.concatenate([start, labels[:, :-1]], axis=1),
        "labels": np.where(np.arange(m) < [[m], [(m + 1) // 2]], labels, -100),
    }
    if isinstance(config, LedConfig):
        is_global = rng.integers(0, 4, tokens.shape) == 0
        is_global[:, 0] = True
        batch["global_attention_mask"] = is_global * mask
    return batch


def _theirs(folder, batch):
    """(outputs, gradients by name) of the model in a folder."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = transformers.AutoConfig.from_pretrained(folder)
    kind = getattr(transformers, config.architectures[0])
    model = kind.from_pretrained(folder, attn_implementation="eager").double().eval()
    inputs = {name: torch.tensor(x).long() for name, x in batch.items()}
    with double_precision.theirs():
        out = model(**inputs, output_hidden_states=True)
        out.loss.backward()
    gradients = {
        name: x.grad.numpy() for name, x in model.named_parameters() if x.requires_grad
    }
    return out, gradients


def _ours(config, params, batch):
    """(every output, hidden states of both sides, loss, gradients by name)."""
    model = EncoderDecoder(dataclasses.replace(config, dtype="float64"))
    params = jax.tree.map(lambda x: np.asarray(x, np.float64), params)
    names = "input_ids decoder_input_ids attention_mask".split()
    more = batch.get("global_attention_mask")
    index = None if more is None else global_index(more)
    inputs = (*(jnp.asarray(batch[name]) for name in names), None, index)

    @jax.jit
    def run(params):
        def loss(params):
            apply, more = model.apply, {"mutable": ["intermediates"]}
            out, found = apply({"params": params}, *inputs, method=every_output, **more)
            return token_loss(out[2], jnp.asarray(batch["labels"])), (out, found)

        return jax.value_and_grad(loss, has_aux=True)(params)

    (loss, ((encoded, decoded, logits), found)), gradients = run(params)
    found = found["intermediates"]
    states = {
        "encoder_hidden_states": hidden_states(
            found["encoder"], encoded, len(config.patterns)
        ),
        "decoder_hidden_states": hidden_states(found["decoder"], decoded),
    }
    gradients = conversion.export_hf(gradients, config)
    return logits, loss, states, gradients


def _close(got, want, what: str) -> None:
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype == np.float64, what
    scale = max(1.0, np.abs(want).max(initial=0.0))
    assert got.shape == want.shape, what
    assert np.abs(got - want).max(initial=0.0) <= TOLERANCE * scale, what


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(i, marks=() if i < QUICK else (pytest.mark.full,))
        for i in range(ALL)
    ],
)
def test_transformers_computes_the_same(seed, tmp_path):
    config = FAMILIES[seed % len(FAMILIES)](random.Random(seed))
    params = random_params(config, seed)
    hugging_face.save(tmp_path / "model", params, config)
    back = hugging_face.read(tmp_path / "model")
    assert back.config == config
    jax.tree.map(np.testing.assert_array_equal, back.params, params)
    batch = _batch(config, np.random.default_rng(seed))
    want, their_gradients = _theirs(tmp_path / "model", batch)
    logits, loss, states, gradients = _ours(config, params, batch)
    real = batch["attention_mask"] > 0
    for name, found in states.items():
        keep = real if name.startswith("enc") else np.ones(logits.shape[:2], bool)
        for i, (x, y) in enumerate(zip(found, want[name], strict=True)):
            y = y.detach().numpy()
            _close(np.asarray(x)[keep], y[keep], f"{name}.{i}")
    _close(logits, want.logits.detach().numpy(), "logits")
    _close(loss, want.loss.detach().numpy(), "loss")
    assert their_gradients.keys() <= gradients.keys()
    for name, gradient in their_gradients.items():
        _close(gradients[name].reshape(gradient.shape), gradient, name)
